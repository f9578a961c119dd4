package session

import (
	"context"
	"fmt"
	"os"

	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// followFamily traces all descendants of the named processes, whether or not they use CUDA. So the
// programs that they start later are traced from the first instruction.
func (e *enroller) followFamily(ctx context.Context) error {
	if e.opts.Alone || len(e.sel.PIDs) == 0 {
		return nil
	}
	own := e.own()
	const most = 16 // enough even for a family that keeps forking
	for range most {
		family, err := e.fs.Descendants(ctx, e.sel.PIDs)
		if err != nil {
			return fmt.Errorf("look for children: %w", err)
		}
		fresh := false // one was added: its earlier children are in the next list
		for _, pid := range family {
			if own[pid] || e.tracer.Traced(pid) {
				continue
			}
			if p, err := e.fs.Process(pid); err == nil { // otherwise it has ended
				fresh = e.follow(&p) || fresh
			}
		}
		if !fresh {
			break
		}
	}
	return nil
}

// own returns this process and its ancestors: they end when the trace does.
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

// follow traces a process that may never use CUDA, and reports whether the process is new.
func (e *enroller) follow(p *proc.Process) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.targets.hasEnded(p) && !e.targets.lives(p.PID) && e.admit(p)
}

// placed reports whether a process runs in the selected place (cgroup, pod, job).
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

// watchPods keeps the list of pods current. It rescans processes when pods appear: a process is not
// selected before its pod is known.
func (e *enroller) watchPods(ctx context.Context) {
	pods := e.opts.Pods
	if pods == nil {
		return
	}
	e.work.Go(func() {
		pods.Run(ctx, func(err error) {
			e.report.log.Warn("pods are unknown", "error", err)
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
