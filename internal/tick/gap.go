package tick

import "ingero/pkg/events"

// Gap sums up the time of one process's threads between their outermost calls, in nanoseconds:
// Total = OnCPU + Runnable + Throttled + Blocked + Partial.
type Gap struct {
	Calls     uint64 // measured outermost calls; a thread's first has no gap before it
	Count     uint64 // gaps
	Total     uint64
	OnCPU     uint64
	Runnable  uint64
	Throttled uint64
	Blocked   uint64
	Partial   uint64 // OnCPU or Blocked: the thread blocked and changed CPU

	// left is the time of calls without a record that no gap has absorbed yet.
	left gapParts
}

// gapParts are the parts of a time: on a CPU, runnable, throttled, blocked, and partial (on a CPU
// or blocked).
type gapParts [5]uint64

// split divides a time. The parts always add up to it.
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

// Add takes in the gap before a call. The gap contains calls of the thread without a record. Add
// subtracts their time, estimated from the recorded calls that represent them, so figures are
// estimates where records were thinned. Nested calls have no gap. The gap of a call whose return
// was not watched is part of the next call's.
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

// Merge adds o.
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

// Sub subtracts o, which must be an earlier state of g.
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

// Gaps has the gaps of each process. Use Gaps{}: the nil map cannot be added to. It is not safe for
// concurrent use.
type Gaps map[uint32]*Gap

// Add takes in the gap before a call.
func (g Gaps) Add(c *events.Call) {
	if c.Flags&(events.CallNested|events.CallUnmeasured) == 0 {
		g.Process(c.PID).Add(c)
	}
}

// Merge adds o.
func (g Gaps) Merge(o Gaps) {
	for pid, x := range o {
		g.Process(pid).Merge(x)
	}
}

// Process returns the gap of a process, which may be empty.
func (g Gaps) Process(pid uint32) *Gap {
	x := g[pid]
	if x == nil {
		x = &Gap{}
		g[pid] = x
	}
	return x
}
