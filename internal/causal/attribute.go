package causal

import (
	"slices"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// maxCauses bounds the culprits known at a time. The parts of others count without a name.
	maxCauses  = 4096
	maxUnnamed = 512
	// remembered is the sum of a cause's waits for data, ns, from which on those so far count half.
	remembered = 60e9
)

// cause is a culprit of a victim by one rule. Parts are attributed to causes.
type cause struct {
	id          causeID
	thread      events.Thread // the culprit's busiest thread
	most        int64         // ns by which that thread is ahead of the others
	own         bool
	ofJob       bool // the wait is for a thread of the job
	root        tick.Root
	call        bool // own time of calls
	baseline    baseline
	group, what string
	path        path
	server      server
	former      string // group before the last change
	changed     int64  // Unix ns: when the group last changed
	replies     int64  // ns: of recent waits for replies
	data        int64  // ns: of recent waits for other data
	late        bool   // the replies count
	place       place
	cpus        []uint16
	first, last int64 // Unix ns: when it was first and last active
	used        bool  // referenced by a step in a window: see sweep
}

func (x *cause) rule() *Rule { return &Rules[x.id.rule] }

type causeID struct {
	victim uint32
	rule   uint8
	key    Key
}

// causes assigns small numbers to culprits; the steps keep the numbers.
type causes struct {
	byID map[causeID]uint32
	list []cause
	free []uint32
}

func newCauses() causes { return causes{byID: map[causeID]uint32{}} }

// attribute returns the number of a part's cause. ok is false if no rule claims the part, or the
// table is full, with the causes without a name.
func (c *causes) attribute(p *Part) (n uint32, ok bool) {
	for _, r := range claiming {
		claims := Rules[r].Claims
		if !claims.Part(p) {
			continue
		}
		id := causeID{p.Victim, r, claims.Key(p)}
		n, known := c.byID[id]
		if !known && len(c.byID) >= maxCauses {
			p = p.unnamed()
			id.key = claims.Key(p)
			n, known = c.byID[id]
		}
		if !known {
			if n, ok = c.add(id, p); !ok {
				return 0, false
			}
		}
		x := &c.list[n]
		if p.First != 0 && (x.first == 0 || p.First < x.first) {
			x.first = p.First
		}
		other, named := x.answers(p), x.goesBy(p)
		if named {
			x.thread = p.Who
		}
		if other || named && p.Server == x.late {
			before := x.group
			if x.group, x.what = claims.Blame(p); x.group != before {
				x.former, x.changed = before, p.Last
			}
		}
		x.path.cast(p)
		if x.server.cast(p) { // no other program that ended a wait is to blame
			x.thread, x.own = x.server.process(), false
		}
		x.place.cast(p)
		x.last = max(x.last, p.Last)
		if p.State == events.WaitRunnable && p.Via.TID == 0 && len(x.cpus) < tick.MaxCPUs && !slices.Contains(x.cpus, p.CPU) {
			x.cpus = append(x.cpus, p.CPU)
		}
		return n, true
	}
	return 0, false
}

// unnamed returns a part without the threads to blame.
func (p *Part) unnamed() *Part {
	q := *p
	q.Who, q.Via = events.Thread{}, events.Thread{}
	if p.own() {
		q.Who.PID = p.Victim
	}
	return &q
}

// goesBy reports whether the culprit takes its name from a part's thread from now on. The name is
// the latest one of its busiest thread. The first thread seen may have been about to exec another
// program.
func (x *cause) goesBy(p *Part) bool {
	switch {
	case p.Who.TID == x.thread.TID:
		x.most += p.NS
		return p.Who.Name != x.thread.Name && p.Last > x.last
	case p.Who.PID != x.thread.PID || p.Who.TID == 0:
		return false
	case x.most < p.NS:
		x.most = p.NS - x.most
		return true
	}
	x.most -= p.NS
	return false
}

// answers adds a part to the waits for replies, or to those for other data, and reports whether the other kind
// counts from now on. A worker that makes input may also answer short requests. Waits for replies count until the
// others are twice as long. Old waits lose weight: see remembered.
func (x *cause) answers(p *Part) bool {
	before := x.late
	if p.Server {
		x.replies += p.NS
	} else {
		x.data += p.NS
	}
	if x.replies+x.data > remembered {
		x.replies, x.data = x.replies/2, x.data/2
	}
	x.late = x.replies > x.data || before && 2*x.replies > x.data
	return before != x.late
}

func (c *causes) add(id causeID, p *Part) (uint32, bool) {
	if len(c.byID) >= maxCauses+maxUnnamed {
		return 0, false
	}
	claims := Rules[id.rule].Claims
	group, what := claims.Blame(p)
	x := cause{id: id, thread: p.Who, own: p.own(), ofJob: p.Relation.InJob() || p.ViaRelation.InJob(), root: p.root(), call: p.State == 0, group: group, what: what}
	if claims.Baseline != nil {
		x.baseline = claims.Baseline(p)
	}
	if p.Via.TID != 0 && x.thread.TID == 0 {
		x.thread, x.own = p.Via, p.Via.PID == p.Victim
	}
	n := uint32(len(c.list))
	if k := len(c.free); k > 0 {
		n, c.free = c.free[k-1], c.free[:k-1]
		c.list[n] = x
	} else {
		c.list = append(c.list, x)
	}
	c.byID[id] = n
	return n, true
}

// sweep drops the culprits that no step in a window references.
func (c *causes) sweep(all map[uint32]*series) {
	for _, s := range all {
		for _, p := range s.last.parts[:s.last.nparts] {
			c.list[p.cause].used = true
		}
		for i := range s.slots {
			for _, t := range s.slots[i].strata() {
				for j := range t.list {
					for _, p := range t.list[j].parts[:t.list[j].nparts] {
						c.list[p.cause].used = true
					}
				}
			}
		}
	}
	for n := range c.list { // in order, so that numbers are reused in a fixed order
		x := &c.list[n]
		used := x.used
		x.used = false
		if m, ok := c.byID[x.id]; ok && m == uint32(n) && !used {
			delete(c.byID, x.id)
			c.free = append(c.free, uint32(n))
			*x = cause{}
		}
	}
}

// parts appends the parts of a step's waits. A wait for another thread is split into what that
// thread did, as far as known. If that thread waited for a third one, the thread at the end of the
// chain counts.
func parts(to []Part, s *ledger.Step, k *relations) []Part {
	first := len(to)
	for i := range s.Waits {
		w := &s.Waits[i]
		p := Part{
			Victim: s.PID, NS: w.NS, State: w.State, Reason: w.Reason, Flags: w.Flags, Who: w.Who, Call: w.Call,
			Dev: w.Dev, CPU: w.CPU, Op: w.Op, Critical: w.Critical, Root: w.Reason, First: w.First, Last: w.Last, Stack: w.Stack, RootCall: w.Call, Server: w.Asked > w.NS/2,
		}
		if w.State == events.WaitBlocked && w.Who.TID != 0 && (forAnother(w.Reason) || servedBy(w.Reason, w.Flags, &w.Who)) && w.Waker.Total() > 0 {
			if p.Waker = w.Who; w.Waker.Root.TID != 0 && w.Reason != events.ReasonGIL { // the holder of the GIL is to blame whatever it waits for
				p.Who, p.Through = w.Waker.Root, w.Waker.Through
			}
			if w.ForGIL > int64(w.Waker.Total())/2 && p.Who.PID == p.Victim { // a thread of the same process waits for the GIL instead
				p.Root = events.ReasonGIL
			}
			p.Unknown = max(p.NS-int64(w.Waker.Total()), 0)
			to = via(to, &p, &w.Waker)
			p.Busy = int64(w.Waker.OnCPU) > p.NS/2
		}
		if p.NS > 0 {
			to = append(to, p)
		}
	}
	for i := range to[first:] {
		p := &to[first+i]
		p.Relation, p.ViaRelation, p.Serves = k.relation(p.Victim, &p.Who), k.relation(p.Victim, &p.Via), k.answers(p.Victim)
		p.Server = k.server(p)
		k.name(p)
	}
	return to
}

// forAnother reports whether a thread that blocks for reason r waits for another thread to act.
func forAnother(r events.Reason) bool {
	switch r {
	case events.ReasonLock, events.ReasonGIL, events.ReasonPipe, events.ReasonSocket, events.ReasonPoll, events.ReasonChild:
		return true
	}
	return false
}

// servedBy reports whether a thread that blocks for reason r, for no file, lock or peer, waits until a thread of
// a program acts: it changes the memory map, or serves a page fault or a queue.
func servedBy(r events.Reason, flags events.WaitFlags, who *events.Thread) bool {
	switch r {
	case events.ReasonMemory, events.ReasonOther, events.ReasonFault:
		return flags&events.WaitIO == 0 && who.OfProgram()
	}
	return false
}

func forLock(r events.Reason) bool { return r == events.ReasonLock || r == events.ReasonGIL }

// onDisk has the reasons of a thread that blocks on reading or writing a file.
var onDisk = map[events.Reason]bool{events.ReasonDisk: true, events.ReasonFile: true}

// via takes what the waker did off a part and appends it as separate parts. If the waker produced
// something and was mostly kept from a CPU, it would have been in time: the whole wait counts. A
// thread that mostly waited for a disk ran to read from it.
func via(to []Part, p *Part, w *tick.WakerShare) []Part {
	if onDisk[w.Reason] && w.OnCPU <= w.Blocked/2 {
		kept := *w
		kept.Blocked += w.OnCPU
		w = &kept
	} else if all := uint64(max(p.NS, 0)); w.Runnable < all && w.Runnable >= all/2 && w.Runnable > w.Throttled+w.Blocked && !forLock(p.Reason) {
		kept := *w
		kept.Runnable = all - w.Throttled - w.Blocked
		w = &kept
	}
	q := *p
	q.Via, q.Who, q.Op, q.Flags, q.Unknown = p.Who, events.Thread{}, 0, 0, 0
	for _, x := range []struct {
		state events.WaitState
		ns    uint64
	}{{events.WaitRunnable, w.Runnable}, {events.WaitThrottled, w.Throttled}, {events.WaitBlocked, w.Blocked}} {
		ns := min(int64(min(x.ns, 1<<62)), p.NS)
		if ns <= 0 {
			continue
		}
		p.NS -= ns
		q.NS, q.State, q.Reason, q.Call, q.Dev, q.Stack = ns, x.state, 0, 0, 0, 0
		q.Who = events.Thread{}
		switch x.state {
		case events.WaitRunnable:
			if q.Who = w.By; w.Hypervisor {
				q.Reason = events.ReasonHypervisor
			}
		case events.WaitBlocked:
			if q.Reason, q.Call, q.Dev = w.Reason, w.Call, w.Dev; !onDisk[w.Reason] {
				q.Stack = p.Stack
			}
		}
		to = append(to, q)
	}
	return to
}
