package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// others are processes that are not traced, but have had a part in a wait of a
// thread that is. What is known of them is read while they live, once each.
type others struct {
	fs    proc.FS
	known map[uint32]*other
}

type other struct {
	tick.Process
	seen int64 // Unix ns: the last wait that it had a part in
}

const (
	maxOthers = 512
	// notable is from how long a part in a wait on a process is read: what reads
	// it costs some 0.1 ms.
	notable = 200 * time.Microsecond
	// lookups bounds how many are read at one poll.
	lookups = 8
)

// note takes in the parts that others had in waits.
func (o *others) note(waits []events.Wait, traced func(pid uint32) bool) {
	left := lookups
	for i := range waits {
		w := &waits[i]
		part := w.Duration
		if w.State == events.WaitRunnable {
			part = w.Taken
		}
		if w.Who.PID == 0 || part < int64(notable) {
			continue
		}
		if x := o.known[w.Who.PID]; x != nil {
			x.seen = w.End()
			continue
		}
		if left == 0 || traced(w.Who.PID) {
			continue
		}
		left--
		o.add(w)
	}
}

// add reads of a process what can be read, and of its parent.
func (o *others) add(w *events.Wait) {
	x := &other{seen: w.End(), Process: tick.Process{PID: w.Who.PID, PPID: w.Who.Parent, Comm: w.Who.Name.String()}}
	if p, err := o.fs.Process(w.Who.PID); err == nil {
		x.Process = describe(&p)
	}
	o.known[x.PID] = x
	if x.PPID != 0 && o.known[x.PPID] == nil {
		if p, err := o.fs.Process(x.PPID); err == nil {
			o.known[p.PID] = &other{seen: x.seen, Process: describe(&p)}
		}
	}
	if len(o.known) <= maxOthers {
		return
	}
	for _, pid := range slices.SortedFunc(maps.Keys(o.known), func(a, b uint32) int {
		return cmp.Compare(o.known[a].seen, o.known[b].seen)
	})[:maxOthers/4] {
		delete(o.known, pid)
	}
}

// list returns them by number.
func (o *others) list() []tick.Process {
	var out []tick.Process
	for _, pid := range slices.Sorted(maps.Keys(o.known)) {
		out = append(out, o.known[pid].Process)
	}
	return out
}

// describe is what a tick says of a process.
func describe(p *proc.Process) tick.Process {
	return tick.Process{PID: p.PID, PPID: p.PPID, NSPID: p.NSPID(), UID: p.UID,
		Comm: p.Comm, Exe: p.Exe, Cgroup: p.Cgroup, Started: p.Started}
}

// introduce says of the culprits of a tick's chains whose they are.
func introduce(t *tick.Tick) {
	if len(t.Chains) == 0 {
		return
	}
	known := map[uint32]*tick.Process{}
	for i := range t.Others {
		known[t.Others[i].PID] = &t.Others[i]
	}
	for i := range t.Processes {
		known[t.Processes[i].PID] = &t.Processes[i]
	}
	for i := range t.Chains {
		chain := &t.Chains[i]
		chain.Culprits = slices.Clone(chain.Culprits)
		for j := range chain.Culprits {
			c := &chain.Culprits[j]
			p := known[c.Thread.PID]
			if p == nil {
				continue
			}
			c.Cgroup = p.Cgroup
			if parent := known[p.PPID]; parent != nil {
				c.Parent = fmt.Sprintf("%s %d", parent.Comm, parent.PID)
			}
		}
	}
}
