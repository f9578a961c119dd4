package session

import (
	"ingero/internal/probes"
	"ingero/internal/stats"
	"ingero/internal/tick"
)

// accounts extends the kernel's counts, by process and row: the kernel's histograms wrap at 32 bits,
// and the kernel deletes the counts of processes that have ended.
type accounts map[uint32]map[int]*account

type account struct {
	sum  tick.Counts               // at the last reading
	base tick.Counts               // the part of sum that the kernel has deleted
	hist *stats.Hist               // at the last reading; shared with ticks: replaced, not modified
	seen [stats.HistBuckets]uint32 // the kernel's histogram at the last reading
}

// update adds a reading of the kernel's counts.
func (a accounts) update(c *probes.CountsRow) {
	rows := a[c.PID]
	if rows == nil {
		rows = map[int]*account{}
		a[c.PID] = rows
	}
	x := rows[c.Row]
	if x == nil {
		x = &account{hist: &stats.Hist{}}
		rows[c.Row] = x
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
func (a accounts) closeProcess(pid uint32) (any bool) {
	for _, x := range a[pid] {
		x.base, x.seen = x.sum, [stats.HistBuckets]uint32{}
	}
	return len(a[pid]) > 0
}
