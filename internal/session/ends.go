package session

import (
	"slices"

	"ingero/internal/tick"
)

// maxEnded is how many processes that have ended, and had made calls, stay in
// the ticks. A trace may run for months beside a job that forks every second.
const maxEnded = 512

// list returns what a tick tells of the processes.
func (t *targets) list() []tick.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []tick.Process
	for _, p := range t.procs {
		out = append(out, p.Process)
	}
	return out
}

// now returns who is traced, for the sums of the host.
func (t *targets) now() map[uint32]tracedProcess {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[uint32]tracedProcess{}
	for pid, p := range t.procs {
		out[pid] = tracedProcess{p.Comm, p.Ended.IsZero(), p.Ended.IsZero()}
	}
	return out
}

// adopt makes the table that of a tape.
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

// counted takes what a tick has told of the processes, and returns those that have ended and
// whose last counts were read. The counts of a tick that tells of an end may have been read before
// the end was heard of: those of the next are the last.
func (t *targets) counted(told []tick.Process) (done []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range told {
		p := t.procs[told[i].PID]
		switch {
		case told[i].Ended.IsZero(), p == nil, p.Ended.IsZero(), p.counted: // or its number is another's by now
		case !p.told:
			p.told = true
		default:
			p.counted = true
			done = append(done, p.PID)
		}
	}
	return done
}

// retire takes the processes that counted returned, and those of them that made calls. It
// forgets the others, and the oldest when there are too many, which it returns.
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

// forget removes a process that has ended, unless its number is another's by now. mu is held.
func (t *targets) forget(pid uint32) bool {
	p := t.procs[pid]
	if p == nil || !p.counted {
		return false
	}
	delete(t.procs, pid)
	return true
}

// killed notes where a process was that the kernel kills for want of memory, while it
// is there to be asked.
func (t *targets) killed(pid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteVictim(pid)
}

// noteVictim is killed with mu held.
func (t *targets) noteVictim(pid uint32) {
	const most = 1024
	if len(t.victims) >= most {
		clear(t.victims)
	}
	delete(t.victims, pid) // the number may have been another's
	if p := t.procs[pid]; p != nil && p.Cgroup != "" {
		t.victims[pid] = p.Cgroup
	} else if p, err := t.fs.Process(pid); err == nil {
		t.victims[pid] = p.Cgroup
	}
}

// cgroup returns the cgroup of a process that was killed for want of memory, "" where
// it ended too soon to tell.
func (t *targets) cgroup(pid uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.victims[pid]; !known {
		t.noteVictim(pid)
	}
	return t.victims[pid]
}
