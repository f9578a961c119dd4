package session

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"ingero/internal/probes"
	"ingero/internal/stats"
	"ingero/internal/tape"
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

// Totals implements [Source].
func (l *Live) Totals(t *tick.Tick) error {
	if err := l.section(tape.Tick, t.Time); err != nil {
		return err
	}
	rows := l.kernel.Rows()
	if err := l.kernel.Counts(l.accounts.update); err != nil {
		return err
	}
	t.Ops = slices.Grow(t.Ops, len(l.accounts))
	for k, x := range l.accounts {
		t.Ops = append(t.Ops, tick.Op{PID: k.pid, Op: rows[k.row].Op, Sum: x.sum, Hist: x.hist})
	}
	err := l.threads(t)
	if err != nil {
		return err
	}
	if t.Drops, err = l.kernel.Drops(); err != nil {
		return err
	}
	t.Drops = append(t.Drops, tick.Drop{Reason: "malformed-record", Count: l.malformed.Load()})
	if err := l.host(t); err != nil {
		return err
	}
	if !l.playing() {
		l.others.did(t.HostSums, t.Time.UnixNano(), l.tracing)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(t)
	if !l.stopped {
		l.pruneLibraries(t.Time)
	}
	return l.pruneProcesses(len(rows))
}

// maxEnded is how many processes that have ended, and had made calls, stay in
// the ticks. A trace may run for months beside a job that forks every second.
const maxEnded = 512

// pruneProcesses lets the kernel, and at last the table, forget processes that
// have ended, once their counts have been in a tick. The counts of this tick may
// have been read before the end was heard of: those of the next are the last. mu
// is held.
func (l *Live) pruneProcesses(rows int) error {
	was := len(l.ends)
	for pid, p := range l.procs {
		if p.Ended.IsZero() || p.counted {
			continue
		}
		if !p.told {
			p.told = true
			continue
		}
		p.counted = true
		if !l.accounts.closeProcess(pid, rows) {
			delete(l.procs, pid)
			continue
		}
		l.ends = append(l.ends, pid)
	}
	if gone := l.ends[was:]; len(gone) > 0 {
		if err := l.kernel.Forget(gone...); err != nil {
			return err
		}
	}
	for len(l.ends) > maxEnded {
		pid := l.ends[0]
		l.ends = l.ends[1:]
		if p := l.procs[pid]; p != nil && p.counted { // its number may be another's by now
			l.accounts.forget(pid, rows)
			delete(l.procs, pid)
		}
	}
	return nil
}

// idleLibrary is how long a library that nobody maps any more keeps its probes.
const idleLibrary = time.Minute

// pruneLibraries takes the probes out of libraries that nobody uses: containers
// come and go, each with a copy. mu is held.
func (l *Live) pruneLibraries(now time.Time) {
	for key, lib := range l.libs {
		switch {
		case len(lib.users) > 0:
			lib.idle = time.Time{}
		case lib.idle.IsZero():
			lib.idle = now
		case now.Sub(lib.idle) >= idleLibrary:
			delete(l.libs, key)
			l.order = slices.DeleteFunc(l.order, func(x *library) bool { return x == lib })
			l.work.Go(func() {
				if err := lib.attached.Close(); err != nil {
					l.Log.Warn("detach", "path", lib.Path, "error", err)
				}
			})
		}
	}
}

// checkAlive notes the end of processes whose exit was not heard of. mu is held.
func (l *Live) checkAlive(now time.Time) {
	for pid, p := range l.procs {
		if p.Ended.IsZero() && errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH) {
			l.ended(pid, now)
		}
	}
}
