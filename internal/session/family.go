package session

import (
	"context"
	"fmt"
	"os"

	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// followFamily traces all that descends from the processes that were named, whether it uses
// CUDA or not: what it starts later is traced from its first instruction.
func (e *enroller) followFamily(ctx context.Context) error {
	if e.opts.Alone || len(e.sel.PIDs) == 0 {
		return nil
	}
	own := e.own()
	const most = 16 // a family that forks all the time is as good as known by then
	for range most {
		family, err := e.fs.Descendants(ctx, e.sel.PIDs)
		if err != nil {
			return fmt.Errorf("look for children: %w", err)
		}
		fresh := false // the children that one had before it was traced are in the next list
		for _, pid := range family {
			if own[pid] || e.tracer.Traced(pid) {
				continue
			}
			if p, err := e.fs.Process(pid); err == nil { // else it has ended
				fresh = e.follow(&p) || fresh
			}
		}
		if !fresh {
			break
		}
	}
	return nil
}

// own is this process with those that it descends from: they end when the trace does.
func (e *enroller) own() map[uint32]bool {
	own := map[uint32]bool{}
	for pid := uint32(os.Getpid()); pid != 0 && !own[pid]; {
		own[pid] = true
		p, err := e.fs.Process(pid)
		if err != nil {
			break // the parent has ended meanwhile
		}
		pid = p.PPID
	}
	return own
}

// follow traces a process of which it is not known whether it uses CUDA, and tells whether
// that is new. Until it does, it stands aside.
func (e *enroller) follow(p *proc.Process) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.targets.over(p) || e.targets.lives(p.PID) || !e.admit(p) {
		return false
	}
	e.targets.standAside(p.PID)
	return true
}

// placed tells whether a process is where it must be to be traced.
func (e *enroller) placed(p *proc.Process) bool {
	w := where.Cgroups(p.Cgroups)
	if e.opts.Place.Job != "" && !where.Numbered(w.Job) {
		where.Environ(e.targets.variables(p), &w)
	}
	if e.opts.Pods != nil {
		e.opts.Pods.Complete(&w)
	}
	return e.opts.Place.Match(p.Cgroup, &w)
}

// watchPods keeps the pods, and looks for processes again when there are new ones: those
// that were there before their pod was known were not selected.
func (e *enroller) watchPods(ctx context.Context) {
	pods := e.opts.Pods
	if pods == nil {
		return
	}
	e.work.Go(func() {
		pods.Run(ctx, func(err error) {
			e.report.log.Warn("pods are not known", "error", err)
			e.report.add(tick.Report{Kind: "kubernetes", Object: "pods", Why: err.Error()})
		})
	})
	if !e.opts.Place.NeedsPods() && e.opts.Place.Container == "" {
		return
	}
	e.work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-pods.Changed():
			}
			if err := e.rescan(ctx); err != nil && ctx.Err() == nil {
				e.report.log.Warn("look for processes of new pods", "error", err)
			}
		}
	})
}
