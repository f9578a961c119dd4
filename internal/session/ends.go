package session

import (
	"slices"

	"ingero/internal/tick"
)

// maxEnded bounds the ended processes with calls that stay in ticks. A trace may run for months
// beside a job that forks every second.
const maxEnded = 512

// list returns the processes for a tick.
func (t *targets) list() []tick.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []tick.Process
	for _, p := range t.procs {
		out = append(out, p.Process)
	}
	return out
}

// now returns the traced processes, for the host sums.
func (t *targets) now() map[uint32]tracedProcess {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[uint32]tracedProcess{}
	for pid, p := range t.procs {
		out[pid] = tracedProcess{p.Comm, p.Ended.IsZero(), p.Ended.IsZero()}
	}
	return out
}

// adopt replaces the table by that of a tape.
func (t *targets) adopt(processes []tick.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	listed := map[uint32]bool{}
	for i := range processes {
		p := &processes[i]
		listed[p.PID] = true
		if k := t.procs[p.PID]; k == nil || !k.Started.Equal(p.Started) {
			t.procs[p.PID] = &process{}
		}
		t.procs[p.PID].Process = *p
	}
	for pid := range t.procs {
		if !listed[pid] {
			delete(t.procs, pid)
		}
	}
}

// counted processes the list of a tick, and returns the ended processes whose last counts have been
// read. The counts of the first tick that lists an end may predate the end, so the counts of the
// next tick are the last.
func (t *targets) counted(processes []tick.Process) (done []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range processes {
		p := t.procs[processes[i].PID]
		switch {
		case processes[i].Ended.IsZero(), p == nil, p.Ended.IsZero(), p.counted: // or its number was reused
		case !p.endReported:
			p.endReported = true
		default:
			p.counted = true
			done = append(done, p.PID)
		}
	}
	return done
}

// retire takes the processes that counted returned, and those among them that made calls. It
// forgets the others. Over maxEnded, it also forgets the oldest and returns them.
func (t *targets) retire(done, called []uint32) (forgotten []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pid := range done {
		if !slices.Contains(called, pid) {
			t.forget(pid)
		}
	}
	t.ends = append(t.ends, called...)
	for len(t.ends) > maxEnded {
		pid := t.ends[0]
		t.ends = t.ends[1:]
		if t.forget(pid) {
			forgotten = append(forgotten, pid)
		}
	}
	return forgotten
}

// forget removes an ended process, unless another process has its number now. mu is held.
func (t *targets) forget(pid uint32) bool {
	p := t.procs[pid]
	if p == nil || !p.counted {
		return false
	}
	delete(t.procs, pid)
	return true
}

// killed records the cgroup of a process that the kernel is killing for lack of memory, and whether a memory
// limit was reached, while /proc still has the process.
func (t *targets) killed(pid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteVictim(pid)
}

// noteVictim implements killed. mu is held.
func (t *targets) noteVictim(pid uint32) {
	const most = 1024
	if len(t.victims) >= most {
		clear(t.victims)
	}
	delete(t.victims, pid) // another process may have had the number
	group, recorded := "", ""
	if p := t.procs[pid]; p != nil && p.Cgroup != "" {
		group, recorded = p.Cgroup, p.Cgroup
	} else if p, err := t.fs.Process(pid); err == nil {
		group = p.Cgroup
	} else {
		return
	}
	t.victims[pid] = tick.OOMObject(group, t.limits.AtMemoryLimit(pid, recorded))
}

// cgroup returns the object of tick.HostOOM for a killed process, "" if the process ended before it could be
// read.
func (t *targets) cgroup(pid uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.victims[pid]; !known {
		t.noteVictim(pid)
	}
	return t.victims[pid]
}
