package session

import (
	"ingero/internal/probes"
	"ingero/internal/stats"
	"ingero/internal/tick"
)

// accounts extends the kernel's counts: the kernel's histograms wrap at 32 bits, and the kernel
// deletes the counts of processes that have ended.
type accounts map[accountKey]*account

type accountKey struct {
	pid uint32
	row int
}

type account struct {
	sum  tick.Counts               // at the last reading
	base tick.Counts               // the part of sum that the kernel has deleted
	hist *stats.Hist               // at the last reading; shared with ticks: replaced, not modified
	seen [stats.HistBuckets]uint32 // the kernel's histogram at the last reading
}

// update adds a reading of the kernel's counts.
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

// closeProcess moves a process's sums into base, so that the kernel may delete its counts. It
// reports whether the process had any counts.
func (a accounts) closeProcess(pid uint32, rows int) (any bool) {
	for row := range rows {
		if x := a[accountKey{pid, row}]; x != nil {
			x.base, x.seen, any = x.sum, [stats.HistBuckets]uint32{}, true
		}
	}
	return any
}

// forget drops all accounts of a process.
func (a accounts) forget(pid uint32, rows int) {
	for row := range rows {
		delete(a, accountKey{pid, row})
	}
}
