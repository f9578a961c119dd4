package explain

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// random makes varied calls: nested or not, timed or not, with threads that changed CPU.
func random(r *rand.Rand, n int) *maker {
	ops := []events.Op{launch, cuLaunch, streamSyn, cuSync, malloc, cuAlloc, memcpy, graph}
	call := func() events.Call {
		c := events.Call{PID: uint32(1 + r.IntN(3)), Op: ops[r.IntN(len(ops))],
			OnCPU: r.Int64N(1e6), Runnable: r.Int64N(3) * r.Int64N(1e6), Blocked: r.Int64N(2) * r.Int64N(1e7),
			GapOnCPU: r.Int64N(1e5), GapRunnable: r.Int64N(2) * r.Int64N(1e5), GapBlocked: r.Int64N(2) * r.Int64N(1e5)}
		if r.IntN(10) == 0 {
			c.Flags |= events.CallLedgerPartial
		}
		if r.IntN(10) == 0 {
			c.Flags |= events.CallGapPartial
		}
		return c
	}
	m := newMaker()
	for range n {
		var inner []events.Call
		c := call()
		for range r.IntN(3) {
			x := call()
			x.OnCPU, x.Runnable, x.Blocked = x.OnCPU/3, x.Runnable/3, x.Blocked/3
			if c.Op == launch && x.Op == cuLaunch {
				x.Flags |= events.CallUnmeasured
			}
			c.OnCPU, c.Runnable, c.Blocked = c.OnCPU+x.OnCPU, c.Runnable+x.Runnable, c.Blocked+x.Blocked
			inner = append(inner, x)
		}
		m.call(c, inner...)
	}
	return m
}

// With any nesting, the parts of the time add up to that of the outermost calls and the gaps
// between them.
func TestTimeAddsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		m := random(r, 1+r.IntN(60))
		rep := build(input(m))
		for i := range rep.Processes {
			p := &rep.Processes[i]
			var want uint64
			for _, c := range m.records {
				if c.PID == p.PID && c.Flags&(events.CallNested|events.CallUnmeasured) == 0 {
					want += uint64(c.Duration + c.Gap)
				}
			}
			var parts, shares uint64
			for _, x := range p.Time.Parts {
				parts += x.NS
				shares += uint64(math.Round(10 * x.Percent))
				var ops uint64
				for _, o := range x.Ops {
					ops += o.NS
				}
				if x.NS != x.InCallsNS+x.BetweenNS || ops != x.InCallsNS {
					t.Fatalf("%s is %d ns, %d in calls (by operation %d), %d between", x.Name, x.NS, x.InCallsNS, ops, x.BetweenNS)
				}
			}
			if parts != p.Time.ThreadNS || shares != 1000 {
				t.Fatalf("parts add up to %d ns of %d, and to %d in a thousand", parts, p.Time.ThreadNS, shares)
			}
			// an estimated share is rounded once per operation
			if d := int64(parts) - int64(want); d > 8 || d < -8 {
				t.Fatalf("time is %d ns, want %d", parts, want)
			}
		}
	}
}

// If all or none of an operation's calls are nested, nothing is estimated.
func TestOutermostIsExact(t *testing.T) {
	m := newMaker()
	m.call(events.Call{PID: 1, Op: streamSyn, OnCPU: 1001, Runnable: 17, Blocked: 333}, events.Call{Op: cuSync, OnCPU: 900, Runnable: 17, Blocked: 333})
	m.call(events.Call{PID: 1, Op: memcpy, OnCPU: 7})
	ops := m.list()
	outer := outermost(ops)
	for i, want := range []split{
		{total: 7, onCPU: 7},
		{total: 1351, onCPU: 1001, runnable: 17, blocked: 333},
		{},
	} {
		if outer[i] != want {
			t.Errorf("%s: outermost = %+v, want %+v", ops[i].Op, outer[i], want)
		}
	}
}

// The total of one operation that is called both nested and not is still exact.
func TestOutermostOfMixed(t *testing.T) {
	m := newMaker()
	m.call(events.Call{PID: 1, Op: malloc, OnCPU: 1000}, events.Call{Op: cuAlloc, OnCPU: 900})
	m.call(events.Call{PID: 1, Op: cuAlloc, OnCPU: 10, Blocked: 10})
	ops := m.list()
	outer := outermost(ops)
	if ops[1].Op != cuAlloc || outer[1].total != 20 {
		t.Errorf("outermost = %+v, want a total of 20", outer[1])
	}
}

// Returned calls inside a call that is still open count.
func TestOutermostInOpenCall(t *testing.T) {
	ops := []tick.Op{
		{Op: malloc, Sum: tick.Counts{Calls: 1}},
		{Op: cuAlloc, Sum: tick.Counts{Calls: 2, Done: 2, Nested: 2, Total: 50, OnCPU: 50}},
	}
	if got := outermost(ops)[1]; got.total != 50 || got.onCPU != 50 {
		t.Errorf("outermost = %+v, want 50 ns", got)
	}
}

// Sums read while calls are counted may be inconsistent: nothing gets negative, and the parts still
// add up.
func TestTornSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 3000 {
		n := func() uint64 { return r.Uint64() >> (20 + r.IntN(44)) * uint64(r.IntN(3)) }
		ops := make([]tick.Op, 1+r.IntN(4))
		for i := range ops {
			ops[i] = tick.Op{PID: 1, Op: events.Catalog[r.IntN(len(events.Catalog))].Op, Thinned: r.IntN(4) == 0, Sum: tick.Counts{
				Calls: n(), Done: n(), Errors: n(), Nested: n(), Unmeasured: n(), Abandoned: n(), Total: n(), OnCPU: n(),
				Runnable: n(), Inner: n(), Partial: n(), PartialNS: n()}}
		}
		in := &Input{Ops: ops, Gaps: tick.Gaps{1: {Calls: 1 + n()>>8, Total: 6, OnCPU: 1, Runnable: 2, Blocked: 3}}}
		rep := build(in)
		for _, p := range rep.Processes {
			for _, o := range p.Ops {
				if s := partsOfCalls(&o); s.onCPU+s.runnable+s.blocked+s.partial != s.total {
					t.Fatalf("%+v does not add up", s)
				}
			}
			if p.Time == nil {
				continue
			}
			var sum uint64
			for _, x := range p.Time.Parts {
				sum += x.NS
			}
			if sum != p.Time.ThreadNS {
				t.Fatalf("parts are %d of %d", sum, p.Time.ThreadNS)
			}
		}
		narrow(t, Report(in, Options{}), 80)
	}
}

// If records are lost, the gap before the next call includes their calls: the threads' total time
// is the same as with all records.
func TestGapsOfLostRecords(t *testing.T) {
	whole, half := train(1, 100), train(1, 100)
	in, thin := input(whole), input(half)
	thin.Gaps = tick.Gaps{}
	var lost events.Call
	for i := range half.records {
		c := half.records[i]
		if c.Flags&(events.CallNested|events.CallUnmeasured) == 0 {
			c.Gap, c.GapOnCPU, c.GapRunnable = c.Gap+lost.Gap, c.GapOnCPU+lost.GapOnCPU, c.GapRunnable+lost.GapRunnable
			c.GapThrottled, c.GapBlocked = c.GapThrottled+lost.GapThrottled, c.GapBlocked+lost.GapBlocked
			lost = events.Call{}
			if i/43%2 > 0 { // every other step
				lost = events.Call{Gap: c.Gap + c.Duration, GapOnCPU: c.GapOnCPU + c.OnCPU, GapRunnable: c.GapRunnable + c.Runnable,
					GapThrottled: c.GapThrottled + c.Throttled, GapBlocked: c.GapBlocked + c.Blocked}
				continue
			}
		}
		thin.Gaps.Add(&c)
	}
	for i := range thin.Ops {
		thin.Ops[i].Thinned = true
	}
	a, b := build(in).Processes[0].Time, build(thin).Processes[0].Time
	if a.Estimated || !b.Estimated {
		t.Errorf("estimated: %v and %v", a.Estimated, b.Estimated)
	}
	got, want := float64(b.ThreadNS), float64(a.ThreadNS)
	if got < 0.98*want || got > 1.02*want {
		t.Errorf("thread time = %g, want about %g", got, want)
	}
}

func TestGaps(t *testing.T) {
	g := tick.Gaps{}
	for _, c := range []events.Call{
		{PID: 1, Weight: 1}, // a thread's first call
		{PID: 1, Weight: 8, Gap: 10, GapOnCPU: 5, GapRunnable: 3, GapBlocked: 2},
		{PID: 1, Weight: 2, Gap: 10, GapRunnable: 4, GapBlocked: 6, Flags: events.CallGapPartial},
		{PID: 1, Weight: 1, Gap: 99, Flags: events.CallNested},
		{PID: 1, Weight: 1, Gap: 99, Flags: events.CallUnmeasured},
		{PID: 2, Weight: 0, Gap: 7, GapOnCPU: 7},
	} {
		g.Add(&c)
	}
	if got, want := *g[1], (tick.Gap{Calls: 11, Count: 10, Total: 20, OnCPU: 5, Runnable: 7, Blocked: 2, Partial: 6}); got != want {
		t.Errorf("gaps of 1 = %+v, want %+v", got, want)
	}
	o := tick.Gaps{}
	o.Merge(g)
	o.Merge(tick.Gaps{2: g[2]})
	if got, want := *o[2], (tick.Gap{Calls: 2, Count: 2, Total: 14, OnCPU: 14}); got != want {
		t.Errorf("merged gaps of 2 = %+v, want %+v", got, want)
	}
	if *o[1] != *g[1] || o[1] == g[1] {
		t.Error("merged gaps of 1 are not a copy")
	}
}

func TestLaunchesCountOnce(t *testing.T) {
	m := newMaker()
	for range 3 {
		m.call(events.Call{PID: 1, Op: launch, OnCPU: 5}, events.Call{Op: cuLaunch, Flags: events.CallUnmeasured})
	}
	m.call(events.Call{PID: 1, Op: cuLaunch, OnCPU: 5})
	m.call(events.Call{PID: 1, Op: memcpy, OnCPU: 50}, events.Call{Op: cuLaunch, OnCPU: 9})
	if n, ok := launches(m.list()); n != 5 || !ok {
		t.Errorf("launches = %d, %v, want 5", n, ok)
	}
}

func TestConcurrent(t *testing.T) {
	at := func(from, to int) wire.ProcessReport {
		return wire.ProcessReport{From: start.Add(minutes(from)), To: start.Add(minutes(to)), Calls: 1}
	}
	ps := []wire.ProcessReport{at(0, 10), at(9, 12), at(12, 15), at(20, 30), at(22, 23)}
	for i := range ps {
		ps[i].PID = uint32(i)
	}
	ps[4].Calls = 0
	if got := concurrent(ps); !slices.Equal(got, []uint32{0, 1}) {
		t.Errorf("concurrent = %v, want 0 and 1", got)
	}
}
