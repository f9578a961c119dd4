package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingero/internal/decode"
	"ingero/internal/elffile"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// libraries is the table of CUDA libraries that traced processes map, with the functions that have
// probes. Its methods are safe for concurrent use.
type libraries struct {
	fs     proc.FS
	clock  decode.Clock
	tracer *probes.Tracer
	finder *proc.Finder
	report *reporter
	only   []uint32 // nil: probes fire in every process
	// mapped is called when a process maps, since a time, a library whose probes are attached since
	// seen. It reports whether the process is alive.
	mapped  func(pid uint32, path string, seen, since time.Time) bool
	unlink  time.Duration // time to detach one link; 0: unknown
	changed chan struct{} // a process uses one more library
	work    sync.WaitGroup

	begun, applied atomic.Uint64 // calls of applyLater, and those of them that are complete

	attaching sync.Mutex // serializes attachments, which open files and may take long
	choosing  sync.Mutex // serializes choices of functions to probe
	changing  sync.Mutex // serializes changes of probes

	mu      sync.Mutex // guards the fields below; held briefly
	known   map[libraryKey]*library
	order   []*library
	hot     map[int]bool // rows without probes because theirs cost most
	doubled map[int]bool // rows without probes because others see the same calls
	fresh   bool         // a process has started to use a runtime since takeFresh
}

// libraryKey identifies a library within a file: a program may have both a runtime and NCCL linked
// in.
type libraryKey struct {
	proc.Key
	lib events.Library
}

type library struct {
	tick.Library
	attached *probes.Attached
	since    time.Time // when it was attached
	users    map[uint32]time.Time
	idle     time.Time    // since when it has no users
	without  map[int]bool // rows without probes, so that detaching stays fast
	// uses has the functions that its users' files name, including those of ended users. Otherwise
	// probes would come and go with each short process. Guarded by choosing.
	uses map[string]proc.Use
}

func newLibraries(clock decode.Clock, tracer *probes.Tracer, finder *proc.Finder, report *reporter, o *LiveOptions) *libraries {
	l := &libraries{clock: clock, tracer: tracer, finder: finder, report: report, known: map[libraryKey]*library{}, changed: make(chan struct{}, 1)}
	if o.Alone {
		l.only = o.Select.PIDs
	}
	return l
}

// now returns the time on the clock of events, which a step of the wall clock does not move.
func (l *libraries) now() time.Time { return time.Unix(0, l.clock.Now()) }

// start repeats the choice of functions to probe, if there must be one, until ctx ends.
func (l *libraries) start(ctx context.Context) {
	if l.fewLinks() {
		l.work.Go(func() { l.watchUses(ctx) })
	}
}

// close detaches all probes. Call it once start's ctx has ended and nothing attaches.
func (l *libraries) close() error {
	l.work.Wait()
	var errs []error
	for _, lib := range l.order {
		errs = append(errs, lib.attached.Close())
	}
	return errors.Join(errs...)
}

// attach probes a library, unless it has probes. since is when the process mapped it, zero if
// unknown.
func (l *libraries) attach(p *proc.Process, m proc.Library, since time.Time) error {
	l.attaching.Lock()
	defer l.attaching.Unlock()
	key := libraryKey{m.Key, m.Lib}
	l.mu.Lock()
	lib := l.known[key]
	l.mu.Unlock()
	if lib != nil {
		l.use(lib, p.PID, since)
		return nil
	}
	l.report.log.Info("discover: found "+m.Lib.String()+".so", "path", m.Path, "pid", p.PID, "deleted", m.Deleted, "linked_in", m.Inside)
	lib, err := l.probe(p, m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.known[key] = lib
	l.order = append(l.order, lib)
	some := len(l.hot)+len(l.doubled) > 0
	l.mu.Unlock()
	l.report.add(mergeMissing(m, lib.attached.Reports)...)
	l.use(lib, p.PID, since)
	if some {
		l.apply()
	}
	l.notifyAttached(p, lib, since)
	return nil
}

// probe attaches probes to a library. attaching is held.
func (l *libraries) probe(p *proc.Process, m proc.Library) (*library, error) {
	f, path, err := l.fs.OpenMapped(p.PID, m.Mapping)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	o, err := object(m, f, path)
	if err != nil {
		return nil, err
	}
	id, err := elffile.BuildID(f)
	if err != nil {
		l.report.log.Debug("no build id", "path", m.Path, "error", err)
	}
	lib := &library{users: map[uint32]time.Time{p.PID: l.now()}, uses: map[string]proc.Use{}, Library: tick.Library{Path: m.Path, Lib: m.Lib, BuildID: id}}
	if l.fewLinks() {
		o.Detached = func(a *probes.Attached) map[int]bool {
			lib.attached = a
			return l.chooseProbes(lib)
		}
	}
	a, err := l.tracer.Attach(o, l.only...)
	if err != nil {
		return nil, err
	}
	lib.attached, lib.since, lib.Probes = a, l.now(), a.Without(lib.without)
	return lib, nil
}

// notifyAttached logs a library whose probes are attached, and notifies about it.
func (l *libraries) notifyAttached(p *proc.Process, lib *library, since time.Time) {
	l.mu.Lock()
	is := lib.Library
	l.mu.Unlock()
	a := lib.attached
	n := Notice{Kind: NoticeAttached, PID: p.PID, Comm: p.Comm, Library: is.Path, Probes: is.Probes}
	if !since.IsZero() {
		n.AttachDelay = lib.since.Sub(since)
	}
	l.report.log.Info("discover: attached", "path", is.Path, "library", is.Lib.String(), "build_id", is.BuildID, "probes", is.Probes,
		"stepped", a.Stepped, "lacks", len(a.Reports), "unprobed", len(a.Unprobed), "late", n.AttachDelay)
	l.report.log.Debug("discover: functions that exist but are not traced", "path", is.Path, "functions", strings.Join(a.Unprobed, " "))
	l.report.notify(n)
}

// object returns the probe target for a library.
func object(m proc.Library, f *os.File, path string) (probes.Object, error) {
	o := probes.Object{Path: path, Name: m.Path, File: f, Lib: m.Lib}
	if m.Inside {
		s, err := proc.FindSymbols(f)
		if err != nil {
			return o, err
		}
		o.Functions = s.Functions
	}
	return o, nil
}

// mergeMissing merges all reports of missing functions into one: versions of a library differ in
// hundreds. A linked-in library contains only what its program uses, and gets no such report.
func mergeMissing(m proc.Library, reports []tick.Report) (out []tick.Report) {
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

// use records that a process maps a library with probes, and since when, if known.
func (l *libraries) use(lib *library, pid uint32, since time.Time) {
	l.mu.Lock()
	lib.users[pid] = l.now()
	l.fresh = l.fresh || lib.Lib == events.LibCudart
	path := lib.Path
	l.mu.Unlock()
	if !l.mapped(pid, path, lib.since, since) { // the process has ended meanwhile
		l.removeUsers(pid)
	}
	l.chooseSoon()
}

// forked records that a child maps the libraries of its parent.
func (l *libraries) forked(pid, child uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lib := range l.order {
		if since, ok := lib.users[pid]; ok {
			lib.users[child] = since
		}
	}
}

// removeUsers records that processes no longer map libraries.
func (l *libraries) removeUsers(pids ...uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lib := range l.order {
		for _, pid := range pids {
			delete(lib.users, pid)
		}
	}
}

// execed removes the libraries that a process mapped before its exec. The table may have those of
// its new program already.
func (l *libraries) execed(pid uint32, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lib := range l.order {
		if since, ok := lib.users[pid]; ok && since.Before(at) {
			delete(lib.users, pid)
		}
	}
}

// idleLibrary is how long an unmapped library keeps its probes.
const idleLibrary = time.Minute

// prune detaches the probes of libraries without users: containers come and go, each with its own
// copy.
func (l *libraries) prune(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, lib := range l.known {
		switch {
		case len(lib.users) > 0:
			lib.idle = time.Time{}
		case lib.idle.IsZero():
			lib.idle = now
		case now.Sub(lib.idle) >= idleLibrary:
			delete(l.known, key)
			l.order = slices.DeleteFunc(l.order, func(x *library) bool { return x == lib })
			l.work.Go(func() {
				if err := lib.attached.Close(); err != nil {
					l.report.log.Warn("detach", "path", lib.Path, "error", err)
				}
			})
		}
	}
}

// list returns the libraries for a tick.
func (l *libraries) list() []tick.Library {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []tick.Library
	for _, lib := range l.order {
		out = append(out, lib.Library)
	}
	return out
}

// users returns the processes that map a library of the given kind.
func (l *libraries) users(kind events.Library) map[uint32]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[uint32]bool{}
	for _, lib := range l.order {
		if lib.Lib == kind {
			for pid := range lib.users {
				out[pid] = true
			}
		}
	}
	return out
}

// mostlySingleStepped reports whether most probes of a library of the given kind are single-stepped.
func (l *libraries) mostlySingleStepped(kind events.Library) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.order, func(lib *library) bool {
		return lib.Lib == kind && 2*lib.attached.Stepped > lib.attached.Probes
	})
}

// takeFresh reports whether a process has started to use a runtime since the last call.
func (l *libraries) takeFresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.fresh
	l.fresh = false
	return fresh
}

// setHot sets the rows without probes because theirs cost most, and returns those so far.
// [libraries.apply] detaches them.
func (l *libraries) setHot(rows map[int]bool) (was map[int]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, l.hot = l.hot, rows
	return was
}

// setDoubled sets the rows without probes because others see the same calls, likewise.
func (l *libraries) setDoubled(rows map[int]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubled = rows
}

// applyLater runs apply on its own goroutine.
func (l *libraries) applyLater() {
	l.begun.Add(1)
	l.work.Go(func() {
		l.apply()
		l.applied.Add(1)
	})
}

// applying reports whether a call of applyLater is not complete.
func (l *libraries) applying() bool { return l.begun.Load() != l.applied.Load() }

// dropReturns detaches the return probes of all libraries.
func (l *libraries) dropReturns() error {
	l.changing.Lock()
	defer l.changing.Unlock()
	l.mu.Lock()
	libs := slices.Clone(l.order)
	l.mu.Unlock()
	var errs []error
	for _, lib := range libs {
		errs = append(errs, lib.attached.DropReturns())
	}
	return errors.Join(errs...)
}

// apply detaches unwanted probes of all libraries, and attaches wanted ones. It is slow.
func (l *libraries) apply() {
	l.changing.Lock()
	defer l.changing.Unlock()
	l.mu.Lock()
	libs, rows := slices.Clone(l.order), make([]map[int]bool, len(l.order))
	for i, lib := range libs {
		rows[i] = map[int]bool{}
		for _, of := range []map[int]bool{l.hot, l.doubled, lib.without} {
			maps.Copy(rows[i], of)
		}
	}
	l.mu.Unlock()
	for i, lib := range libs {
		if err := lib.attached.SetDetached(rows[i]); err != nil {
			l.report.failed(0, lib.Path, err)
		}
	}
}
