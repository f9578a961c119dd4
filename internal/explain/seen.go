package explain

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// maxSeenOps bounds the operations with counted waits, maxCulprits the culprits of each.
const (
	maxSeenOps  = 256
	maxCulprits = 64
)

// Seen has the facts of the live table that are not in each tick: events of processes and the host,
// waits for a CPU inside calls, and the latest GPU faults. The zero value is empty. It is not safe
// for concurrent use.
type Seen struct {
	forks, execs, exits uint64
	last                []tick.ProcEvent // latest events, oldest first
	waits               map[events.Op]*opWaits
	sums                tick.HostSums
	bursts              [][]tick.Xid     // bursts of faults, the latest last
	servers             []tick.Inference // the last read of each inference server
	served              served           // requests to servers
}

// Tick takes in facts that only one tick has: host events, faults, reads of inference servers and
// requests to servers. It does not retain the tick.
func (s *Seen) Tick(t *tick.Tick) {
	s.sums.Add(t.HostSums)
	s.addFaults(t.Xids)
	s.addReads(t.Inference)
	s.served.add(t)
}

// opWaits are the waits for a CPU inside the calls of an operation.
type opWaits struct {
	count, ns uint64
	by        map[uint32]*culpritTime // by process
}

type culpritTime struct {
	thread events.Thread
	ns     uint64
}

// lastLives is the number of displayed process events.
const lastLives = 3

// Add takes in a batch. It does not retain it.
func (s *Seen) Add(b *tick.Batch) {
	for i := range b.Procs {
		e := &b.Procs[i]
		switch e.Kind {
		case tick.ProcForked:
			s.forks++
		case tick.ProcExeced:
			s.execs++
		case tick.ProcExited:
			s.exits++
		}
		if len(s.last) == lastLives {
			s.last = slices.Delete(s.last, 0, 1)
		}
		s.last = append(s.last, *e)
	}
	for i := range b.Waits {
		s.wait(&b.Waits[i])
	}
}

func (s *Seen) wait(w *events.Wait) {
	if w.Op == 0 || w.State != events.WaitRunnable {
		return
	}
	if s.waits == nil {
		s.waits = map[events.Op]*opWaits{}
	}
	x := s.waits[w.Op]
	if x == nil {
		if len(s.waits) == maxSeenOps {
			return
		}
		x = &opWaits{by: map[uint32]*culpritTime{}}
		s.waits[w.Op] = x
	}
	if w.Flags&events.WaitPrevious == 0 { // else one more culprit of the same wait
		x.count++
		x.ns += uint64(max(w.Duration, 0))
	}
	if w.Who.TID == 0 {
		return
	}
	c := x.by[w.Who.PID]
	if c == nil {
		if len(x.by) == maxCulprits {
			return
		}
		c = &culpritTime{thread: w.Who}
		x.by[w.Who.PID] = c
	}
	c.ns += uint64(max(w.Taken, 0))
}

// top returns the largest culprit of an operation, or nil.
func (x *opWaits) top() *events.Thread {
	var most *culpritTime
	for _, c := range x.by {
		if most == nil || cmp.Or(cmp.Compare(c.ns, most.ns), cmp.Compare(most.thread.PID, c.thread.PID)) > 0 {
			most = c
		}
	}
	if most == nil || most.ns == 0 {
		return nil
	}
	return &most.thread
}

// correlated returns the operations whose calls waited for a CPU, largest loss first.
func (s *Seen) correlated() []events.Op {
	var out []events.Op
	for op, x := range s.waits {
		if x.ns >= leastCorrelated {
			out = append(out, op)
		}
	}
	slices.SortFunc(out, func(a, b events.Op) int {
		return cmp.Or(cmp.Compare(s.waits[b].ns, s.waits[a].ns), cmp.Compare(a, b))
	})
	return out
}

// leastCorrelated is the shortest total wait that gets a line, in ns.
const leastCorrelated = uint64(time.Millisecond)
