package session

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// libraries are the CUDA libraries that traced processes map, and which of their functions have
// probes. Its methods may be called from any goroutine.
type libraries struct {
	fs     proc.FS
	tracer *probes.Tracer
	finder *proc.Finder
	report *reporter
	only   []uint32 // nil: calls of every process are probed
	// mapped is called for a process that maps one whose probes are in place since seen. It tells
	// whether the process lives.
	mapped  func(pid uint32, path string, seen, since time.Time) bool
	unlink  time.Duration // how long it takes to take one link out; 0: not known
	changed chan struct{} // a process uses one more
	work    sync.WaitGroup

	attaching sync.Mutex // one attachment at a time; it opens files, which may take long
	choosing  sync.Mutex // one choice of what has probes at a time
	leaving   sync.Mutex // one change of probes at a time

	mu    sync.Mutex // guards what follows, never for long
	known map[libraryKey]*library
	order []*library
	hot   map[int]bool // rows that have no probes since these cost most
	twice map[int]bool // rows that have no probes since others see the same calls
	fresh bool         // a process has begun to use a runtime since takeFresh
}

// libraryKey tells apart what one file holds: a program may have a runtime linked
// in, and an NCCL too.
type libraryKey struct {
	proc.Key
	lib events.Library
}

type library struct {
	tick.Library
	attached *probes.Attached
	users    map[uint32]time.Time
	idle     time.Time    // since when it has none
	without  map[int]bool // rows that have no probes, so that the session ends soon
	// uses are the functions that files of its users named, of ended ones too, or probes would
	// come and go with each short process. Guarded by choosing.
	uses map[string]proc.Use
}

func newLibraries(tracer *probes.Tracer, finder *proc.Finder, report *reporter, o *LiveOptions) *libraries {
	l := &libraries{tracer: tracer, finder: finder, report: report, known: map[libraryKey]*library{}, changed: make(chan struct{}, 1)}
	if o.Alone {
		l.only = o.Select.PIDs
	}
	return l
}

// start chooses again what has probes, where there cannot be all, until ctx ends.
func (l *libraries) start(ctx context.Context) {
	if l.fewLinks() {
		l.work.Go(func() { l.watchUses(ctx) })
	}
}

// close takes all probes out, once start's ctx has ended and nobody attaches any more.
func (l *libraries) close() error {
	l.work.Wait()
	var errs []error
	for _, lib := range l.order {
		errs = append(errs, lib.attached.Close())
	}
	return errors.Join(errs...)
}

// attach probes a library unless that has been done. since is when the process
// mapped it, zero if that is not known.
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
	leave := len(l.hot)+len(l.twice) > 0
	l.mu.Unlock()
	l.report.add(lacking(m, lib.attached.Reports)...)
	l.use(lib, p.PID, since)
	if leave {
		l.apply()
	}
	l.tellAttached(p, lib, since)
	return nil
}

// probe puts probes into a library. attaching is held.
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
	id, err := proc.BuildID(f)
	if err != nil {
		l.report.log.Debug("no build id", "path", m.Path, "error", err)
	}
	lib := &library{users: map[uint32]time.Time{p.PID: time.Now()}, uses: map[string]proc.Use{}, Library: tick.Library{Path: m.Path, Lib: m.Lib, BuildID: id}}
	if l.fewLinks() {
		o.Leave = func(a *probes.Attached) map[int]bool {
			lib.attached = a
			return l.chooseProbes(lib)
		}
	}
	a, err := l.tracer.Attach(o, l.only...)
	if err != nil {
		return nil, err
	}
	lib.attached, lib.Probes = a, a.Without(lib.without)
	return lib, nil
}

// tellAttached tells of a library whose probes are in place.
func (l *libraries) tellAttached(p *proc.Process, lib *library, since time.Time) {
	l.mu.Lock()
	is := lib.Library
	l.mu.Unlock()
	a := lib.attached
	n := Notice{Kind: NoticeAttached, PID: p.PID, Comm: p.Comm, Library: is.Path, Probes: is.Probes}
	if !since.IsZero() {
		n.Late = a.At.Sub(since)
	}
	l.report.log.Info("discover: attached", "path", is.Path, "library", is.Lib.String(), "build_id", is.BuildID, "probes", is.Probes,
		"stepped", a.Stepped, "lacks", len(a.Reports), "unprobed", len(a.Unprobed), "late", n.Late)
	l.report.log.Debug("discover: there, and not traced", "path", is.Path, "functions", strings.Join(a.Unprobed, " "))
	l.report.notify(n)
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

// use notes that a process maps a library whose probes are in place, since when if
// that is known.
func (l *libraries) use(lib *library, pid uint32, since time.Time) {
	l.mu.Lock()
	lib.users[pid] = time.Now()
	l.fresh = l.fresh || lib.Lib == events.LibCudart
	path := lib.Path
	l.mu.Unlock()
	if !l.mapped(pid, path, lib.attached.At, since) { // it has ended meanwhile
		l.left(pid)
	}
	l.chooseSoon()
}

// forked says that a process maps what its parent maps.
func (l *libraries) forked(pid, child uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lib := range l.order {
		if since, ok := lib.users[pid]; ok {
			lib.users[child] = since
		}
	}
}

// left says that processes map nothing any more.
func (l *libraries) left(pids ...uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lib := range l.order {
		for _, pid := range pids {
			delete(lib.users, pid)
		}
	}
}

// execed says that a process maps nothing any more of what it mapped before a time. What its new
// program maps may be known by then.
func (l *libraries) execed(pid uint32, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lib := range l.order {
		if since, ok := lib.users[pid]; ok && since.Before(at) {
			delete(lib.users, pid)
		}
	}
}

// idleLibrary is how long a library that nobody maps any more keeps its probes.
const idleLibrary = time.Minute

// prune takes the probes out of libraries that nobody uses: containers
// come and go, each with a copy.
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

// list returns what a tick tells of the libraries.
func (l *libraries) list() []tick.Library {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []tick.Library
	for _, lib := range l.order {
		out = append(out, lib.Library)
	}
	return out
}

// users returns the processes that map a library of a kind.
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

// stepped tells whether most probes of some library of a kind are single-stepped.
func (l *libraries) stepped(kind events.Library) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.order, func(lib *library) bool {
		return lib.Lib == kind && 2*lib.attached.Stepped > lib.attached.Probes
	})
}

// takeFresh tells whether a process has begun to use a runtime since the last call.
func (l *libraries) takeFresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.fresh
	l.fresh = false
	return fresh
}

// leaveHot says which rows have no probes since these cost most. [libraries.apply] takes them out.
func (l *libraries) leaveHot(rows map[int]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hot = rows
}

// leaveTwice says which rows have no probes since others see the same calls, likewise.
func (l *libraries) leaveTwice(rows map[int]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.twice = rows
}

// applyLater is apply on a goroutine of its own, which then calls done.
func (l *libraries) applyLater(done func()) {
	l.work.Go(func() {
		l.apply()
		done()
	})
}

// apply has all libraries do without the probes that are not wanted now. It takes a while.
func (l *libraries) apply() {
	l.leaving.Lock()
	defer l.leaving.Unlock()
	l.mu.Lock()
	libs, rows := slices.Clone(l.order), make([]map[int]bool, len(l.order))
	for i, lib := range libs {
		rows[i] = map[int]bool{}
		for _, of := range []map[int]bool{l.hot, l.twice, lib.without} {
			maps.Copy(rows[i], of)
		}
	}
	l.mu.Unlock()
	for i, lib := range libs {
		if err := lib.attached.Leave(rows[i]); err != nil {
			l.report.failed(0, lib.Path, err)
		}
	}
}
