package track

import (
	"cmp"
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits for any input.
const (
	maxProcesses   = 512
	maxThreads     = 4096    // of a process
	maxAllocations = 1 << 20 // of all processes; about 90 MB
	maxFreed       = 1 << 14 // remembered freed addresses per process
	maxRanges      = 8192    // allocations with pointer lookup
	maxHandles     = 2048    // of a process: streams; events; contexts; graphs; communicators
	maxErrors      = 256     // operations and codes
	maxListed      = 64      // entries in one list of a state
	keepEnded      = 60      // ticks for which the state of an ended process is kept
)

// Tracker keeps the state of processes. It is not safe for concurrent use.
type Tracker struct {
	procs       map[uint32]*process
	last        *process
	allocations int    // allocations of all processes
	count       uint64 // numbered streams, graphs and communicators
	ticks       uint64
	ended       int    // kept processes that have ended
	silent      int    // kept processes that have made no calls
	untracked   uint64 // calls for whose processes there was no room
}

// New returns an empty tracker.
func New() *Tracker { return &Tracker{procs: map[uint32]*process{}} }

// process is the state of one process.
type process struct {
	pid         uint32
	all         *Tracker
	born        int64  // Unix ns: fork or exec; 0: not seen
	execed      int64  // Unix ns: exec; 0: not seen
	call0       int64  // Unix ns: start of its first call; 0: none yet
	ended       int64  // Unix ns; 0: still running
	over        uint64 // tick
	missedCalls bool   // calls may have been made before its probes were in place

	memory   memory
	threads  map[uint32]*thread
	tid      uint32 // of thread
	thread   *thread
	contexts map[uint64]int16 // device by context
	uuids    []tick.Device
	streams  streams
	graphs   graphs
	comms    comms
	copies   [tick.CopyDirs][tick.HostKinds]tick.Copy
	errors   map[failure]*tick.CallError
	records  map[events.Op]*seen // of operations whose loss matters

	untracked uint64
}

// seen is the number of an operation's calls with records, and the kernel's count of returns as of
// the previous tick.
type seen struct{ records, counted uint64 }

func (t *Tracker) process(pid uint32) *process {
	if p := t.last; p != nil && p.pid == pid {
		return p
	}
	p := t.procs[pid]
	if p == nil {
		if len(t.procs) >= maxProcesses && !t.evict() {
			return nil
		}
		p = t.fresh(pid)
		t.procs[pid] = p
		t.silent++
	}
	t.last = p
	return p
}

// evict forgets a process that made no calls, whether or not it lives, or else the one that ended
// first. It reports false if there is neither.
func (t *Tracker) evict() bool {
	if t.ended+t.silent == 0 {
		return false
	}
	var out *process
	for _, p := range t.procs {
		if (p.over > 0 || p.call0 == 0) && (out == nil || p.before(out)) {
			out = p
		}
	}
	t.forget(out)
	return true
}

// before reports whether a process is forgotten before another: those without calls first, and of
// these the ended ones.
func (p *process) before(q *process) bool {
	if silent := p.call0 == 0; silent != (q.call0 == 0) {
		return silent
	}
	if over := p.over > 0; over != (q.over > 0) {
		return over
	}
	return cmp.Or(cmp.Compare(p.over, q.over), cmp.Compare(p.ended, q.ended), cmp.Compare(p.born, q.born), cmp.Compare(p.pid, q.pid)) < 0
}

// Untracked returns the number of calls that are in no state, since the table of processes was full.
func (t *Tracker) Untracked() uint64 { return t.untracked }

func (t *Tracker) fresh(pid uint32) *process {
	p := &process{pid: pid, all: t, missedCalls: true, threads: map[uint32]*thread{}, contexts: map[uint64]int16{},
		errors: map[failure]*tick.CallError{}, records: map[events.Op]*seen{}}
	p.memory.reset()
	p.streams.reset()
	p.graphs.reset()
	p.comms.reset()
	return p
}

// Batch adds the calls of one poll and the process events among them, and sets the Device of calls
// where it is known and not yet set.
func (t *Tracker) Batch(calls []events.Call, lives []tick.ProcEvent) {
	for i := range calls {
		c := &calls[i]
		for len(lives) > 0 && lives[0].Time <= c.Start {
			t.life(&lives[0])
			lives = lives[1:]
		}
		p := t.process(c.PID)
		if p != nil && p.ended != 0 && c.Start > p.ended { // its PID was reused
			t.forget(p)
			p = t.process(c.PID)
		}
		if p == nil {
			t.untracked++
			continue
		}
		if c.Start < p.execed { // made before exec
			if e := effectOf(c.Op); e != nil {
				p.count(c, e)
			}
			continue
		}
		if p.call(c); p.ended != 0 { // a record after the end
			p.end()
		}
	}
	for i := range lives {
		t.life(&lives[i])
	}
}

// life takes in an event of a process's life. A process loses its GPU state at exec; a forked child
// starts without any.
func (t *Tracker) life(e *tick.ProcEvent) {
	pid := e.PID
	if e.Kind == tick.ProcForked {
		pid = e.Peer
	}
	p := t.procs[pid]
	switch e.Kind {
	case tick.ProcKilled, tick.ProcOOM: // its exit follows
		return
	case tick.ProcExited:
		if p != nil && p.ended == 0 {
			p.end()
			p.ended, p.over = e.Time, t.ticks+1
			t.ended++
		}
		return
	}
	var records map[events.Op]*seen
	if p != nil && (p.call0 == 0 || p.call0 < e.Time) {
		if e.Kind == tick.ProcExeced { // the kernel keeps counting
			records = p.records
		}
		t.forget(p)
		p = nil
	} else if p == nil && e.Kind == tick.ProcExeced {
		return // it makes no calls
	}
	if p == nil {
		if p = t.process(pid); p == nil {
			return
		}
		if records != nil {
			p.records = records
		}
	}
	p.born, p.missedCalls = e.Time, false // its calls may have come before this
	if e.Kind == tick.ProcExeced {
		p.execed = e.Time
	}
	p.known()
}

// number returns a number that is unique in the session.
func (p *process) number() uint64 {
	p.all.count++
	return p.all.count
}

func (t *Tracker) forget(p *process) {
	t.allocations -= p.memory.entries()
	if p.over > 0 {
		t.ended--
	}
	if p.call0 == 0 {
		t.silent--
	}
	delete(t.procs, p.pid)
	if t.last == p {
		t.last = nil
	}
}

// end frees what the process held. The state of its streams, graphs and communicators is kept.
func (p *process) end() {
	p.memory.freeAll(p, 0)
	p.contexts = map[uint64]int16{}
	p.threads, p.thread = map[uint32]*thread{}, nil
}

// call takes in one call.
func (p *process) call(c *events.Call) {
	if p.call0 == 0 {
		p.call0 = max(c.Start, 1)
		p.all.silent--
	}
	th := p.threadState(c.TID)
	th.last = c.Start
	if c.Device == 0 {
		c.Device = th.device
	} else { // a replay: use the recorded device
		th.device = c.Device
	}
	if c.Flags&events.CallFailed != 0 {
		p.failed(c)
	}
	if e := effectOf(c.Op); e != nil {
		p.count(c, e)
		e.do(p, th, c, e)
	}
}

// count counts the record of an operation whose records must be complete.
func (p *process) count(c *events.Call, e *effect) {
	if !e.counted && e.verb != meets {
		return
	}
	s := p.records[c.Op]
	if s == nil {
		s = &seen{}
		p.records[c.Op] = s
	}
	if c.Flags&events.CallUnmeasured == 0 {
		s.records++
	}
	if e.verb == meets {
		return
	}
	if c.Flags&events.CallUnmeasured != 0 {
		p.memory.inexact |= tick.InexactUnmeasured
	} else if c.Weight > 1 {
		p.memory.inexact |= tick.InexactLost
	}
}

// Tick compares the records with the kernel's counts, and returns the states of all processes, by
// PID.
func (t *Tracker) Tick(processes []tick.Process, ops []tick.Op) (states []tick.State) {
	t.ticks++
	for i := range processes {
		if p := t.procs[processes[i].PID]; p != nil {
			p.attached(&processes[i])
		}
	}
	for i := range ops {
		t.compare(&ops[i])
	}
	for _, p := range t.procs {
		if p.over > 0 && t.ticks > p.over+keepEnded {
			t.forget(p)
			continue
		}
		states = append(states, p.state())
	}
	slices.SortFunc(states, func(a, b tick.State) int { return cmp.Compare(a.PID, b.PID) })
	return states
}

// attached records whether calls may have been made that were not seen.
func (p *process) attached(of *tick.Process) {
	born := max(p.born, unixNano(of.Started))
	at := unixNano(of.Attached)
	mapped := unixNano(of.Mapped)
	late := at == 0 || at > born && (mapped == 0 || at > mapped) && (p.born == 0 || at > p.born)
	if late != p.missedCalls {
		p.missedCalls = late
		if !late {
			p.known()
		}
	}
}

// compare finds calls without records: calls that the kernel had counted one tick ago must have
// arrived by now.
func (t *Tracker) compare(o *tick.Op) {
	e := effectOf(o.Op)
	if e == nil || !e.counted && e.verb != meets {
		return
	}
	p := t.procs[o.PID]
	if p == nil || p.over > 0 {
		return
	}
	s := p.records[o.Op]
	if s == nil {
		s = &seen{}
		p.records[o.Op] = s
	}
	switch {
	case s.records >= s.counted:
	case e.verb == meets:
		p.comms.lost()
	default:
		p.memory.inexact |= tick.InexactLost
	}
	s.counted = o.Sum.Done
}

func (p *process) state() tick.State {
	s := tick.State{PID: p.pid, Memory: p.memory.state(), Held: p.memory.list(), Devices: slices.Clone(p.uuids), Untracked: p.untracked}
	if p.missedCalls {
		s.Memory.Inexact |= tick.InexactAttachedLate
	}
	s.Streams = p.streams.list()
	s.Graphs = p.graphs.list()
	s.Comms = p.comms.list()
	s.Entered, p.comms.entered = p.comms.entered, nil
	for d := range p.copies {
		for h := range p.copies[d] {
			if x := p.copies[d][h]; x.Count > 0 {
				x.Dir, x.Host = tick.CopyDir(d), tick.HostKind(h)
				s.Copies = append(s.Copies, x)
			}
		}
	}
	slices.SortStableFunc(s.Copies, func(a, b tick.Copy) int { return cmp.Compare(b.Bytes, a.Bytes) })
	s.Errors = p.errorList()
	return s
}

// first returns the largest elements of a list.
func first[T any](all []T, order func(a, b T) int) tick.List[T] {
	slices.SortFunc(all, order)
	return tick.List[T]{First: slices.Clip(all[:min(len(all), maxListed)]), All: len(all)}
}
