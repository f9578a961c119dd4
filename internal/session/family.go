package session

import (
	"context"
	"fmt"

	"ingero/internal/proc"
)

// followFamily traces all that descends from the processes that were named, whether it uses
// CUDA or not: what it starts later is traced from its first instruction.
func (l *Live) followFamily(ctx context.Context) error {
	if l.Alone || len(l.Select.PIDs) == 0 {
		return nil
	}
	own := l.own()
	const most = 16 // a family that forks all the time is as good as known by then
	for range most {
		family, err := l.fs.Descendants(ctx, l.Select.PIDs)
		if err != nil {
			return fmt.Errorf("look for children: %w", err)
		}
		fresh := false // the children that one had before it was traced are in the next list
		for _, pid := range family {
			if own[pid] || l.tracer.Traced(pid) {
				continue
			}
			if p, err := l.fs.Process(pid); err == nil { // else it has ended
				fresh = l.follow(&p) || fresh
			}
		}
		if !fresh {
			break
		}
	}
	return nil
}

// own is this process with those that it descends from: they end when the trace does.
func (l *Live) own() map[uint32]bool {
	own := map[uint32]bool{}
	for pid := l.AgentPID(); pid != 0 && !own[pid]; {
		own[pid] = true
		p, err := l.fs.Process(pid)
		if err != nil {
			break // the parent has ended meanwhile
		}
		pid = p.PPID
	}
	return own
}

// follow traces a process of which it is not known whether it uses CUDA, and tells whether
// that is new. Until it does, it stands aside.
func (l *Live) follow(p *proc.Process) bool {
	l.enrolling.Lock()
	defer l.enrolling.Unlock()
	if l.over(p) || l.lives(p.PID) || !l.admit(p) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.procs[p.PID]; k != nil && k.Ended.IsZero() {
		k.aside = true
		l.alive, l.aside = l.alive-1, l.aside+1
	}
	return true
}

// join has a process that stood aside, and was found to use CUDA, be waited for.
func (l *Live) join(p *proc.Process) {
	l.mu.Lock()
	k := l.procs[p.PID]
	joins := k != nil && k.aside && k.Ended.IsZero() && proc.UsesCUDA(p.Libraries)
	if joins {
		k.aside = false
		l.alive, l.aside = l.alive+1, l.aside-1
	}
	l.mu.Unlock()
	if joins {
		l.Notify(Notice{Kind: NoticeTracing, PID: p.PID, Comm: p.Comm})
	}
}
