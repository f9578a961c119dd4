package symbols

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of the tables. Beyond them launches have the reason [events.NoNameFull].
const (
	maxProcesses = 4096
	maxRegs      = 1 << 17 // per process: a framework registers some ten thousands
	maxAllRegs   = 1 << 20
	maxFuncs     = 1 << 14 // launched functions, per process
	maxPast      = 1 << 12 // per process: former handles that children may have inherited
	maxEnded     = 1024    // ended processes whose figures are kept
	maxAlias     = 4       // steps from a handle to the one with a name
)

// reg is the registration of a handle.
type reg struct {
	since int64
	value uint64 // address of the name, or the handle that it is made from
	owner uint64 // module, library or fat binary, 0: unknown
	name  nameID // 0: not read yet
	alias bool   // value is a handle
}

// same reports whether two registrations mean the same function.
func (r reg) same(o reg) bool {
	return r.value == o.value && r.owner == o.owner && r.alias == o.alias && (r.name == o.name || r.value != 0)
}

// pastReg is a former registration of a handle, valid until a time.
type pastReg struct {
	reg
	handle uint64
	until  int64
}

// function is a launched handle.
type function struct {
	tally    *tally // counts its launches
	since    int64  // time from which the reported function is valid
	reported answer
	state    state
	next     []meaning // later meanings, recorded ahead of their calls
}

// meaning is what a handle means from a time on.
type meaning struct {
	since int64
	answer
}

type state uint8

const (
	stateWaiting state = iota // for a Reader's answer or a recorded function
	stateKnown                // reported, with a name or a reason
)

// answer is a name or a reason.
type answer struct {
	name   nameID
	reason events.NoName
}

// tally counts launches of one function, or those without a name by reason.
type tally struct {
	launches uint64
	timed    uint64 // launches whose call was measured
	ns       uint64 // total time of those
}

func (t *tally) add(o *tally) {
	t.launches += o.launches
	t.timed += o.timed
	t.ns += o.ns
}

// process is one program of a process: an exec makes a new one.
type process struct {
	pid    uint32
	since  int64    // time of its exec or fork, 0: unseen
	parent *process // process whose handles it inherited at the fork
	forked bool     // has children
	regs   map[uint64]reg
	past   []pastReg
	funcs  map[uint64]*function
	last   *function // function of the previous launch: most launches come in runs
	at     uint64
	// changed is when it last unloaded something. A handle without a registration has its present
	// meaning since then.
	changed int64
	eager   int // names read before a launch
	names   map[nameID]*tally
	whys    map[events.NoName]*tally
	wait    int  // functions in stateWaiting
	full    bool // registrations were dropped
}

func newProcess(pid uint32, since int64) *process {
	return &process{pid: pid, since: since, regs: map[uint64]reg{}, funcs: map[uint64]*function{},
		names: map[nameID]*tally{}, whys: map[events.NoName]*tally{}}
}

// find returns the registration of a handle, its own or an inherited one.
func (p *process) find(handle uint64) (r reg, known bool) {
	if r, known = p.regs[handle]; known {
		return r, true
	}
	at := p.since
	for q := p.parent; q != nil; q = q.parent {
		if r, known = q.registration(handle, at); known {
			r.since = max(r.since, p.since)
			return r, true
		}
		at = min(at, q.since)
	}
	return reg{}, false
}

// renewed reports whether r is an alias whose target was registered again after it.
func (p *process) renewed(r reg) bool {
	if !r.alias {
		return false
	}
	target, known := p.find(r.value)
	return known && target.since > r.since
}

// registration returns the registration of a handle at a time.
func (p *process) registration(handle uint64, at int64) (reg, bool) {
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

// leave keeps a former registration that a child may have inherited.
func (p *process) leave(handle uint64, r reg, until int64) {
	if p.forked && len(p.past) < maxPast {
		p.past = append(p.past, pastReg{r, handle, until})
	}
}

// forget makes the next launch of a handle resolve it again.
func (p *process) forget(handle uint64) {
	if f := p.funcs[handle]; f != nil && f.state == stateKnown {
		delete(p.funcs, handle)
	}
	p.last = nil
}

// tally returns the tally for launches with an answer.
func (p *process) tally(a answer) *tally {
	if a.name != 0 {
		return entry(p.names, a.name)
	}
	return entry(p.whys, a.reason)
}

func entry[K comparable](m map[K]*tally, k K) *tally {
	t := m[k]
	if t == nil {
		t = &tally{}
		m[k] = t
	}
	return t
}

// life is a fork, exec or exit that is not applied yet, since calls from before it may still come.
type life struct {
	tick.ProcEvent
	pid  uint32 // the process it concerns: for a fork, the child
	done bool   // already applied
}

func lifeOf(e tick.ProcEvent) life {
	if e.Kind == tick.ProcForked {
		return life{ProcEvent: e, pid: e.Peer}
	}
	return life{ProcEvent: e, pid: e.PID}
}
