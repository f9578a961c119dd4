package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// inside looks into traced processes for libraries that are linked into their programs, on a
// goroutine of its own: that can take many reads of large files. Its methods may be called from
// any goroutine.
type inside struct {
	fs     proc.FS
	names  proc.Names
	finder *proc.Finder
	report *reporter
	found  func(p *proc.Process, libs []proc.Library, since time.Time) // attaches to them
	wake   chan struct{}                                               // a process waits
	work   sync.WaitGroup

	mu      sync.Mutex
	waiting map[uint32]time.Time // processes to look into, and since when they could use a library
}

func newInside(names proc.Names, finder *proc.Finder, report *reporter, found func(*proc.Process, []proc.Library, time.Time)) *inside {
	return &inside{names: names, finder: finder, report: report, found: found, wake: make(chan struct{}, 1), waiting: map[uint32]time.Time{}}
}

// start looks into processes until ctx ends.
func (x *inside) start(ctx context.Context) {
	x.work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-x.wake:
				x.look()
			}
		}
	})
}

// wait waits until start's ctx has ended and nothing is looked into any more.
func (x *inside) wait() { x.work.Wait() }

// mark has a process looked into, if it could have libraries linked in: it has a driver,
// since when if that is known, and no runtime. No more wait than there are such processes.
func (x *inside) mark(p *proc.Process, since time.Time) {
	has := map[events.Library]bool{}
	for i := range p.Libraries {
		has[p.Libraries[i].Lib] = true
	}
	if !has[events.LibCuda] || has[events.LibCudart] && has[events.LibNCCL] {
		return
	}
	x.mu.Lock()
	x.waiting[p.PID] = since
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// look looks into the processes that wait for it.
func (x *inside) look() {
	x.mu.Lock()
	waiting := x.waiting
	x.waiting = map[uint32]time.Time{}
	x.mu.Unlock()
	for _, pid := range slices.Sorted(maps.Keys(waiting)) {
		if err := x.into(pid, waiting[pid]); err != nil && !errors.Is(err, proc.ErrGone) {
			x.report.log.Debug("look for linked-in libraries", "pid", pid, "error", err)
		}
	}
}

func (x *inside) into(pid uint32, since time.Time) error {
	p, err := x.fs.Process(pid)
	if err != nil {
		return err
	}
	have, err := x.fs.Libraries(pid, x.names)
	if err != nil {
		return err
	}
	in, err := x.finder.Look(pid, x.names, have)
	if err != nil {
		return err
	}
	x.report.log.Info("discover: looked for linked-in libraries", "pid", pid, "found", len(in.Libraries), "not_looked_into", in.Skipped)
	if in.Unseen != "" {
		x.report.add(tick.Report{Kind: "runtime-unseen", Object: fmt.Sprintf("%s (%d)", p.Comm, pid), Why: unseenRuntime(in.Unseen)})
	}
	x.found(&p, in.Libraries, since)
	return nil
}

// unseenRuntime says of a file that a runtime is in it that cannot be seen.
func unseenRuntime(path string) string {
	return fmt.Sprintf("the CUDA runtime is linked into %s, whose symbols were stripped: its calls of the driver are seen, those of the runtime are not", path)
}
