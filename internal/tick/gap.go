package tick

import "ingero/pkg/events"

// Gap is what the threads of one process did between their outermost calls, in
// nanoseconds: Total = OnCPU + Runnable + Throttled + Blocked + Partial.
type Gap struct {
	Calls     uint64 // measured outermost calls, of which a thread's first has no gap before it
	Count     uint64 // gaps
	Total     uint64
	OnCPU     uint64
	Runnable  uint64
	Throttled uint64
	Blocked   uint64
	Partial   uint64 // OnCPU or Blocked: the thread blocked and changed CPU
}

// Add takes in the gap before a call, as often as the call's weight says, so
// that it is an estimate where records were thinned. Nested calls have none;
// that of a call whose return was not watched is part of the next call's.
func (g *Gap) Add(c *events.Call) {
	if c.Flags&(events.CallNested|events.CallUnmeasured) != 0 {
		return
	}
	w := uint64(max(c.Weight, 1))
	g.Calls += w
	if c.Gap <= 0 {
		return
	}
	total := uint64(c.Gap)
	left := total
	take := func(ns int64) uint64 {
		part := min(uint64(max(ns, 0)), left)
		left -= part
		return w * part
	}
	g.Count += w
	g.Total += w * total
	g.Runnable += take(c.GapRunnable)
	g.Throttled += take(c.GapThrottled)
	if c.Flags&events.CallGapPartial != 0 {
		g.Partial += w * left
		return
	}
	g.OnCPU += take(c.GapOnCPU)
	g.Blocked += w * left
}

// Merge adds all that o holds.
func (g *Gap) Merge(o *Gap) {
	g.Calls += o.Calls
	g.Count += o.Count
	g.Total += o.Total
	g.OnCPU += o.OnCPU
	g.Runnable += o.Runnable
	g.Throttled += o.Throttled
	g.Blocked += o.Blocked
	g.Partial += o.Partial
}

// Sub takes away what o holds, which must be an earlier state of g.
func (g *Gap) Sub(o *Gap) {
	g.Calls -= o.Calls
	g.Count -= o.Count
	g.Total -= o.Total
	g.OnCPU -= o.OnCPU
	g.Runnable -= o.Runnable
	g.Throttled -= o.Throttled
	g.Blocked -= o.Blocked
	g.Partial -= o.Partial
}

// Gaps are the gaps of each process. The zero value cannot be added to; Gaps{}
// can. It is for one goroutine.
type Gaps map[uint32]*Gap

// Add takes in the gap before a call.
func (g Gaps) Add(c *events.Call) {
	if c.Flags&(events.CallNested|events.CallUnmeasured) == 0 {
		g.of(c.PID).Add(c)
	}
}

// Merge adds all that o holds.
func (g Gaps) Merge(o Gaps) {
	for pid, x := range o {
		g.of(pid).Merge(x)
	}
}

func (g Gaps) of(pid uint32) *Gap {
	x := g[pid]
	if x == nil {
		x = &Gap{}
		g[pid] = x
	}
	return x
}
