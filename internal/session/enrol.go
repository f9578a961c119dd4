package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
)

// calibrate measures what probes cost and whether they harm. Without it tracing
// goes on: durations then include the probes, and that is reported.
func (l *Live) calibrate(ctx context.Context) {
	c, err := l.tracer.Calibrate(ctx)
	if err != nil {
		l.report("not-calibrated", "probes", fmt.Sprintf("durations include what the probes cost, since that could not be measured: %v", err))
		return
	}
	l.Log.Debug("calibrated", "costs", c.Costs, "seccomp_harm", c.SeccompHarm)
	if l.seccompHarm = c.SeccompHarm; c.SeccompHarm && l.tracer.Mode() != probes.ModeSession {
		l.report("entry-only", "all processes", "this kernel kills processes with a seccomp filter at a return probe, and cannot leave single ones out")
		if err := l.tracer.WatchNoReturns(); err != nil {
			l.report("not-attached", "all processes", err.Error())
		}
	}
}

// harm says why the returns of a process must not be watched, if so.
func (l *Live) harm(p *proc.Process) string {
	const filter = 2
	switch {
	case p.ShadowStack:
		return "it guards its return addresses (x86 shadow stack), and a return probe would end it"
	case p.Seccomp == filter && l.seccompHarm:
		return "it has a seccomp filter, and this kernel kills such processes at a return probe"
	}
	return ""
}

// rescan enrols all selected processes that use CUDA.
func (l *Live) rescan(ctx context.Context) error {
	found, err := l.fs.Scan(ctx, l.Select, l.Names)
	if err != nil {
		return fmt.Errorf("look for processes: %w", err)
	}
	for i := range found {
		l.enrol(&found[i])
	}
	return nil
}

// enrolPID enrols a process that was named, whether it uses CUDA yet or not.
func (l *Live) enrolPID(pid uint32) error {
	p, err := l.fs.Process(pid)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if p.Libraries, err = l.fs.Libraries(pid, l.Names); err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	l.enrol(&p)
	return nil
}

// enrol traces a process and attaches to the libraries that it maps.
func (l *Live) enrol(p *proc.Process) {
	l.enrolling.Lock()
	defer l.enrolling.Unlock()
	if !l.lives(p.PID) {
		how := probes.Target{Follow: !l.Alone, Gate: l.Gated != 0}
		if why := l.harm(p); why != "" {
			how.EntryOnly = true
			l.report("entry-only", fmt.Sprintf("%s (%d)", p.Comm, p.PID), why)
		}
		if err := l.tracer.Trace(p.PID, how); err != nil {
			l.failed(p.PID, p.Comm, err)
			return
		}
		l.mu.Lock()
		l.know(p)
		l.mu.Unlock()
		l.Notify(Notice{Kind: NoticeTracing, PID: p.PID, Comm: p.Comm})
	}
	for _, lib := range p.Libraries {
		if err := l.attach(p, lib); err != nil {
			l.failed(p.PID, lib.Path, err)
		}
	}
}

// lives tells whether a process is in the table and has not ended.
func (l *Live) lives(pid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.procs[pid]
	return p != nil && p.Ended.IsZero()
}

// know adds a process to the table, unless it is there, and returns it: a fork
// and the child's first mapping are told by different ways, in any order. mu is
// held.
func (l *Live) know(p *proc.Process) *process {
	if k := l.procs[p.PID]; k != nil && k.Ended.IsZero() {
		return k
	}
	k := &process{Process: describe(p)}
	l.procs[p.PID] = k
	l.alive++
	return k
}

// attach probes a library unless that has been done.
func (l *Live) attach(p *proc.Process, m proc.Library) error {
	l.mu.Lock()
	known := l.libs[m.Key]
	if known != nil {
		l.use(known, p.PID)
	}
	l.mu.Unlock()
	if known != nil {
		return nil
	}
	f, path, err := l.fs.OpenMapped(p.PID, m.Mapping)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var only []uint32
	if l.Alone {
		only = l.Select.PIDs
	}
	a, err := l.tracer.Attach(probes.Object{Path: path, Name: m.Path, File: f, Lib: m.Lib}, only...)
	if err != nil {
		return err
	}
	id, err := proc.BuildID(f)
	if err != nil {
		l.Log.Debug("no build id", "path", m.Path, "error", err)
	}
	lib := &library{attached: a, users: map[uint32]bool{},
		Library: tick.Library{Path: m.Path, Lib: m.Lib, BuildID: id, Probes: a.Probes}}
	l.mu.Lock()
	l.libs[m.Key] = lib
	l.order = append(l.order, lib)
	l.addReports(a.Reports...)
	l.use(lib, p.PID)
	l.mu.Unlock()
	l.Log.Info("discover: attached", "path", m.Path, "library", m.Lib.String(), "probes", a.Probes, "stepped", a.Stepped)
	l.Notify(Notice{Kind: NoticeAttached, PID: p.PID, Comm: p.Comm, Library: m.Path, Probes: a.Probes})
	return nil
}

// use notes that a process maps a library whose probes are in place. mu is held.
func (l *Live) use(lib *library, pid uint32) {
	lib.users[pid] = true
	p := l.procs[pid]
	if p == nil {
		return
	}
	if p.Mapped.IsZero() {
		p.Mapped = time.Now()
	}
	if at := lib.attached.At; p.Attached.IsZero() || at.After(p.Attached) {
		p.Attached = at
	}
	if l.Gated != 0 { // it stood still in between
		p.Mapped = p.Attached
	}
}

func (l *Live) failed(pid uint32, object string, err error) {
	if errors.Is(err, proc.ErrGone) {
		return
	}
	l.report("not-attached", object, err.Error())
	l.Notify(Notice{Kind: NoticeFailed, PID: pid, Library: object, Err: err})
}

func (l *Live) report(kind, object, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addReports(tick.Report{Kind: kind, Object: object, Why: why})
}

// maxReports bounds the reports of a long session.
const maxReports = 1000

// addReports adds those that are new. mu is held.
func (l *Live) addReports(reports ...tick.Report) {
	for _, r := range reports {
		if len(l.reports) < maxReports && !slices.Contains(l.reports, r) {
			l.reports = append(l.reports, r)
		}
	}
}
