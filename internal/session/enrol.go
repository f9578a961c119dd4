package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// enroller decides which processes are traced, and requests probes for their libraries. Its methods
// are safe for concurrent use.
type enroller struct {
	opts     *LiveOptions
	sel      proc.Selector
	fs       proc.FS
	tracer   *probes.Tracer
	clock    decode.Clock
	report   *reporter
	targets  *targets
	libs     *libraries
	enrolled func(p *proc.Process, since time.Time) // a process is traced, or maps another library, at since
	gone     func(pid uint32)                       // it has ended meanwhile
	harm     bool                                   // return probes kill processes with a filter
	watcher  *proc.MapWatcher
	work     sync.WaitGroup

	mu sync.Mutex // one enrolment at a time; it opens files, which may take long
}

func newEnroller(o *LiveOptions, tracer *probes.Tracer, clock decode.Clock, report *reporter, targets *targets, libs *libraries) *enroller {
	e := &enroller{opts: o, sel: o.Select, fs: processFS(clock), tracer: tracer, clock: clock, report: report, targets: targets, libs: libs}
	if o.Place != (where.Selector{}) {
		e.sel.Only = e.placed
	}
	return e
}

// watch starts watching which files processes map.
func (e *enroller) watch() (err error) {
	e.watcher, err = proc.WatchMaps(e.opts.Names)
	return err
}

// first enrolls the processes that already run.
func (e *enroller) first(ctx context.Context) error {
	for _, pid := range e.sel.PIDs {
		if err := e.enrolPID(pid); err != nil {
			return err
		}
	}
	if e.opts.Gated != 0 {
		if err := e.enrolPID(e.opts.Gated); err != nil {
			return err
		}
	}
	return errors.Join(e.followFamily(ctx), e.rescan(ctx))
}

// start enrolls processes as they map a library, until ctx ends and stop is called.
func (e *enroller) start(ctx context.Context) {
	e.work.Go(func() { e.readMaps(ctx) })
}

// look wakes the goroutine that reads mappings, if there are new ones.
func (e *enroller) look() {
	if e.watcher != nil {
		e.watcher.Look()
	}
}

// stop stops reading mappings.
func (e *enroller) stop() error {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Close()
}

// wait waits until no enrollment is running. Call it after stop, once start's ctx has ended.
func (e *enroller) wait() { e.work.Wait() }

// rescan enrolls all selected processes that use CUDA.
func (e *enroller) rescan(ctx context.Context) error {
	found, unread, err := e.fs.Scan(ctx, e.sel, e.opts.Names)
	if err != nil {
		return fmt.Errorf("look for processes: %w", err)
	}
	for _, x := range unread {
		e.report.failed(x.PID, fmt.Sprintf("process %d", x.PID), x.Err)
	}
	for i := range found {
		e.enrol(&found[i], nil)
	}
	return nil
}

// catchUp enrolls the selected processes, and the traced ones again, after lost map events. A traced child
// of an ended parent descends from no selected process.
func (e *enroller) catchUp(ctx context.Context) error {
	err := e.rescan(ctx)
	for _, p := range e.targets.list() {
		if ctx.Err() != nil {
			break
		}
		if !p.Ended.IsZero() {
			continue
		}
		if err := e.enrolPID(p.PID); err != nil {
			e.report.failed(p.PID, fmt.Sprintf("process %d", p.PID), err)
		}
	}
	return err
}

// enrolPID enrolls a process that was named by number, whether or not it uses CUDA yet.
func (e *enroller) enrolPID(pid uint32) error {
	p, err := e.fs.Process(pid)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if p.Libraries, err = e.fs.Libraries(pid, e.opts.Names); err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	e.enrol(&p, nil)
	return nil
}

// enrol traces a process and attaches to the libraries that it maps. mapped has the times of its new
// mappings.
func (e *enroller) enrol(p *proc.Process, mapped map[libraryKey]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.targets.hasEnded(p):
		return
	case e.targets.lives(p.PID):
		e.recheck(p)
	case !e.admit(p):
		return
	}
	latest := time.Time{}
	for _, lib := range p.Libraries {
		since := mapped[libraryKey{lib.Key, lib.Lib}]
		e.attach(p, lib, since)
		if since.After(latest) {
			latest = since
		}
	}
	e.targets.await(p) // not before: an exec that is heard of meanwhile would undo it
	e.announce(p, latest)
	e.targets.requestProgram(p.PID)
}

// announce passes on that a process is traced, or maps another library. If its exit was read before,
// no other exit follows.
func (e *enroller) announce(p *proc.Process, since time.Time) {
	e.enrolled(p, since)
	if !e.targets.lives(p.PID) {
		e.gone(p.PID)
	}
}

// attach probes a library of a process.
func (e *enroller) attach(p *proc.Process, lib proc.Library, since time.Time) {
	if err := e.libs.attach(p, lib, since); err != nil {
		e.report.failed(p.PID, lib.Path, err)
	}
}

// attachInside probes libraries that are linked into a process's program.
func (e *enroller) attachInside(p *proc.Process, found []proc.Library, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.targets.lives(p.PID) {
		return
	}
	for _, lib := range found {
		e.attach(p, lib, since)
	}
}

// admit adds a process to the traced ones, and reports success. mu is held.
func (e *enroller) admit(p *proc.Process) bool {
	how := e.how(p)
	e.report.log.Info("discover: process", "pid", p.PID, "comm", p.Comm, "own_pid", p.NSPID(), "seccomp", p.Seccomp, "entry_only", how.EntryOnly)
	own := !e.tracer.Traced(p.PID) // otherwise a child, traced since its fork
	if err := e.tracer.Trace(p.PID, how); err != nil {
		e.report.failed(p.PID, p.Comm, err)
		return false
	}
	if !e.lives(p) {
		return false
	}
	since := time.Time{}
	if own {
		since = time.Unix(0, e.clock.Now())
	}
	e.targets.admit(p, how.EntryOnly, since)
	if !e.lives(p) { // its exit was possibly read before targets had it, and then ignored
		e.targets.ended(p.PID, time.Unix(0, e.clock.Now()))
		return false
	}
	return true
}

// lives reports whether the exit of a process that the kernel traces now is still to come. Otherwise it
// stops tracing: nothing else would, and the number may belong to another process.
func (e *enroller) lives(p *proc.Process) bool {
	if e.fs.Lives(p) {
		return true
	}
	if err := e.tracer.Untrace(p.PID); err != nil {
		e.report.failed(p.PID, p.Comm, err)
	}
	return false
}

// how returns how a process is to be traced. It reports a process that return probes would harm,
// which then has none. mu is held.
func (e *enroller) how(p *proc.Process) probes.Target {
	how := probes.Target{Follow: !e.opts.Alone, Gate: e.opts.Gated != 0}
	why := p.ReturnHarm(e.harm)
	if why == "" {
		return how
	}
	how.EntryOnly = true
	if e.tracer.Mode() != probes.ModeSession && !e.tracer.EntryOnly() {
		if err := e.dropReturns(p, why); err != nil {
			e.report.add(tick.Report{Kind: "not-attached", Object: "all processes", Why: err.Error()})
			return how
		}
	}
	e.report.add(tick.Report{Kind: "entry-only", Object: fmt.Sprintf("%s (%d)", p.Comm, p.PID), Why: why})
	return how
}

// dropReturns detaches all return probes because of one process: before Linux 6.13 they change the
// return addresses of every process that maps the library.
func (e *enroller) dropReturns(p *proc.Process, why string) error {
	if err := errors.Join(e.tracer.WatchNoReturns(), e.libs.dropReturns()); err != nil {
		return err
	}
	e.report.add(tick.Report{Kind: "entry-only", Object: "all processes",
		Why: fmt.Sprintf("on this kernel return probes cannot exclude single processes such as %s (%d): %s", p.Comm, p.PID, why)})
	return nil
}

// recheck makes a traced process that maps another library entry-only if return probes would harm
// it by now: since its fork, it may have set a seccomp filter or run another program. mu is held.
func (e *enroller) recheck(p *proc.Process) {
	if !e.how(p).EntryOnly {
		return
	}
	if err := e.tracer.CountOnly(p.PID); err != nil {
		e.report.failed(p.PID, p.Comm, err)
		return
	}
	e.targets.countOnly(p.PID)
}

// readMaps attaches to libraries as they are mapped, until ctx ends.
func (e *enroller) readMaps(ctx context.Context) {
	for {
		fresh, err := e.watcher.Read()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, proc.ErrLostMaps):
			if err := e.catchUp(ctx); err != nil {
				e.report.log.Warn("rescan after lost map events", "error", err)
			}
		case err != nil:
			e.report.log.Warn("map events have stopped", "error", err)
			return
		}
		for len(fresh) > 0 && ctx.Err() == nil {
			var of libraryTimes
			of, fresh = e.takeProcess(fresh)
			e.mapped(of)
		}
	}
}

// libraryTimes has the times when a process mapped libraries.
type libraryTimes struct {
	pid uint32
	at  map[libraryKey]time.Time
}

// takeProcess takes the events of one process: a program maps several libraries at its start. It returns
// the rest of the events.
func (e *enroller) takeProcess(fresh []proc.MapEvent) (of libraryTimes, rest []proc.MapEvent) {
	of = libraryTimes{fresh[0].PID, map[libraryKey]time.Time{}}
	rest = slices.DeleteFunc(fresh, func(m proc.MapEvent) bool {
		if m.PID == of.pid {
			of.at[libraryKey{m.Library.Key, m.Library.Lib}] = time.Unix(0, e.clock.Wall(uint64(m.Time)))
		}
		return m.PID == of.pid
	})
	return of, rest
}

// mapped enrolls a process that has just mapped CUDA libraries, if it is traced or selected.
func (e *enroller) mapped(of libraryTimes) {
	pid := of.pid
	traced := e.targets.lives(pid)
	p, err := e.fs.Process(pid)
	if err != nil {
		return
	}
	// The kernel traces a child from its fork on, possibly before this process hears of it.
	if !traced && !e.sel.Wants(&p) && !e.tracer.Traced(pid) {
		return
	}
	if p.Libraries, err = e.fs.Libraries(pid, e.opts.Names); err != nil || !traced && !proc.UsesCUDA(p.Libraries) {
		return
	}
	e.enrol(&p, of.at)
}
