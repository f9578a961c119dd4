package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/stats"
	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func openLog(t testing.TB, b []byte) *Log {
	t.Helper()
	l, err := OpenLog(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func openReplay(t *testing.T, b []byte, o ReplayOptions) *Replay {
	t.Helper()
	return NewReplay(openLog(t, b), o)
}

func TestReplayGivesWhatLiveGave(t *testing.T) {
	rec := record(t, 5, 3000)
	r := openReplay(t, rec.bytes, ReplayOptions{})
	var calls []events.Call
	var lives []tick.ProcEvent
	sketches := map[opKey]*stats.Sketch{}
	polls := 0
	for {
		r.Due(new(tick.Tick))
		var b tick.Batch
		more, err := r.Poll(&b)
		calls, lives = append(calls, b.Calls...), append(lives, b.Procs...)
		for i := range b.Calls {
			c := &b.Calls[i]
			k := opKey{c.PID, c.Op}
			if sketches[k] == nil {
				sketches[k] = &stats.Sketch{}
			}
			if c.Flags&events.CallUnmeasured == 0 {
				sketches[k].Add(c.Duration, c.Weight)
			}
		}
		polls++
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("poll %d: more %v with %d calls, error %v", polls, more, len(b.Calls), err)
		}
	}
	storetest.SameCalls(t, rec.calls, calls)
	if d := diff.Diff(rec.lives, lives); d != "" {
		t.Errorf("lives -want +got:\n%s", d)
	}
	var got tick.Tick
	if err := r.Totals(&got); err != nil {
		t.Fatal(err)
	}
	storetest.SameTotals(t, rec.final, &got)
	if len(calls) == 0 {
		t.Error("there are no calls")
	}
	for i := range rec.final.Ops {
		o := &rec.final.Ops[i]
		if s := sketches[opKey{o.PID, o.Op}]; s.Count() != o.Dur.Count() || s.Quantile(0.99) != o.Dur.Quantile(0.99) {
			t.Errorf("%s: distribution differs", o.Op)
		}
	}
	// The replay stops at the due time of the last tick, 5 s in recorded time.
	if d := r.Now().Sub(storetest.Began); d < 5*time.Second || d > 5100*time.Millisecond {
		t.Errorf("the replay took %v of recorded time, want 5 s", d)
	}
}

// Nothing arrives before its time, and totals match that time.
func TestReplayKeepsTime(t *testing.T) {
	rec := record(t, 3, 100)
	clock := time.Unix(1000, 0)
	r := openReplay(t, rec.bytes, ReplayOptions{Speed: 2, Now: func() time.Time { return clock }})
	seen := 0
	for ms := 0; ; ms++ {
		var b tick.Batch
		var err error
		for more := true; more; more = err == nil && (more || r.Due(new(tick.Tick))) {
			more, err = r.Poll(&b)
		}
		now := storetest.Began.Add(time.Duration(2*ms) * time.Millisecond)
		if !r.Now().Equal(now) {
			t.Fatalf("after %d ms the recording is at %v, want %v", ms, r.Now(), now)
		}
		for i := range b.Calls {
			if b.Calls[i].End() > now.UnixNano() {
				t.Fatalf("a call that ended at %d arrived at %v", b.Calls[i].End(), now)
			}
		}
		seen += len(b.Calls)
		var got tick.Tick
		if err := r.Totals(&got); err != nil {
			t.Fatal(err)
		}
		if want := min(uint64(2*ms/1000), 3); want > 0 && (len(got.Drops) == 0 || got.Drops[0].Count != want) {
			t.Fatalf("after %d ms the totals have drops %v, want those of tick %d", ms, got.Drops, want)
		}
		if errors.Is(err, io.EOF) {
			if ms != 1500 {
				t.Errorf("the replay ended after %d ms, want 1500", ms)
			}
			break
		}
		clock = clock.Add(time.Millisecond)
	}
	if seen != len(rec.calls) {
		t.Errorf("%d calls, want %d", seen, len(rec.calls))
	}
}

// A recording whose first records were deleted is replayed from its first event on, not from the start
// of its session.
func TestReplayBeginsAtTheFirstEvent(t *testing.T) {
	m, w := beginLog(t, Head{})
	from := storetest.Began.Add(3 * time.Hour)
	for i := range int64(3) {
		w.Add(&tick.Batch{Calls: []events.Call{{Start: from.UnixNano() + i*10e6, Duration: 2e6, Weight: 1}}})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(1000, 0)
	r := openReplay(t, m.Bytes(), ReplayOptions{Speed: 1, Now: func() time.Time { return clock }})
	for i := range 3 {
		calls := 0
		for more := true; more; more = more || r.Due(new(tick.Tick)) {
			var b tick.Batch
			var err error
			if more, err = r.Poll(&b); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			calls += len(b.Calls)
		}
		if calls != 1 || r.Now().Before(from) {
			t.Errorf("after %d0 ms: %d calls at %v, want one after %v", i, calls, r.Now(), from)
		}
		clock = clock.Add(10 * time.Millisecond)
	}
}

func TestReplayOfCutLogEnds(t *testing.T) {
	rec := record(t, 3, 1000)
	r := openReplay(t, rec.bytes[:len(rec.bytes)*2/3], ReplayOptions{})
	var b tick.Batch
	var err error
	for range 1000 {
		r.Due(new(tick.Tick))
		if _, err = r.Poll(&b); err != nil {
			break
		}
	}
	if !errors.Is(err, io.EOF) || len(b.Calls) == 0 || len(b.Calls) >= len(rec.calls) {
		t.Errorf("%d of %d calls, error %v", len(b.Calls), len(rec.calls), err)
	}
}

func TestReplayOfDamagedLogSaysSo(t *testing.T) {
	rec := record(t, 3, 1000)
	rec.bytes[len(rec.bytes)*2/3] ^= 4
	r := openReplay(t, rec.bytes, ReplayOptions{})
	var b tick.Batch
	_, err := r.Poll(&b)
	for err == nil {
		r.Due(new(tick.Tick))
		_, err = r.Poll(&b)
	}
	if !errors.Is(err, log.ErrCorrupt) || len(b.Calls) == 0 {
		t.Errorf("%d calls, error %v", len(b.Calls), err)
	}
}

// A replay continues after each damaged frame of calls, and says between which times records are missing.
func TestReplayContinuesAfterDamage(t *testing.T) {
	rec := record(t, 5, 2*frameCallsMax)
	for name, whole := range map[string][]byte{"open": rec.bytes, "sealed": sealed(t, rec.bytes)} {
		var calls []int
		f := log.Reader{From: bytes.NewReader(whole), Size: int64(len(whole)), Offset: int64(len(log.Magic))}
		for at := f.Offset; at < f.Size-tailSize; at = f.Offset {
			if kind, _, _, err := f.Next(); err != nil {
				t.Fatal(err)
			} else if kind == frameCalls {
				calls = append(calls, int(at))
			}
		}
		if len(calls) < 5 {
			t.Fatalf("%s: %d frames of calls", name, len(calls))
		}
		for _, at := range []int{calls[1] + 1, calls[1] + log.HeadSize + 7, calls[len(calls)-1] + 1} { // heads and a body
			b := bytes.Clone(whole)
			b[at] ^= 1
			replayDamaged(t, fmt.Sprint(name, ", byte ", at), b, &rec)
		}
	}
}

// Damage to the heads of frames among merged calls loses no call, and repeats none.
func TestReplayAfterDamagedHeads(t *testing.T) {
	rec := record(t, 5, 2*frameCallsMax)
	b := sealed(t, rec.bytes)
	f := log.Reader{From: bytes.NewReader(b), Size: int64(len(b)), Offset: int64(len(log.Magic))}
	inBlock := false
	var heads []int64 // of frames of a block that have no calls
	for at := f.Offset; at < f.Size-tailSize && len(heads) < 3; at = f.Offset {
		kind, _, _, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch kind {
		case frameBlock:
			inBlock, heads = true, heads[:0]
		case frameCalls, frameWaits:
			heads = heads[:0]
		default:
			if inBlock {
				heads = append(heads, at)
			}
		}
	}
	if len(heads) < 3 {
		t.Fatal("no block with three frames in a row that have no calls")
	}
	b[heads[0]+1] ^= 1
	b[heads[1]+1] ^= 1
	times := 0
	r := openReplay(t, b, ReplayOptions{Damaged: func(error, time.Time, time.Time) { times++ }})
	var got []events.Call
	var err error
	for err == nil {
		var some tick.Batch
		_, err = r.Poll(&some)
		r.Due(new(tick.Tick))
		got = append(got, some.Calls...)
	}
	if !errors.Is(err, io.EOF) || times != 1 {
		t.Errorf("reported %d times: %v", times, err)
	}
	if !slices.Equal(got, rec.calls) {
		t.Errorf("%d calls, want the %d recorded ones", len(got), len(rec.calls))
	}
}

// replayDamaged replays a log with one damaged frame of calls.
func replayDamaged(t *testing.T, name string, b []byte, rec *recorded) {
	t.Helper()
	var from, to time.Time
	times := 0
	r := openReplay(t, b, ReplayOptions{Damaged: func(err error, after, before time.Time) {
		if times++; !errors.Is(err, log.ErrCorrupt) {
			t.Errorf("%s: error %v", name, err)
		}
		from, to = after, before
	}})
	var got tick.Batch
	var last tick.Tick
	_, err := r.Poll(&got)
	for ; err == nil; _, err = r.Poll(&got) {
		r.Due(&last)
	}
	if !errors.Is(err, io.EOF) || times != 1 || !last.Final {
		t.Errorf("%s: reported %d times, final tick %v: %v", name, times, last.Final, err)
	}
	left := map[events.Call]int{}
	for i := range got.Calls {
		left[got.Calls[i]]++
	}
	missing := 0
	for _, c := range rec.calls {
		if left[c]--; left[c] >= 0 {
			continue
		}
		if missing++; c.End() < from.UnixNano()-50e6 || c.End() > to.UnixNano()+50e6 {
			t.Fatalf("%s: a call that ended at %d is missing, not only between %d and %d", name, c.End(), from.UnixNano(), to.UnixNano())
		}
	}
	if missing == 0 || missing > frameCallsMax || len(got.Calls)+missing != len(rec.calls) {
		t.Errorf("%s: %d of %d calls, %d are missing", name, len(got.Calls), len(rec.calls), missing)
	}
}

func TestReplayStops(t *testing.T) {
	r := openReplay(t, record(t, 1, 10).bytes, ReplayOptions{})
	if err := errors.Join(r.Stop(), r.Stop()); err != nil {
		t.Fatal(err)
	}
	var b tick.Batch
	if more, err := r.Poll(&b); more || !errors.Is(err, io.EOF) || len(b.Calls) != 0 {
		t.Errorf("after Stop: more %v, error %v, %d calls", more, err, len(b.Calls))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
