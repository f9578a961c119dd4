package symbols

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of what is kept. Beyond them launches have [events.NoNameFull] as their
// reason.
const (
	maxProcesses = 4096
	maxRegs      = 1 << 17 // of one process: a framework registers some ten thousands
	maxAllRegs   = 1 << 20
	maxFuncs     = 1 << 14 // launched, of one process
	maxPast      = 1 << 12 // of one process: what its children may still mean
	maxEnded     = 1024    // processes whose figures are kept
	maxAlias     = 4       // steps from a handle to the one that has a name
)

// reg is what a process said that a handle is.
type reg struct {
	since int64
	value uint64 // address of the name, or the handle that it is made of
	owner uint64 // module, library or fat binary, 0 where not known
	name  nameID // 0: not read yet
	alias bool   // value is a handle
}

// same says whether two mean the same function.
func (r reg) same(o reg) bool {
	return r.value == o.value && r.owner == o.owner && r.alias == o.alias && (r.name == o.name || r.value != 0)
}

// pastReg is what a handle was until a time at which it came to be another.
type pastReg struct {
	reg
	handle uint64
	until  int64
}

// function is a handle that was launched.
type function struct {
	tally *tally // where launches of it are counted
	since int64  // of what was told of it
	told  answer
	state state
	next  []meaning // what it comes to mean, as a recording told ahead of its calls
}

// meaning is what a handle means from a time on.
type meaning struct {
	since int64
	answer
}

type state uint8

const (
	stateWaiting state = iota // for a Reader, or for what a replay tells
	stateKnown                // told, with a name or a reason
)

// answer is a name or a reason.
type answer struct {
	name nameID
	why  events.NoName
}

// tally counts launches of one function, or of those without a name for one reason.
type tally struct {
	launches uint64
	timed    uint64 // of these: whose call was measured
	ns       uint64 // of these
}

func (t *tally) add(o *tally) {
	t.launches += o.launches
	t.timed += o.timed
	t.ns += o.ns
}

// process is one program run by one process: an exec makes another of it.
type process struct {
	pid    uint32
	since  int64    // of its exec or fork, 0 where that was not seen
	parent *process // its memory at forked is what this one began with
	forked bool     // it has children
	regs   map[uint64]reg
	past   []pastReg
	funcs  map[uint64]*function
	last   *function // of the launch before: most launches come in runs
	at     uint64
	// changed is when it last unloaded something: what its handles mean without a
	// registration, they mean since then.
	changed int64
	eager   int // names that were read before a launch
	names   map[nameID]*tally
	whys    map[events.NoName]*tally
	wait    int  // functions in stateWaiting
	full    bool // registrations were left out
}

func newProcess(pid uint32, since int64) *process {
	return &process{pid: pid, since: since, regs: map[uint64]reg{}, funcs: map[uint64]*function{},
		names: map[nameID]*tally{}, whys: map[events.NoName]*tally{}}
}

// find returns what a handle is, here or in the process that this one was made from.
func (p *process) find(handle uint64) (r reg, known bool) {
	if r, known = p.regs[handle]; known {
		return r, true
	}
	at := p.since
	for q := p.parent; q != nil; q = q.parent {
		if r, known = q.was(handle, at); known {
			r.since = max(r.since, p.since)
			return r, true
		}
		at = min(at, q.since)
	}
	return reg{}, false
}

// was returns what a handle was at a time.
func (p *process) was(handle uint64, at int64) (reg, bool) {
	if r, ok := p.regs[handle]; ok && r.since <= at {
		return r, true
	}
	for i := len(p.past) - 1; i >= 0; i-- {
		if o := &p.past[i]; o.handle == handle && o.since <= at && at < o.until {
			return o.reg, true
		}
	}
	return reg{}, false
}

// leave notes what a handle was, where a child may mean it still.
func (p *process) leave(handle uint64, r reg, until int64) {
	if p.forked && len(p.past) < maxPast {
		p.past = append(p.past, pastReg{r, handle, until})
	}
}

// forget has the next launch of a handle find out anew what it is.
func (p *process) forget(handle uint64) {
	if f := p.funcs[handle]; f != nil && f.state == stateKnown {
		delete(p.funcs, handle)
	}
	p.last = nil
}

// tallyOf is where launches with an answer are counted.
func (p *process) tallyOf(a answer) *tally {
	if a.name != 0 {
		return entry(p.names, a.name)
	}
	return entry(p.whys, a.why)
}

func entry[K comparable](m map[K]*tally, k K) *tally {
	t := m[k]
	if t == nil {
		t = &tally{}
		m[k] = t
	}
	return t
}

// life is a step in a process's life that is not applied yet: calls from before it may
// still come.
type life struct {
	tick.ProcEvent
	pid  uint32 // whose it is: of a fork, the child
	done bool   // it was applied
}

func lifeOf(e tick.ProcEvent) life {
	if e.Kind == tick.ProcForked {
		return life{ProcEvent: e, pid: e.Peer}
	}
	return life{ProcEvent: e, pid: e.PID}
}
