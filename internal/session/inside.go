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

// linkedLibraries searches traced processes for libraries linked into their programs. It has its own
// goroutine, since it may read large files many times. Its methods are safe for concurrent use.
type linkedLibraries struct {
	names  proc.Names
	finder *proc.Finder
	report *reporter
	found  func(p *proc.Process, libs []proc.Library, since time.Time) // attaches to the libraries
	wake   chan struct{}                                               // signals a waiting process
	work   sync.WaitGroup

	mu      sync.Mutex
	waiting map[uint32]waitingProcess
}

// waitingProcess is a process to search.
type waitingProcess struct {
	*proc.Process
	since time.Time // since when it could use a library
}

func newInside(names proc.Names, finder *proc.Finder, report *reporter, found func(*proc.Process, []proc.Library, time.Time)) *linkedLibraries {
	return &linkedLibraries{names: names, finder: finder, report: report, found: found, wake: make(chan struct{}, 1), waiting: map[uint32]waitingProcess{}}
}

// start searches processes until ctx ends.
func (x *linkedLibraries) start(ctx context.Context) {
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

// wait waits until start's ctx has ended and no search is running.
func (x *linkedLibraries) wait() { x.work.Wait() }

// mark queues a process that may have libraries linked in: it maps a driver, but not both the
// runtime and NCCL. since is when it mapped the driver, if known. The queue holds each process
// once. p must not change afterwards.
func (x *linkedLibraries) mark(p *proc.Process, since time.Time) {
	has := map[events.Library]bool{}
	for i := range p.Libraries {
		has[p.Libraries[i].Lib] = true
	}
	if !has[events.LibCuda] || has[events.LibCudart] && has[events.LibNCCL] {
		return
	}
	x.mu.Lock()
	x.waiting[p.PID] = waitingProcess{p, since}
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// look searches the waiting processes.
func (x *linkedLibraries) look() {
	x.mu.Lock()
	waiting := x.waiting
	x.waiting = map[uint32]waitingProcess{}
	x.mu.Unlock()
	for _, pid := range slices.Sorted(maps.Keys(waiting)) {
		if err := x.into(waiting[pid]); err != nil && !errors.Is(err, proc.ErrExited) {
			x.report.log.Debug("look for linked-in libraries", "pid", pid, "error", err)
		}
	}
}

func (x *linkedLibraries) into(p waitingProcess) error {
	if !x.finder.FS.Lives(p.Process) { // another process may have its number
		return proc.ErrExited
	}
	in, err := x.finder.Look(p.PID, x.names)
	if err != nil {
		return err
	}
	x.report.log.Info("discover: looked for linked-in libraries", "pid", p.PID, "found", len(in.Libraries), "not_looked_into", in.Skipped)
	if in.Unseen != "" {
		x.report.add(tick.Report{Kind: "runtime-unseen", Object: fmt.Sprintf("%s (%d)", p.Comm, p.PID), Why: unseenRuntime(in.Unseen)})
	}
	x.found(p.Process, in.Libraries, p.since)
	return nil
}

// unseenRuntime returns the text for a file that contains a stripped runtime.
func unseenRuntime(path string) string {
	return fmt.Sprintf("%s contains the CUDA runtime without symbols (stripped): its driver calls are traced, its runtime calls are not", path)
}
