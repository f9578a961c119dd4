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

	// left is what calls without a record took that has not been found in a gap yet.
	left gapParts
}

// gapParts are the parts of a time: on a CPU, runnable, throttled, blocked, one of the
// first and the last.
type gapParts [5]uint64

// split divides a time. The parts add up to it whatever they say.
func split(total, onCPU, runnable, throttled int64, partial bool) (p gapParts) {
	left := uint64(max(total, 0))
	take := func(ns int64) uint64 {
		part := min(uint64(max(ns, 0)), left)
		left -= part
		return part
	}
	p[1], p[2] = take(runnable), take(throttled)
	if partial {
		p[4] = left
		return p
	}
	p[0] = take(onCPU)
	p[3] = left
	return p
}

// Add takes in the gap before a call. What the thread's calls without a record took since the
// last one with a record is part of it, and no time between calls: it is taken off the gaps,
// as much as the calls took whose records stand for them. So where records were thinned the
// figures are estimates. Nested calls have no gap; that of a call whose return was not watched
// is part of the next call's.
func (g *Gap) Add(c *events.Call) {
	if c.Flags&(events.CallNested|events.CallUnmeasured) != 0 {
		return
	}
	w := uint64(max(c.Weight, 1))
	g.Calls += w
	if w > 1 {
		for i, ns := range split(c.Duration, c.OnCPU, c.Runnable, c.Throttled, c.Flags&events.CallLedgerPartial != 0) {
			g.left[i] += (w - 1) * ns
		}
	}
	if c.Gap <= 0 {
		return
	}
	g.Count += w
	parts := split(c.Gap, c.GapOnCPU, c.GapRunnable, c.GapThrottled, c.Flags&events.CallGapPartial != 0)
	for i, to := range []*uint64{&g.OnCPU, &g.Runnable, &g.Throttled, &g.Blocked, &g.Partial} {
		off := min(g.left[i], parts[i])
		g.left[i] -= off
		*to += parts[i] - off
		g.Total += parts[i] - off
	}
}

// Merge adds all that o holds.
func (g *Gap) Merge(o *Gap) {
	for i := range g.left {
		g.left[i] += o.left[i]
	}
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
		g.Of(c.PID).Add(c)
	}
}

// Merge adds all that o holds.
func (g Gaps) Merge(o Gaps) {
	for pid, x := range o {
		g.Of(pid).Merge(x)
	}
}

// Of returns those of a process, which may be empty.
func (g Gaps) Of(pid uint32) *Gap {
	x := g[pid]
	if x == nil {
		x = &Gap{}
		g[pid] = x
	}
	return x
}
