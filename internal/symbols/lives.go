package symbols

import (
	"slices"

	"ingero/internal/tick"
)

// process returns the process that made a call which began at start.
func (n *Names) process(pid uint32, start int64) *process {
	if n.last != nil && n.last.pid == pid {
		return n.last
	}
	waits := len(n.due[pid]) > 0
	if waits {
		n.liveUntil(pid, start)
	}
	p := n.procs[pid]
	if p == nil {
		p = n.add(pid, 0)
	}
	if !waits || len(n.due[pid]) == 0 { // otherwise a later call may be of another program
		n.last = p
	}
	return p
}

// add adds a process. The figures of a former process with its number continue.
func (n *Names) add(pid uint32, since int64) *process {
	if len(n.procs) >= maxProcesses {
		for other := range n.procs {
			n.end(other, since)
			break
		}
	}
	p := newProcess(pid, since)
	if old := n.ended[pid]; old != nil {
		p.names, p.whys, p.since = old.names, old.whys, max(since, old.since)
		n.forget(pid)
	}
	n.procs[pid] = p
	return p
}

// forget drops the figures of a process that has ended.
func (n *Names) forget(pid uint32) {
	delete(n.ended, pid)
	n.order = slices.DeleteFunc(n.order, func(p uint32) bool { return p == pid })
}

// wait queues an event until a later call of its process, or a tick.
func (n *Names) wait(l life) {
	n.due[l.pid] = append(n.due[l.pid], len(n.lives))
	n.lives = append(n.lives, l)
	n.last = nil
}

// liveUntil applies a process's events up to a time, in order.
func (n *Names) liveUntil(pid uint32, at int64) {
	waiting := n.due[pid]
	rest := waiting[:0]
	for _, i := range waiting {
		if n.lives[i].Time > at {
			rest = append(rest, i)
			continue
		}
		n.live(&n.lives[i])
		n.lives[i].done = true
	}
	if n.due[pid] = rest; len(rest) == 0 {
		delete(n.due, pid)
	}
}

// liveAll applies all processes' events up to a time, in order.
func (n *Names) liveAll(at int64) {
	lives := n.lives
	n.lives, n.due = nil, map[uint32][]int{}
	for i := range lives {
		switch l := &lives[i]; {
		case l.done:
		case l.Time > at:
			n.wait(*l)
		default:
			n.live(l)
		}
	}
}

// live applies one event.
func (n *Names) live(l *life) {
	n.last = nil
	switch l.Kind {
	case tick.ProcForked:
		n.forked(l)
	case tick.ProcExeced:
		n.execed(l)
	case tick.ProcExited:
		n.end(l.pid, l.Time)
	}
}

// forked links a child to its parent, whose handles it inherits. Calls of the child may have come
// before the fork.
func (n *Names) forked(l *life) {
	parent := n.procs[l.PID]
	if parent == nil {
		return
	}
	child := n.procs[l.pid]
	if child == nil {
		child = n.add(l.pid, l.Time)
	}
	if child.parent == nil && child != parent {
		child.since, child.parent, parent.forked = max(child.since, l.Time), parent, true
	}
}

// execed replaces a process's program. Its figures continue.
func (n *Names) execed(l *life) {
	old := n.procs[l.pid]
	if old == nil {
		return
	}
	p := newProcess(l.pid, l.Time)
	p.names, p.whys = old.names, old.whys
	for handle, r := range old.regs { // learned after the exec, before its event
		if r.since >= l.Time {
			p.regs[handle] = r
			delete(old.regs, handle)
		}
	}
	n.regs -= len(old.regs)
	n.procs[l.pid] = p
}

// end drops a process, but keeps its figures.
func (n *Names) end(pid uint32, at int64) {
	p := n.procs[pid]
	if p == nil {
		return
	}
	if n.last == p {
		n.last = nil
	}
	n.regs -= len(p.regs)
	delete(n.procs, pid)
	if len(p.funcs) == 0 && len(p.names)+len(p.whys) == 0 {
		return
	}
	if len(n.order) >= maxEnded {
		n.forget(n.order[0])
	}
	ended := newProcess(pid, at)
	ended.names, ended.whys = p.names, p.whys
	if p.wait > 0 { // answers may still come
		ended.wait, ended.funcs = p.wait, p.funcs
	}
	n.ended[pid] = ended
	n.order = append(n.order, pid)
}
