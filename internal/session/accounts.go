package session

import (
	"ingero/internal/probes"
	"ingero/internal/stats"
	"ingero/internal/tick"
)

// accounts continue the kernel's counts: its histogram wraps at 32 bits, and
// what belongs to a process that has ended is deleted there.
type accounts map[accountKey]*account

type accountKey struct {
	pid uint32
	row int
}

type account struct {
	sum  tick.Counts               // as of the last reading
	base tick.Counts               // of it, what the kernel no longer has
	hist *stats.Hist               // as of the last reading; ticks share it: replaced, not changed
	seen [stats.HistBuckets]uint32 // the kernel's histogram at the last reading
}

// update takes a reading of the kernel's counts in.
func (a accounts) update(c *probes.CountsRow) {
	k := accountKey{c.PID, c.Row}
	x := a[k]
	if x == nil {
		x = &account{hist: &stats.Hist{}}
		a[k] = x
	}
	b := &x.base
	x.sum = tick.Counts{
		Calls: b.Calls + c.Calls, Done: b.Done + c.Done, Errors: b.Errors + c.Errors, Nested: b.Nested + c.Nested,
		Unmeasured: b.Unmeasured + c.Unmeasured, Abandoned: b.Abandoned + c.Abandoned,
		Total: b.Total + c.TotalNs, OnCPU: b.OnCPU + c.OnCpuNs, Runnable: b.Runnable + c.RunnableNs,
		Throttled: b.Throttled + c.ThrottledNs,
		Inner:     b.Inner + c.InnerNs, Partial: b.Partial + c.Partial, PartialNS: b.PartialNS + c.PartialNs,
	}
	if c.Hist == x.seen {
		return
	}
	x.hist = new(*x.hist)
	for i, n := range c.Hist {
		x.hist[i] += uint64(n - x.seen[i])
	}
	x.seen = c.Hist
}

// closeProcess moves what the kernel has of a process into base, after which
// the kernel may forget it. It tells whether there was anything.
func (a accounts) closeProcess(pid uint32, rows int) (any bool) {
	for row := range rows {
		if x := a[accountKey{pid, row}]; x != nil {
			x.base, x.seen, any = x.sum, [stats.HistBuckets]uint32{}, true
		}
	}
	return any
}

// forget drops all of a process.
func (a accounts) forget(pid uint32, rows int) {
	for row := range rows {
		delete(a, accountKey{pid, row})
	}
}
