package session

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// script is a source that plays polls and totals one after the other.
type script struct {
	polls  [][]events.Call // each is one full Poll; then io.EOF
	done   uint64
	thin   uint64
	calls  []string
	failAt int // the poll that fails, from 1
	n      int
}

var errScript = errors.New("the script fails here")

func (s *script) Poll(b *tick.Batch) (bool, error) {
	s.n++
	switch {
	case s.n == s.failAt:
		return false, errScript
	case s.n > len(s.polls):
		return false, io.EOF
	}
	b.Calls = append(b.Calls, s.polls[s.n-1]...)
	s.done += uint64(len(s.polls[s.n-1]))
	return s.n < len(s.polls), nil
}

func (s *script) Totals(t *tick.Tick) error {
	t.Ops = []tick.Op{{PID: 1, Op: 0x0140, Sum: tick.Counts{Calls: s.done + s.thin, Done: s.done + s.thin}, Hist: &stats.Hist{}}}
	t.Drops = []tick.Drop{{Reason: "thinned", Count: s.thin}}
	return nil
}

func (*script) Capabilities() Capabilities { return Capabilities{} }

func (s *script) Stop() error  { s.calls = append(s.calls, "stop"); return nil }
func (s *script) Close() error { s.calls = append(s.calls, "close"); return nil }

// keeper is a sink that keeps ticks and counts calls; it fails on request.
type keeper struct {
	mu    sync.Mutex
	calls int
	ticks []*tick.Tick
	fail  error
	ended int
}

func (k *keeper) Batch(b *tick.Batch) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls += len(b.Calls)
	return k.fail
}

func (k *keeper) Tick(t *tick.Tick) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ticks = append(k.ticks, t)
	return nil
}

func (k *keeper) Close() error { k.ended++; return nil }

// steps is a clock on which every wait ends at once and advances it.
type steps struct {
	mu  sync.Mutex
	now time.Time
}

func (c *steps) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *steps) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	ch := make(chan time.Time, 1)
	ch <- c.now
	return ch
}

func calls(n int, ns int64) []events.Call {
	out := make([]events.Call, n)
	for i := range out {
		out[i] = events.Call{Op: 0x0140, PID: 1, Duration: ns, Weight: 1}
	}
	return out
}

func TestRunHandsEverySinkTheSame(t *testing.T) {
	src := &script{polls: [][]events.Call{calls(3, 100), calls(4, 200), calls(5, 300)}}
	a, b := &keeper{}, &keeper{}
	err := Run(context.Background(), Config{Source: src, Sinks: []tick.Sink{a, b}, Clock: &steps{now: time.Unix(0, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []*keeper{a, b} {
		if k.calls != 12 || k.ended != 1 {
			t.Errorf("sink had %d calls and %d closes, want 12 and 1", k.calls, k.ended)
		}
		last := k.ticks[len(k.ticks)-1]
		if !last.Final || last.Records != 12 {
			t.Errorf("last tick: final %v, %d records, want true, 12", last.Final, last.Records)
		}
		o := last.Ops[0]
		if o.Dur.Count() != 12 || o.Dur.Max() != 300 || o.Thinned {
			t.Errorf("durations: %d, longest %d, thinned %v, want 12, 300, false", o.Dur.Count(), o.Dur.Max(), o.Thinned)
		}
	}
	if diff := cmp.Diff([]string{"stop", "close"}, src.calls); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
}

// A sink that fails stops alone; the others get everything, and Run returns the error.
func TestRunSurvivesASink(t *testing.T) {
	full := errors.New("no space left")
	src := &script{polls: [][]events.Call{calls(3, 1), calls(3, 1)}}
	bad, good := &keeper{fail: full}, &keeper{}
	err := Run(context.Background(), Config{Source: src, Sinks: []tick.Sink{bad, good}, Clock: &steps{}})
	if !errors.Is(err, full) {
		t.Errorf("error = %v, want %v", err, full)
	}
	if good.calls != 6 || bad.ended != 1 || len(bad.ticks) != 0 {
		t.Errorf("good sink had %d calls, bad one %d closes and %d ticks, want 6, 1, 0", good.calls, bad.ended, len(bad.ticks))
	}
}

func TestRunReportsItsSource(t *testing.T) {
	src := &script{polls: [][]events.Call{calls(1, 1), calls(1, 1)}, failAt: 2}
	k := &keeper{}
	if err := Run(context.Background(), Config{Source: src, Sinks: []tick.Sink{k}, Clock: &steps{}}); !errors.Is(err, errScript) {
		t.Errorf("error = %v, want %v", err, errScript)
	}
	if k.ended != 1 || len(k.ticks) == 0 || !k.ticks[len(k.ticks)-1].Final {
		t.Error("the sink did not get its final tick and its end")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	src := &script{polls: [][]events.Call{calls(2, 1)}}
	k := &keeper{}
	if err := Run(ctx, Config{Source: src, Sinks: []tick.Sink{k}, Clock: &steps{}}); err != nil {
		t.Fatal(err)
	}
	if k.calls != 2 { // what had arrived is not lost
		t.Errorf("sink had %d calls, want 2", k.calls)
	}
}

func TestTableTicks(t *testing.T) {
	tab := newTable()
	tab.add(calls(4, 100))
	tab.add([]events.Call{{Op: 0x0140, PID: 1, Flags: events.CallUnmeasured, Weight: 1}})
	first := &tick.Tick{Ops: []tick.Op{{PID: 1, Op: 0x0140, Sum: tick.Counts{Calls: 5, Done: 4}}}}
	tab.fill(first.Ops, first.Drops)
	tab.add(calls(2, 700))
	second := &tick.Tick{
		Ops: []tick.Op{{PID: 2, Op: 0x0140}, {PID: 1, Op: 0x0140, Sum: tick.Counts{Calls: 9, Done: 8}}, {PID: 3, Op: 0x0101}},
		// Two records are missing, and the drops say so.
		Drops: []tick.Drop{{Reason: "ring-full", Count: 2}},
	}
	inOrder(second)
	tab.fill(second.Ops, second.Drops)
	if first.Ops[0].Dur.Count() != 4 || first.Ops[0].Dur.Max() != 100 {
		t.Error("a tick that was handed out has changed")
	}
	o := second.Ops[1]
	if o.PID != 1 || o.Last.Calls != 4 || o.Dur.Count() != 6 || o.DurLast.Count() != 2 || o.DurLast.Min() != 700 || !o.Thinned {
		t.Errorf("second tick: %+v, %d durations, %d of them new", o, o.Dur.Count(), o.DurLast.Count())
	}
	if second.Ops[0].Op != 0x0101 || second.Ops[2].PID != 2 {
		t.Error("operations are not in order")
	}
	third := &tick.Tick{Ops: []tick.Op{{PID: 1, Op: 0x0140, Sum: o.Sum}}}
	tab.fill(third.Ops, third.Drops)
	if o := third.Ops[0]; o.Last.Calls != 0 || o.Dur.Count() != 6 || o.DurLast.Count() != 0 {
		t.Errorf("third tick: %+v, %d durations, %d of them new", o, o.Dur.Count(), o.DurLast.Count())
	}
	tab.add(calls(1, 900))
	tab.fill([]tick.Op{{PID: 1, Op: 0x0140, Sum: o.Sum}}, nil)
	if third.Ops[0].Dur.Count() != 6 || third.Ops[0].DurLast.Count() != 0 || second.Ops[2].DurLast.Count() != 0 {
		t.Error("a tick that was handed out has changed")
	}
}

// Rows that the source no longer lists are deleted.
func TestTableForgets(t *testing.T) {
	tab := newTable()
	tab.add(calls(4, 100))
	tab.fill([]tick.Op{{PID: 1, Op: 0x0140}}, nil)
	if len(tab.rows) != 1 {
		t.Fatalf("%d rows, want 1", len(tab.rows))
	}
	tab.fill(nil, nil)
	if len(tab.rows) != 0 {
		t.Errorf("%d rows, want none", len(tab.rows))
	}
	tab.add(calls(1, 100)) // the cached row is gone, too
	if len(tab.rows) != 1 {
		t.Errorf("%d rows, want 1", len(tab.rows))
	}
}

func BenchmarkTableAdd(b *testing.B) {
	tab := newTable()
	batch := calls(1000, 5000)
	b.ReportAllocs()
	for b.Loop() {
		tab.add(batch)
	}
}
