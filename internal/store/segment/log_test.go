package segment

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func testSession() Session {
	return Session{ID: "gpu-7-test", Node: "gpu-7", Started: storetest.Began, MonoOffset: 1_795_000_000_123_456_789,
		Version: "1.0.0", Kernel: "6.18.0", Mode: "trace", Target: "pid 4821 (python3)", PID: 99}
}

// memory is a log file in memory.
type memory struct{ bytes.Buffer }

func (m *memory) Truncate(n int64) error {
	m.Buffer.Truncate(int(n))
	return nil
}

// beginLog begins a log of the test's session.
func beginLog(t testing.TB, h Head) (*memory, *Writer) {
	t.Helper()
	m := &memory{}
	h.Session = testSession()
	w, err := newWriter(m, &h)
	if err != nil {
		t.Fatal(err)
	}
	return m, w
}

// recorded is the content of a log.
type recorded struct {
	calls []events.Call
	waits []events.Wait
	lives []tick.ProcEvent
	final *tick.Tick
	bytes []byte
}

// record writes a log of n seconds with calls calls in each.
func record(t testing.TB, n, calls int) recorded {
	t.Helper()
	var rec recorded
	m, w := beginLog(t, Head{})
	g, k := storetest.NewGenerator(5), storetest.NewKernel()
	for i := range n {
		got := g.Calls(nil, calls)
		b := tick.Batch{Calls: got, Waits: g.Waiting.Waits(nil, calls/10, storetest.Began.Add(time.Duration(i)*time.Second), time.Second), Procs: []tick.ProcEvent{
			{Time: storetest.Began.UnixNano() + int64(i)*1e6, Kind: tick.ProcForked, PID: 4821, TID: 5000, Peer: uint32(4900 + i), Comm: "python3"}}}
		b.Functions = launched(got)
		k.See(got)
		w.Add(&b)
		rec.calls, rec.waits, rec.lives = append(rec.calls, got...), append(rec.waits, b.Waits...), append(rec.lives, b.Procs...)
		rec.final = k.Tick(uint64(i+1), storetest.Began.Add(time.Duration(i+1)*time.Second), i == n-1)
		if err := errors.Join(w.Tick(rec.final, 0), w.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.End(End{Time: rec.final.Time, State: "ended"}), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if w.file.Size() != int64(m.Len()) {
		t.Fatalf("the writer counts %d bytes, the file has %d", w.file.Size(), m.Len())
	}
	rec.bytes = m.Bytes()
	return rec
}

// all is everything in a log.
type all struct {
	calls   []events.Call
	waits   []events.Wait
	lives   []tick.ProcEvent
	threads []tick.Thread // of the last tick
	ticks   []uint64
	procs   int
	libs    int
	reports int
	end     *End
}

func readAll(b []byte) (a all, torn int64, err error) {
	l, err := OpenLog(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return a, 0, err
	}
	return readEntries(l)
}

func readEntries(l *Log) (a all, torn int64, err error) {
	var e Entry
	for {
		if err := l.Next(&e); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return a, l.Torn(), err
		}
		a.calls, a.waits, a.lives = append(a.calls, e.Calls...), append(a.waits, e.Waits...), append(a.lives, e.Lives...)
		switch {
		case e.Tick != nil:
			a.ticks, a.threads = append(a.ticks, e.Tick.Seq), e.Tick.Threads
		case e.Process != nil:
			a.procs++
		case e.Library != nil:
			a.libs++
		case e.Report != nil:
			a.reports++
		case e.End != nil:
			a.end = e.End
		}
	}
}

func TestLogReadsBack(t *testing.T) {
	rec := record(t, 4, 20_000)
	got, torn, err := readAll(rec.bytes)
	if err != nil || torn != 0 {
		t.Fatalf("error %v, %d bytes torn", err, torn)
	}
	storetest.SameCalls(t, rec.calls, got.calls)
	storetest.SameWaits(t, rec.waits, got.waits)
	if d := diff.Diff(rec.lives, got.lives); d != "" {
		t.Errorf("lives -want +got:\n%s", d)
	}
	if d := diff.Diff(rec.final.Threads, got.threads); d != "" {
		t.Errorf("threads -want +got:\n%s", d)
	}
	// Two processes, each before and after its end; one library and one report.
	if !slices.Equal(got.ticks, []uint64{1, 2, 3, 4}) || got.procs != 4 || got.libs != 1 || got.reports != 1 {
		t.Errorf("ticks %v, %d processes, %d libraries, %d reports", got.ticks, got.procs, got.libs, got.reports)
	}
	if got.end == nil || got.end.State != "ended" {
		t.Errorf("end = %+v", got.end)
	}
	if d := diff.Diff(testSession(), openLog(t, rec.bytes).Session()); d != "" {
		t.Errorf("session -want +got:\n%s", d)
	}
}

func TestLogCutAtEveryByte(t *testing.T) {
	rec := record(t, 3, 12)
	calls, ticks := -1, -1
	for n := range len(rec.bytes) + 1 {
		got, torn, err := readAll(rec.bytes[:n])
		if errors.Is(err, log.ErrNotLog) {
			if calls >= 0 {
				t.Fatalf("%d bytes are no log, fewer were one", n)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if len(got.calls) < calls || len(got.ticks) < ticks {
			t.Fatalf("cut at %d: %d calls, %d ticks; there were %d, %d with a byte less", n, len(got.calls), len(got.ticks), calls, ticks)
		}
		calls, ticks = len(got.calls), len(got.ticks)
		if !slices.Equal(got.calls, rec.calls[:calls]) {
			t.Fatalf("cut at %d: calls changed", n)
		}
		if whole := n == len(rec.bytes); whole != (got.end != nil) || whole && torn != 0 {
			t.Fatalf("cut at %d of %d: end %v, %d torn", n, len(rec.bytes), got.end, torn)
		}
	}
	if calls != len(rec.calls) || ticks != 3 {
		t.Errorf("the whole has %d calls, %d ticks, want %d, 3", calls, ticks, len(rec.calls))
	}
}

// Any changed bit is detected, and nothing before it is lost.
func TestLogWithAnyBitChanged(t *testing.T) {
	t.Parallel()
	rec := record(t, 2, 4)
	bounds := frameBounds(t, rec.bytes)
	var before []all // content of the frames up to each bound
	for _, n := range bounds {
		a, _, err := readAll(rec.bytes[:n])
		if err != nil && !errors.Is(err, log.ErrNotLog) {
			t.Fatal(err)
		}
		before = append(before, a)
	}
	b := bytes.Clone(rec.bytes)
	for bit := range len(b) * 8 {
		at := bit / 8
		frame, _ := slices.BinarySearch(bounds, at+1)
		if head := at < len(log.Magic) || at-bounds[max(frame-1, 0)] < log.HeadSize; !head && bit%8 != at%8 {
			continue // one bit per byte of a body: its checksum detects any
		}
		b[at] ^= 1 << (bit % 8)
		got, _, err := readAll(b)
		b[at] ^= 1 << (bit % 8)
		want := log.ErrCorrupt
		if at < len(log.Magic) {
			want = log.ErrNotLog
		}
		if !errors.Is(err, want) {
			t.Fatalf("bit %d of byte %d: error %v, want %v", bit%8, at, err, want)
		}
		if w := before[max(frame-1, 0)]; len(got.calls) != len(w.calls) || len(got.ticks) != len(w.ticks) {
			t.Fatalf("byte %d: %d calls, %d ticks, want %d, %d", at, len(got.calls), len(got.ticks), len(w.calls), len(w.ticks))
		}
	}
}

// frameBounds returns the frames' end offsets.
func frameBounds(t *testing.T, b []byte) []int {
	t.Helper()
	f := log.Reader{From: bytes.NewReader(b), Size: int64(len(b)), Offset: int64(len(log.Magic))}
	bounds := []int{len(log.Magic)}
	for {
		if _, _, _, err := f.Next(); err != nil {
			if int(f.Offset) != len(b) {
				t.Fatalf("frames end at %d of %d: %v", f.Offset, len(b), err)
			}
			return bounds
		}
		bounds = append(bounds, int(f.Offset))
	}
}

func TestLogEndsAtZeros(t *testing.T) {
	rec := record(t, 1, 30)
	got, torn, err := readAll(append(bytes.Clone(rec.bytes), make([]byte, 4096)...))
	if err != nil || torn != 4096 || len(got.calls) != len(rec.calls) || got.end == nil {
		t.Errorf("error %v, torn %d, %d calls, end %v", err, torn, len(got.calls), got.end)
	}
}

func TestLogOfTheFuture(t *testing.T) {
	rec := record(t, 1, 30)
	unknown := log.Append(bytes.Clone(rec.bytes), frameKinds+7, 1, []byte("whatever"))
	got, torn, err := readAll(unknown)
	if err != nil || torn != 0 || len(got.calls) != len(rec.calls) {
		t.Errorf("an unknown kind: error %v, torn %d, %d calls", err, torn, len(got.calls))
	}
	for kind := frameCalls; kind < frameKinds; kind++ {
		newer := log.Append(bytes.Clone(rec.bytes), kind, latest(kind)+1, nil)
		got, _, err = readAll(newer)
		if !errors.Is(err, log.ErrVersion) || len(got.calls) != len(rec.calls) {
			t.Errorf("kind %d, a newer version: error %v, %d calls", kind, err, len(got.calls))
		}
	}
}

func TestLogWindow(t *testing.T) {
	rec := record(t, 1, 3*frameCallsMax)
	l := openLog(t, rec.bytes)
	starts := make([]int64, 0, len(rec.calls))
	for i := range rec.calls {
		starts = append(starts, rec.calls[i].Start)
	}
	slices.Sort(starts)
	from, to := starts[len(starts)/2], starts[len(starts)/2+100]
	inside := func(calls []events.Call) (n int) {
		for i := range calls {
			if c := &calls[i]; c.Start < to && c.End() >= from {
				n++
			}
		}
		return n
	}
	l.Window(from, to)
	var e Entry
	read, found := 0, 0
	err := l.Next(&e)
	for ; err == nil; err = l.Next(&e) {
		read += len(e.Calls)
		found += inside(e.Calls)
	}
	if want := inside(rec.calls); !errors.Is(err, io.EOF) || found != want || want < 100 {
		t.Errorf("found %d of %d (%v)", found, want, err)
	}
	if read >= len(rec.calls) {
		t.Errorf("read all %d calls to find %d", read, found)
	}
}

// broken writes part of its input, then fails.
type broken struct {
	memory
	room int
}

func (b *broken) Write(p []byte) (int, error) {
	if len(p) <= b.room {
		b.room -= len(p)
		return b.memory.Write(p)
	}
	n, _ := b.memory.Write(p[:b.room])
	b.room = 0
	return n, errors.New("no space left")
}

func TestLogAfterFailedWriteIsWhole(t *testing.T) {
	whole := record(t, 2, 100).bytes
	for room := 600; room < len(whole); room += 97 {
		f := &broken{room: room}
		s := testSession()
		w, err := newWriter(f, &Head{Session: s})
		if err != nil {
			t.Fatal(err)
		}
		g, k := storetest.NewGenerator(5), storetest.NewKernel()
		for i := 0; err == nil && i < 100; i++ {
			calls := g.Calls(nil, 50)
			k.See(calls)
			w.Add(&tick.Batch{Calls: calls})
			err = cmp.Or(w.Tick(k.Tick(uint64(i), storetest.Began, false), 0), w.Flush())
		}
		if err == nil {
			t.Fatal("the file never filled up")
		}
		if _, torn, rerr := readAll(f.Bytes()); rerr != nil || torn != 0 || w.file.Size() != int64(f.Len()) {
			t.Fatalf("room %d: error %v, %d torn, size %d of %d", room, rerr, torn, w.file.Size(), f.Len())
		}
		f.room = 1 << 20 // with room again, nothing was lost
		w.Cut()
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, torn, rerr := readAll(f.Bytes()); rerr != nil || torn != 0 {
			t.Fatalf("room %d, then more: error %v, %d torn", room, rerr, torn)
		}
	}
}

// FuzzSealed reads sealed segments from start to end and by index. A readable log must read the
// same after sealing.
func FuzzSealed(f *testing.F) {
	for _, b := range [][]byte{record(f, 1, 4).bytes, recordOften(f, 9, 3)} {
		f.Add(sealed(f, b))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = fixSums(b)
		for _, callsOnly := range []bool{false, true} {
			l, err := OpenLog(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				break
			}
			l.seg.sealed = true
			if callsOnly {
				l.CallsOnly(5)
			}
			var e Entry
			for i := 0; !errors.Is(err, io.EOF); i++ {
				if err = l.Next(&e); err != nil && !errors.Is(err, io.EOF) && !Unreadable(err) || i > len(b) {
					t.Fatalf("error %v is of no kind, or there is no end", err)
				}
			}
		}
		want, torn, err := readAll(b)
		var out bytes.Buffer
		if err != nil || torn != 0 || Seal(&out, bytes.NewReader(b), int64(len(b))) != nil {
			return
		}
		got, torn, err := readAll(out.Bytes())
		if err != nil || torn != 0 || !slices.Equal(got.calls, want.calls) || !slices.Equal(got.waits, want.waits) || !slices.Equal(got.ticks, want.ticks) {
			t.Errorf("sealed: %d calls, %d waits, %d ticks, %d torn (%v); want %d, %d, %d", len(got.calls), len(got.waits), len(got.ticks), torn, err,
				len(want.calls), len(want.waits), len(want.ticks))
		}
	})
}

func FuzzLog(f *testing.F) {
	rec := record(f, 1, 4)
	f.Add(rec.bytes)
	f.Add(rec.bytes[:len(rec.bytes)/2])
	f.Add([]byte(log.Magic))
	for kind := frameSession; kind < frameKinds; kind++ {
		f.Add(log.Append([]byte(log.Magic), kind, 1, []byte("{}")))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// Correct the checksums, which would reject almost all inputs.
		_, _, err := readAll(fixSums(b))
		if err != nil && !errors.Is(err, log.ErrCorrupt) && !errors.Is(err, log.ErrNotLog) && !errors.Is(err, log.ErrVersion) {
			t.Errorf("error %v is of no kind", err)
		}
	})
}
