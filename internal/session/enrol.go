package session

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// calibrate measures what probes cost and whether they harm. Without it tracing
// goes on: durations then include the probes, and that is reported.
func (l *Live) calibrate(ctx context.Context) {
	c, err := l.tracer.Calibrate(ctx)
	if err != nil {
		l.report("not-calibrated", "probes", fmt.Sprintf("durations include what the probes cost, since that could not be measured: %v", err))
		return
	}
	l.costs, l.unlink = c.Costs, c.Unlink
	l.Log.Debug("calibrated", "costs", c.Costs, "seccomp_harm", c.SeccompHarm, "unlink", c.Unlink)
	if l.seccompHarm = c.SeccompHarm; c.SeccompHarm && l.tracer.Mode() != probes.ModeSession {
		l.report("entry-only", "all processes", "this kernel kills processes with a seccomp filter at a return probe, and cannot leave single ones out")
		if err := l.tracer.WatchNoReturns(); err != nil {
			l.report("not-attached", "all processes", err.Error())
		}
	}
}

// harm says why the returns of a process must not be watched, if so.
func (l *Live) harm(p *proc.Process) string {
	return p.ReturnHarm(l.seccompHarm)
}

// rescan enrols all selected processes that use CUDA.
func (l *Live) rescan(ctx context.Context) error {
	found, err := l.fs.Scan(ctx, l.Select, l.Names)
	if err != nil {
		return fmt.Errorf("look for processes: %w", err)
	}
	for i := range found {
		l.enrol(&found[i], mapping{})
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
	l.enrol(&p, mapping{})
	return nil
}

// mapping is when a process mapped a library, where that was told.
type mapping struct {
	of libraryKey
	at time.Time
}

// enrol traces a process and attaches to the libraries that it maps. at says since
// when it maps one of them.
func (l *Live) enrol(p *proc.Process, at mapping) {
	l.enrolling.Lock()
	defer l.enrolling.Unlock()
	if l.over(p) || !l.lives(p.PID) && !l.admit(p) {
		return
	}
	l.join(p)
	for _, lib := range p.Libraries {
		since := time.Time{}
		if at.of == (libraryKey{lib.Key, lib.Lib}) {
			since = at.at
		}
		if err := l.attach(p, lib, since); err != nil {
			l.failed(p.PID, lib.Path, err)
		}
	}
	l.markInside(p, at.at)
	if l.Probes.Stacks != probes.StacksNone {
		l.unwind.Add(p.PID)
		l.frames.seen(p.PID)
		l.pys.look(p.PID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.procs[p.PID]; k != nil {
		l.ask(k)
	}
}

// admit adds a process to those that are traced.
func (l *Live) admit(p *proc.Process) bool {
	how := probes.Target{Follow: !l.Alone, Gate: l.Gated != 0}
	if why := l.harm(p); why != "" {
		how.EntryOnly = true
		l.report("entry-only", fmt.Sprintf("%s (%d)", p.Comm, p.PID), why)
	}
	l.Log.Info("discover: process", "pid", p.PID, "comm", p.Comm, "own_pid", p.NSPID(), "seccomp", p.Seccomp, "entry_only", how.EntryOnly)
	own := !l.tracer.Traced(p.PID) // else it is a child, traced from its fork on
	if err := l.tracer.Trace(p.PID, how); err != nil {
		l.failed(p.PID, p.Comm, err)
		return false
	}
	l.mu.Lock()
	k := l.know(p)
	k.entryOnly = how.EntryOnly
	if own {
		k.traced = time.Now()
	}
	l.mu.Unlock()
	if proc.UsesCUDA(p.Libraries) || slices.Contains(l.Select.PIDs, p.PID) || p.PID == l.Gated {
		l.Notify(Notice{Kind: NoticeTracing, PID: p.PID, Comm: p.Comm})
	}
	return true
}

// over tells whether a process has ended since it was read, which is a little before it
// comes here: it must not come to life again. A later one may have its number, but began
// at another tick; where that is not known, as of one that had ended when its fork was
// heard of, it began after the end.
func (l *Live) over(p *proc.Process) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.procs[p.PID]
	if k == nil || k.Ended.IsZero() {
		return false
	}
	return k.start == p.StartTicks || k.start == 0 && !p.Started.After(k.Ended)
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
	k.locate(p)
	l.procs[p.PID] = k
	l.alive++
	return k
}

// attach probes a library unless that has been done. since is when the process
// mapped it, zero if that is not known.
func (l *Live) attach(p *proc.Process, m proc.Library, since time.Time) error {
	key := libraryKey{m.Key, m.Lib}
	l.mu.Lock()
	known := l.libs[key]
	if known != nil {
		l.use(known, p.PID, since)
	}
	l.mu.Unlock()
	if known != nil {
		l.chooseSoon()
		return nil
	}
	l.Log.Info("discover: found "+m.Lib.String()+".so", "path", m.Path, "pid", p.PID, "deleted", m.Deleted, "linked_in", m.Inside)
	f, path, err := l.fs.OpenMapped(p.PID, m.Mapping)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var only []uint32
	if l.Alone {
		only = l.Select.PIDs
	}
	o, err := object(m, f, path)
	if err != nil {
		return err
	}
	id, err := proc.BuildID(f)
	if err != nil {
		l.Log.Debug("no build id", "path", m.Path, "error", err)
	}
	lib := &library{users: map[uint32]bool{p.PID: true}, uses: map[string]proc.Use{}, Library: tick.Library{Path: m.Path, Lib: m.Lib, BuildID: id}}
	if l.fewLinks() {
		o.Leave = func(a *probes.Attached) map[int]bool {
			lib.attached = a
			return l.chooseProbes(lib)
		}
	}
	a, err := l.tracer.Attach(o, only...)
	if err != nil {
		return err
	}
	lib.attached, lib.Probes = a, a.Without(lib.without)
	l.mu.Lock()
	l.libs[key] = lib
	l.order = append(l.order, lib)
	leave := len(l.shed.hot)+len(l.shed.once.rows) > 0
	l.addReports(lacking(m, a.Reports)...)
	l.use(lib, p.PID, since)
	l.mu.Unlock()
	l.chooseSoon()
	if leave {
		l.applyHot()
	}
	l.tellAttached(p, lib, since)
	return nil
}

// tellAttached tells of a library whose probes are in place.
func (l *Live) tellAttached(p *proc.Process, lib *library, since time.Time) {
	l.mu.Lock()
	is := lib.Library
	l.mu.Unlock()
	a := lib.attached
	n := Notice{Kind: NoticeAttached, PID: p.PID, Comm: p.Comm, Library: is.Path, Probes: is.Probes}
	if !since.IsZero() {
		n.Late = a.At.Sub(since)
	}
	l.Log.Info("discover: attached", "path", is.Path, "library", is.Lib.String(), "build_id", is.BuildID, "probes", is.Probes,
		"stepped", a.Stepped, "lacks", len(a.Reports), "unprobed", len(a.Unprobed), "late", n.Late)
	l.Log.Debug("discover: there, and not traced", "path", is.Path, "functions", strings.Join(a.Unprobed, " "))
	l.Notify(n)
}

// object is what the probes of a library go into.
func object(m proc.Library, f *os.File, path string) (probes.Object, error) {
	o := probes.Object{Path: path, Name: m.Path, File: f, Lib: m.Lib}
	if m.Inside {
		s, err := proc.FindSymbols(f)
		if err != nil {
			return o, err
		}
		o.Functions = append([]elf.Symbol{}, s.Functions...) // not nil, which would mean its exports
	}
	return o, nil
}

// lacking makes one report of all that say that a library lacks a function: versions
// differ in hundreds. One that is linked in has what its program uses, and no report.
func lacking(m proc.Library, reports []tick.Report) (out []tick.Report) {
	const most = 4
	var names []string
	for _, r := range reports {
		if r.Kind == "missing-symbol" {
			names = append(names, strings.TrimPrefix(r.Why, "does not export "))
		} else {
			out = append(out, r)
		}
	}
	if len(names) == 0 || m.Inside {
		return out
	}
	why := "does not export " + strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		why += fmt.Sprintf(" and %d more (ingero check --pid)", more)
	}
	return append(out, tick.Report{Kind: "missing-symbol", Object: m.Path, Why: why})
}

// lateAttach is from when on it is told that a library's first calls were not seen
// that a process mapped after its first.
const lateAttach = 100 * time.Millisecond

// use notes that a process maps a library whose probes are in place, since when if
// that is known. The time in which its calls were not seen lies between Mapped and
// Attached; libraries that are mapped within it make it longer. mu is held.
func (l *Live) use(lib *library, pid uint32, since time.Time) {
	lib.users[pid] = true
	l.shed.once.fresh = l.shed.once.fresh || lib.Lib == events.LibCudart
	p := l.procs[pid]
	if p == nil {
		return
	}
	seen := lib.attached.At
	if p.traced.After(seen) {
		seen = p.traced
	}
	switch {
	case l.Gated != 0: // it stood still in between
		if p.Mapped.IsZero() {
			p.Mapped, p.Attached = seen, seen
		}
	case p.Attached.IsZero() || p.Mapped.IsZero() && !since.IsZero() && since.Before(p.Attached):
		p.Mapped = since
		if since.After(seen) { // others mapped it before, so nothing was missed
			seen = since
		}
		if seen.After(p.Attached) {
			p.Attached = seen
		}
	case since.IsZero():
	case !since.After(p.Attached):
		if seen.After(p.Attached) {
			p.Attached = seen
		}
	case seen.Sub(since) >= lateAttach:
		l.addReports(tick.Report{Kind: "late-attach", Object: fmt.Sprintf("%s (%d)", p.Comm, pid),
			Why: fmt.Sprintf("calls into %s in the %s after it was loaded were not seen", lib.Path, seen.Sub(since).Round(time.Millisecond))})
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
