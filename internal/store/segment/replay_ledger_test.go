package segment

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// polls replays a log to its end and returns each poll's batch.
func polls(t *testing.T, r *Replay) (out []tick.Batch) {
	t.Helper()
	for {
		r.Due(new(tick.Tick))
		for more := true; more; {
			var b tick.Batch
			var err error
			more, err = r.Poll(&b)
			out = append(out, b)
			if errors.Is(err, io.EOF) {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// job returns batches like a session's. A thread's waits in and before a call come in that call's
// batch or an earlier one; calls of different threads are in no particular order.
func job(seed uint64, n int) (batches []tick.Batch) {
	r := rand.New(rand.NewPCG(seed, 3))
	var at [5]int64
	for range n {
		var b tick.Batch
		for range r.IntN(400) {
			tid := r.IntN(len(at))
			now := &at[tid]
			*now = max(*now, int64(len(batches))*8e6) + r.Int64N(3e4)
			c := events.Call{PID: 7, TID: uint32(tid), Op: storetest.OpLaunch, Weight: 1, Start: storetest.Began.UnixNano() + *now, Duration: r.Int64N(9e4)}
			for ; r.IntN(3) == 0; *now += 2e4 {
				b.Waits = append(b.Waits, events.Wait{PID: 7, TID: uint32(tid), Start: storetest.Began.UnixNano() + *now, Duration: r.Int64N(2e4), State: events.WaitBlocked})
			}
			c.Duration += storetest.Began.UnixNano() + *now - c.Start
			*now = c.End() - storetest.Began.UnixNano()
			b.Calls = append(b.Calls, c)
		}
		if len(batches) > 0 && r.IntN(4) == 0 { // a wait may come long before its call
			batches[len(batches)-1].Waits = append(batches[len(batches)-1].Waits, b.Waits...)
			b.Waits = nil
		}
		batches = append(batches, b)
	}
	return batches
}

// On replay, as live, a thread's waits up to a call's return precede or accompany the call,
// whatever the frames and the speed.
func TestReplayKeepsWaitsBeforeTheirCalls(t *testing.T) {
	for seed := range uint64(2) {
		m, w := beginLog(t, Head{})
		var live tick.Batch
		for i, b := range job(seed, 200) {
			live.Calls, live.Waits = append(live.Calls, b.Calls...), append(live.Waits, b.Waits...)
			w.Add(&b)
			if i == 120 || i == 150 { // full frames also end within a batch
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, part := range []bool{false, true} { // with a partial view, batches are unknown
			l := openLog(t, m.Bytes())
			if part {
				l.Window(0, math.MaxInt64)
			}
			var all tick.Batch
			got := polls(t, NewReplay(l, ReplayOptions{}))
			for i := range got {
				all.Calls, all.Waits = append(all.Calls, got[i].Calls...), append(all.Waits, got[i].Waits...)
				if len(got[i].Waits) > replayBatch {
					t.Fatalf("a poll with %d waits", len(got[i].Waits))
				}
			}
			storetest.SameCalls(t, live.Calls, all.Calls)
			storetest.SameWaits(t, live.Waits, all.Waits)
			if late := lateWaits(got); late > 0 {
				t.Errorf("seed %d, of a part %v: %d waits came after their call", seed, part, late)
			}
		}
	}
}

// lateWaits counts the waits that follow a call of their thread that returned no earlier than they
// ended.
func lateWaits(polls []tick.Batch) (late int) {
	returned := map[uint32]int64{}
	for i := range polls {
		for j := range polls[i].Waits {
			if w := &polls[i].Waits[j]; w.End() <= returned[w.TID] {
				late++
			}
		}
		for j := range polls[i].Calls {
			c := &polls[i].Calls[j]
			returned[c.TID] = max(returned[c.TID], c.End())
		}
	}
	return late
}

// Batches are replayed as recorded, however the log was cut into frames.
func TestReplayKeepsBatches(t *testing.T) {
	m, w := beginLog(t, Head{})
	batches := job(9, 150)
	batches[3].Procs = []tick.ProcEvent{{Time: storetest.Began.UnixNano(), Kind: tick.ProcForked, PID: 7, Peer: 8}}
	batches[140].Functions = []events.Function{{PID: 7, Handle: 1, Name: "f"}}
	batches[60].Ranges, batches[61].Ranges = someRanges(5), someRanges(2)
	batches[62].Labels = []tick.Label{{Time: storetest.Began.UnixNano(), PID: 1, Key: "epoch", Value: "3"}}
	batches[141].Stacks = []events.Stack{{ID: 5, PID: 7, Frames: []events.Frame{{Kind: events.FrameNative, Func: "main"}}}}
	for i := range batches {
		w.Add(&batches[i])
		var err error
		switch {
		case i%40 == 10:
			err = w.Flush()
		case i == 70:
			err = w.Tick(storetest.NewKernel().Tick(1, storetest.Began.Add(time.Second), false), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	size := func(b *tick.Batch) batchSize {
		return batchSize{len(b.Calls), len(b.Waits), len(b.Procs), len(b.Functions), len(b.Stacks), len(b.Ranges), len(b.Labels)}
	}
	for _, log := range [][]byte{m.Bytes(), sealed(t, m.Bytes())} {
		var got, want []batchSize
		for _, b := range polls(t, openReplay(t, log, ReplayOptions{})) {
			if n := size(&b); n != (batchSize{}) {
				got = append(got, n)
			}
		}
		for i := range batches {
			if n := size(&batches[i]); n != (batchSize{}) {
				want = append(want, n)
			}
		}
		if d := diff.Diff(want, got); d != "" {
			t.Errorf("batches -live +replay:\n%s", d)
		}
	}
}

// With a speed, records are replayed when they are due.
func TestReplayDoesNotHoldRecordsBack(t *testing.T) {
	m, w := beginLog(t, Head{})
	for i := range int64(20) { // one frame of waits and one of calls
		at := storetest.Began.UnixNano() + i*10e6
		w.Add(&tick.Batch{Calls: []events.Call{{Start: at, Duration: 2e6, Weight: 1}}, Waits: []events.Wait{{Start: at, Duration: 1e6}}})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(1000, 0)
	r := openReplay(t, m.Bytes(), ReplayOptions{Speed: 1, Now: func() time.Time { return clock }})
	for i := range 20 {
		clock = clock.Add(10 * time.Millisecond)
		var b tick.Batch
		var err error
		for more := true; more; {
			if more, err = r.Poll(&b); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		if len(b.Calls) != 1 || len(b.Waits) != 1 {
			t.Errorf("after %d0 ms: %d calls and %d waits, want one of each", i+1, len(b.Calls), len(b.Waits))
		}
	}
}

// Replayed accounts equal those of the live ticks; an ended thread is in one batch and in one tick.
func TestReplayOfThreads(t *testing.T) {
	m, w := beginLog(t, Head{})
	k := storetest.NewKernel()
	var ticks []*tick.Tick
	for i := range 12 {
		x := k.Tick(uint64(i+1), storetest.Began.Add(time.Duration(i+1)*time.Second), i == 11)
		if i == 6 { // exec: one account ended, another began
			again := x.Threads[3]
			x.Threads[3].Ended = true
			again.Since, again.Comm, again.InCalls = again.Until-5, "sh", tick.Times{OnCPU: 5}
			x.Threads = slices.Insert(x.Threads, 4, again)
		}
		ticks = append(ticks, x)
		if err := errors.Join(w.Tick(x, 0), w.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	r := openReplay(t, m.Bytes(), ReplayOptions{})
	for i, want := range ticks {
		var b tick.Batch
		var got tick.Tick
		if _, err := r.Poll(&b); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if !r.Due(&got) || !got.Time.Equal(want.Time) || got.Seq != want.Seq || got.Final != want.Final {
			t.Errorf("tick %d at %v, want %d at %v", got.Seq, got.Time, want.Seq, want.Time)
		}
		if err := r.Totals(&got); err != nil {
			t.Fatal(err)
		}
		if d := diff.Diff(want.Threads, got.Threads); d != "" {
			t.Fatalf("tick %d: threads -live +replay:\n%s", i+1, d)
		}
		running := slices.DeleteFunc(got.Threads, func(t tick.Thread) bool { return t.Ended })
		if len(running)+len(b.Ended) != len(want.Threads) {
			t.Errorf("tick %d: the batch has %d ended threads of %d", i+1, len(b.Ended), len(want.Threads)-len(running))
		}
		var again tick.Tick
		if err := r.Totals(&again); err != nil || len(again.Threads) != len(running) {
			t.Errorf("tick %d: asked again there are %d threads, want the %d that run (%v)", i+1, len(again.Threads), len(running), err)
		}
	}
}

// Recordings without waits, threads and throttled time are readable.
func TestLogOfTheFirstVersion(t *testing.T) {
	b, err := os.ReadFile("testdata/v1.ilog")
	if err != nil {
		t.Fatal(err)
	}
	got, torn, err := readAll(b)
	if err != nil || torn != 0 {
		t.Fatalf("error %v, %d torn", err, torn)
	}
	g, k := storetest.NewGenerator(5), storetest.NewKernel()
	var want []events.Call
	for range 3 {
		want = g.Calls(want, 60)
	}
	for i := range want {
		want[i].Device = 0 // did not exist then
	}
	seen := slices.Clone(want)
	k.See(seen)
	storetest.SameCalls(t, want, got.calls)
	if len(got.waits) != 0 || len(got.threads) != 0 || len(got.ticks) != 3 || len(got.lives) != 3 || got.end == nil {
		t.Errorf("%d waits, %d threads, ticks %v, %d lives, end %v", len(got.waits), len(got.threads), got.ticks, len(got.lives), got.end)
	}
	r := openReplay(t, b, ReplayOptions{})
	polls(t, r)
	final, replayed := k.Tick(3, storetest.Began.Add(3*time.Second), true), &tick.Tick{}
	final.Threads, final.Others = nil, nil
	if err := r.Totals(replayed); err != nil {
		t.Fatal(err)
	}
	storetest.SameTotals(t, final, replayed)
}

// Frames use the earliest version that can hold their content.
func TestCallsAreOfTheEarliestVersion(t *testing.T) {
	for want, c := range map[uint8]events.Call{
		1: {Duration: 10, OnCPU: 4, Blocked: 6, Gap: 5, GapOnCPU: 5},
		2: {Duration: 10, OnCPU: 4, Throttled: 6},
		3: {Duration: 10, OnCPU: 10, Device: 1},
	} {
		m, w := beginLog(t, Head{})
		w.Add(&tick.Batch{Calls: []events.Call{c, c}})
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		f := log.Reader{From: bytes.NewReader(m.Bytes()), Size: int64(m.Len()), Offset: int64(len(log.Magic))}
		for kind := frameSession; kind != frameCalls; {
			var version uint8
			var err error
			if kind, version, _, err = f.Next(); err != nil || kind == frameCalls && version != want {
				t.Errorf("frame of kind %d, version %d, error %v, want version %d", kind, version, err, want)
			}
		}
	}
}

// After lost frames, batches lack their content, and later batches are complete again. A batch
// without an end does not hold back everything after it.
func TestSheafOfLostFrames(t *testing.T) {
	calls := func(n int) *Entry { return &Entry{Calls: make([]events.Call, n)} }
	var s rebatcher
	var got []int
	drain := func() {
		for n, ok := s.next(); ok; n, ok = s.next() {
			s.give(&tick.Batch{}, n)
			got = append(got, n.Calls)
		}
	}
	s.begin(&Entry{batches: []batchSize{{Calls: 2}, {Calls: 3}, {Calls: 4}}, open: true})
	s.take(calls(4))
	drain()
	if !s.lacks() {
		t.Error("a batch of 3 calls that has 2 lacks nothing")
	}
	n, _ := s.rest()
	s.give(&tick.Batch{}, n)
	got = append(got, n.Calls)
	s.begin(&Entry{batches: []batchSize{{Calls: 1}, {Calls: 1}}})
	s.take(calls(2))
	drain()
	s.begin(&Entry{batches: []batchSize{{Calls: 1}}, open: true})
	s.take(calls(maxPending + 1))
	drain()
	if d := diff.Diff([]int{2, 2, 1, 1, maxPending + 1}, got); d != "" {
		t.Errorf("batches -want +got:\n%s", d)
	}
}
