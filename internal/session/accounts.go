package session

import (
	"errors"
	"syscall"
	"time"

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
	sum  tick.Counts // as of the last reading
	base tick.Counts // of it, what the kernel no longer has
	hist stats.Hist
	seen [stats.HistBuckets]uint32 // the kernel's histogram at the last reading
}

// update takes a reading of the kernel's counts in.
func (a accounts) update(c *probes.CountsRow) {
	k := accountKey{c.PID, c.Row}
	x := a[k]
	if x == nil {
		x = &account{}
		a[k] = x
	}
	b := &x.base
	x.sum = tick.Counts{
		Calls: b.Calls + c.Calls, Done: b.Done + c.Done, Errors: b.Errors + c.Errors, Nested: b.Nested + c.Nested,
		Unmeasured: b.Unmeasured + c.Unmeasured, Abandoned: b.Abandoned + c.Abandoned,
		Total: b.Total + c.TotalNs, OnCPU: b.OnCPU + c.OnCpuNs, Runnable: b.Runnable + c.RunnableNs,
		Inner: b.Inner + c.InnerNs, Partial: b.Partial + c.Partial, PartialNS: b.PartialNS + c.PartialNs,
	}
	for i, n := range c.Hist {
		x.hist[i] += uint64(n - x.seen[i])
		x.seen[i] = n
	}
}

// closeProcess moves what the kernel has of a process into base, after which
// the kernel may forget it.
func (a accounts) closeProcess(pid uint32, rows int) {
	for row := range rows {
		if x := a[accountKey{pid, row}]; x != nil {
			x.base, x.seen = x.sum, [stats.HistBuckets]uint32{}
		}
	}
}

// Totals implements [Source].
func (l *Live) Totals(t *tick.Tick) error {
	rows := l.tracer.Rows()
	if err := l.tracer.Counts(l.accounts.update); err != nil {
		return err
	}
	for k, x := range l.accounts {
		hist := x.hist
		t.Ops = append(t.Ops, tick.Op{PID: k.pid, Op: rows[k.row].Op, Sum: x.sum, Hist: &hist})
	}
	var err error
	if t.Drops, err = l.tracer.Drops(); err != nil {
		return err
	}
	t.Drops = append(t.Drops, tick.Drop{Reason: "malformed-record", Count: l.malformed})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkAlive(t.Time)
	for pid, p := range l.procs {
		t.Processes = append(t.Processes, p.Process)
		if p.Ended.IsZero() || p.counted {
			continue
		}
		if t.Time.Sub(p.Ended) < time.Second { // its last counts may still be on their way
			continue
		}
		l.accounts.closeProcess(pid, len(rows))
		if err := l.tracer.Forget(pid); err != nil {
			return err
		}
		p.counted = true
	}
	for _, lib := range l.order {
		t.Libraries = append(t.Libraries, lib.Library)
	}
	t.Reports = append(t.Reports, l.reports...)
	return nil
}

// checkAlive notes the end of processes whose exit was not heard of. mu is held.
func (l *Live) checkAlive(now time.Time) {
	for pid, p := range l.procs {
		if p.Ended.IsZero() && errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH) {
			l.ended(pid, now)
		}
	}
}
