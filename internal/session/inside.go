package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// markInside has a process looked into for libraries that are linked into its
// program, if it could have some: it has a driver, since when if that is known, and
// no runtime. The table has no more entries than there are such processes.
func (l *Live) markInside(p *proc.Process, since time.Time) {
	has := map[events.Library]bool{}
	for i := range p.Libraries {
		has[p.Libraries[i].Lib] = true
	}
	if !has[events.LibCuda] || has[events.LibCudart] && has[events.LibNCCL] {
		return
	}
	l.mu.Lock()
	l.unlooked[p.PID] = since
	l.mu.Unlock()
	select {
	case l.look <- struct{}{}:
	default:
	}
}

// readInside looks into processes on a goroutine of its own, for that can take
// many reads of large files, until ctx ends.
func (l *Live) readInside(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.look:
			l.lookInside()
		}
	}
}

// lookInside looks into the processes that wait for it.
func (l *Live) lookInside() {
	l.mu.Lock()
	waiting := l.unlooked
	l.unlooked = map[uint32]time.Time{}
	l.mu.Unlock()
	for _, pid := range slices.Sorted(maps.Keys(waiting)) {
		if err := l.lookInto(pid, waiting[pid]); err != nil && !errors.Is(err, proc.ErrGone) {
			l.Log.Debug("look for linked-in libraries", "pid", pid, "error", err)
		}
	}
}

func (l *Live) lookInto(pid uint32, since time.Time) error {
	p, err := l.fs.Process(pid)
	if err != nil {
		return err
	}
	have, err := l.fs.Libraries(pid, l.Names)
	if err != nil {
		return err
	}
	in, err := l.inside.Look(pid, l.Names, have)
	if err != nil {
		return err
	}
	l.Log.Info("discover: looked for linked-in libraries", "pid", pid, "found", len(in.Libraries), "not_looked_into", in.Skipped)
	if in.Unseen != "" {
		l.mu.Lock()
		l.addReports(tick.Report{Kind: "runtime-unseen", Object: fmt.Sprintf("%s (%d)", p.Comm, pid), Why: unseenRuntime(in.Unseen)})
		l.mu.Unlock()
	}
	l.enrolling.Lock()
	defer l.enrolling.Unlock()
	if !l.lives(pid) {
		return nil
	}
	for _, lib := range in.Libraries {
		if err := l.attach(&p, lib, since); err != nil {
			l.failed(pid, lib.Path, err)
		}
	}
	return nil
}

// unseenRuntime says of a file that a runtime is in it that cannot be seen.
func unseenRuntime(path string) string {
	return fmt.Sprintf("the CUDA runtime is linked into %s, whose symbols were stripped: its calls of the driver are seen, those of the runtime are not", path)
}
