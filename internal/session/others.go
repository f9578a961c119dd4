package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/pkg/events"
)

// untracedProcesses tracks the untraced processes that had a part in a wait of a traced thread, used a disk or a
// job's CPU quota, sent a signal, held a lock, or had a GPU open that became slower. Facts about each are read once
// while it lives, and again after an exec that soon follows its fork. An entry outlives its process, until another process
// with its number has a part. Its methods are for the polling goroutine.
type untracedProcesses struct {
	fs    proc.FS
	known map[uint32]*untracedProcess
	// small has the total parts of processes below notable, ns.
	small   map[uint32]int64
	request func(*untracedProcess) bool // requests its command line, and reports whether it could; nil: none
	pods    Pods                        // nil: unknown
}

type untracedProcess struct {
	tick.Process
	start uint64 // its StartTicks; 0: unknown. events.Thread has the lower half
	seen  int64  // Unix ns: when it last had a part, or was an ancestor of a traced process
	again int64  // Unix ns: time of the second read, when its exec should be over; 0: never

	checked   int64 // Unix ns: time of the last check that no other process has its number
	requested bool  // whether its command line was requested
}

const (
	maxOthers = 512
	// notable is the part in waits from which on a process is read: a read costs some 0.1 ms.
	notable = 200 * time.Microsecond
	// maxSmall bounds the entries of small, which is cleared when full.
	maxSmall = 1024
	// untilExec is the longest expected time from fork to exec.
	untilExec = time.Second
	// checkAgain is the shortest time between two checks of a process: one costs some 0.01 ms.
	checkAgain = 10 * time.Second
	// startSlack covers the resolution of start times.
	startSlack = 20 * time.Millisecond
	// lookups bounds the processes read in one poll, not counting ancestors.
	lookups = 8
	// mostAncestors bounds the ancestors read at a time.
	mostAncestors = 16
)

// note adds the parts of untraced processes in waits.
func (o *untracedProcesses) note(waits []events.Wait, traced func(pid uint32) bool) {
	left := lookups
	for i := range waits {
		w := &waits[i]
		part := w.Duration
		if w.State == events.WaitRunnable {
			part = w.Taken
		}
		if w.Who.PID == 0 || w.Who.PID == w.PID {
			continue
		}
		if x := o.known[w.Who.PID]; x != nil && x.start != 0 && w.Who.TID == w.Who.PID && w.Who.Start != 0 {
			if w.Who.Start == uint32(x.start) {
				x.checked = max(x.checked, w.End())
			} else {
				delete(o.known, w.Who.PID) // its number belongs to another process now
			}
		}
		if x := o.current(w.Who.PID, w.End(), time.Time{}); x != nil {
			x.seen = w.End()
			if x.again != 0 && x.seen >= x.again && left > 0 {
				left--
				o.reread(x)
			}
			continue
		}
		if part += o.small[w.Who.PID]; part < int64(notable) {
			o.sum(w.Who.PID, part)
			continue
		}
		if left == 0 || traced(w.Who.PID) {
			continue
		}
		left--
		delete(o.small, w.Who.PID)
		o.add(&w.Who, w.End())
	}
}

// did adds host activity: locks that untraced processes held, GPUs that they had open, signals that they sent to traced
// processes, disk requests that took notable time, and CPU time of a job's quota. Many processes may use a disk, so the
// first two come first.
func (o *untracedProcesses) did(sums []tick.HostSum, at int64, traced func(pid uint32) bool) {
	left := lookups
	for _, first := range []bool{true, false} {
		for i := range sums {
			s := &sums[i]
			if first != (s.Kind == tick.HostLockRefused || s.Kind == tick.HostGPUOpen) {
				continue
			}
			who := actor(s)
			if x := o.current(who.PID, at, time.Time{}); x != nil {
				x.seen = at
				continue
			}
			if who.PID != 0 && left > 0 && !traced(who.PID) {
				left--
				o.add(&who, at)
			}
		}
	}
}

// actor returns the process that did something on the host that matters, PID 0: none.
func actor(s *tick.HostSum) events.Thread {
	switch s.Kind {
	case tick.HostSignal:
		return events.Thread{PID: s.Sender, Name: events.NameOf(s.Comm)}
	case tick.HostGPUOpen:
		return events.Thread{PID: s.PID, Name: events.NameOf(s.Comm)}
	case tick.HostLockRefused: // Comm is the name of the process that was refused
		return events.Thread{PID: s.Sender}
	case tick.HostDiskRead, tick.HostDiskWrite, tick.HostDiskFlush, tick.HostThreads:
		if s.NS >= uint64(notable) {
			return events.Thread{PID: s.PID, Name: events.NameOf(s.Comm)}
		}
	}
	return events.Thread{}
}

// sum sets the total part of a process.
func (o *untracedProcesses) sum(pid uint32, part int64) {
	if o.small == nil || len(o.small) >= maxSmall {
		o.small = map[uint32]int64{}
	}
	o.small[pid] = part
}

// add reads the facts about a process and its ancestors.
func (o *untracedProcesses) add(who *events.Thread, at int64) {
	x := o.read(who.PID, at)
	if x == nil {
		x = &untracedProcess{seen: at, checked: at, Process: tick.Process{PID: who.PID, PPID: who.Parent, Comm: who.Name.String()}}
	}
	o.known[x.PID] = x
	o.ancestors(&x.Process, at, map[uint32]bool{})
	if len(o.known) <= maxOthers {
		return
	}
	for _, pid := range slices.SortedFunc(maps.Keys(o.known), func(a, b uint32) int {
		return cmp.Compare(o.known[a].seen, o.known[b].seen)
	})[:maxOthers/4] {
		delete(o.known, pid)
	}
}

// read returns the facts about a process, and requests its command line; nil: it has ended.
func (o *untracedProcesses) read(pid uint32, at int64) *untracedProcess {
	p, err := o.fs.Process(pid)
	if err != nil {
		return nil
	}
	x := &untracedProcess{seen: at, checked: at, Process: describe(&p), start: p.StartTicks}
	if again := p.Started.Add(untilExec).UnixNano(); again > at {
		x.again = again
	}
	x.Where = where.Cgroups(p.Cgroups)
	o.requestProgram(x)
	return x
}

// current returns what is known about a process, nil: nothing. If its last check is old, it checks whether another process
// has the number now, and deletes the entry then. A process that has ended keeps its entry. A new owner that started after
// a child of the known process, if not zero, does not count: it is not the parent of the child.
func (o *untracedProcesses) current(pid uint32, at int64, child time.Time) *untracedProcess {
	x := o.known[pid]
	if x == nil || at-x.checked < int64(checkAgain) {
		return x
	}
	x.checked = at
	if start, err := o.fs.StartTicks(pid); err != nil || start == x.start {
		return x
	}
	p, err := o.fs.Process(pid)
	if err != nil || p.ThreadOf != 0 || !child.IsZero() && p.Started.After(child.Add(startSlack)) {
		return x
	}
	delete(o.known, pid)
	return nil
}

// requestProgram requests the command line of a process.
func (o *untracedProcesses) requestProgram(x *untracedProcess) {
	x.requested = o.request != nil && o.request(x)
}

// ancestors reads the facts about the ancestors of a process, as far as they are unknown, up to one that was visited. A
// command line whose request was refused is requested again.
func (o *untracedProcesses) ancestors(child *tick.Process, at int64, visited map[uint32]bool) {
	for range mostAncestors {
		pid := child.PPID
		if pid == 0 || visited[pid] {
			return
		}
		visited[pid] = true
		x := o.current(pid, at, child.Started)
		if x == nil {
			if x = o.read(pid, at); x == nil {
				return
			}
			o.known[pid] = x
		} else if x.seen = max(x.seen, at); !x.requested && x.start != 0 {
			o.requestProgram(x)
		}
		child = &x.Process
	}
}

// reread reads a process's program and cgroup again, after its exec.
func (o *untracedProcesses) reread(x *untracedProcess) {
	x.again = 0
	p, err := o.fs.Process(x.PID)
	if err != nil || p.StartTicks != x.start {
		return
	}
	x.Comm, x.Exe = p.Comm, p.Exe
	if x.Cgroup != p.Cgroup {
		x.Cgroup, x.Where = p.Cgroup, where.Cgroups(p.Cgroups)
	}
	o.requestProgram(x)
}

// locate completes the places of processes by their environment.
func (o *untracedProcesses) locate(answers map[uint32]answer) {
	for pid, a := range answers {
		if x := o.known[pid]; x != nil && x.start == a.start {
			a.fill(&x.Process)
		}
	}
	for _, x := range o.known {
		completePod(o.pods, &x.Where)
	}
}

// with returns the processes and the ancestors of traced ones, sorted by number.
func (o *untracedProcesses) with(traced []tick.Process, at int64) []tick.Process {
	visited := map[uint32]bool{}
	for i := range traced {
		visited[traced[i].PID] = true
	}
	for i := range traced {
		if p := &traced[i]; p.Ended.IsZero() {
			o.ancestors(p, at, visited)
		}
	}
	return o.list()
}

// list returns the processes, sorted by number.
func (o *untracedProcesses) list() []tick.Process {
	var out []tick.Process
	for _, pid := range slices.Sorted(maps.Keys(o.known)) {
		out = append(out, o.known[pid].Process)
	}
	return out
}

// describe returns a process as a tick lists it.
func describe(p *proc.Process) tick.Process {
	return tick.Process{PID: p.PID, PPID: p.PPID, NSPID: p.NSPID(), UID: p.UID,
		Comm: p.Comm, Exe: p.Exe, Cgroup: p.Cgroup, Started: p.Started}
}

// addPlaces adds cgroup, command line, place and parent to the culprits of chains.
func addPlaces(chains []tick.Chain, processes, others []tick.Process) {
	if len(chains) == 0 {
		return
	}
	known := map[uint32]*tick.Process{}
	for _, list := range [][]tick.Process{others, processes} {
		for i := range list {
			known[list[i].PID] = &list[i]
		}
	}
	for i := range chains {
		chain := &chains[i]
		chain.Culprits = slices.Clone(chain.Culprits)
		for j := range chain.Culprits {
			c := &chain.Culprits[j]
			c.Sharers = slices.Clone(c.Sharers)
			for k := range c.Sharers {
				if p := known[c.Sharers[k].PID]; p != nil {
					c.Sharers[k].Cmdline, c.Sharers[k].Where = p.Cmdline, where.Text(&p.Where)
				}
			}
			p := known[c.Thread.PID]
			if p == nil {
				continue
			}
			c.Cgroup, c.Cmdline, c.Where = p.Cgroup, p.Cmdline, where.Text(&p.Where)
			if parent := known[p.PPID]; parent != nil {
				c.Parent = fmt.Sprintf("%s %d", parent.Comm, parent.PID)
			}
		}
	}
}
