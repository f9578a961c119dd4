// Package govern decides what tracing sheds so that its cost stays within a limit: see [Budget].
//
// It is pure: time and costs come in with each tick, decisions go out. It does not know how the
// cost of a part is reduced. Package session calls it.
package govern

import (
	"slices"
	"time"
)

// Part is a part of the cost of tracing that a step can reduce.
type Part uint8

// The parts.
const (
	CallStacks Part = iota // stacks of calls, taken in the traced threads
	Records                // emitted by the kernel and read by the agent
	Launches               // probes on launches, in the processes where they are expensive
	Calls                  // probes on other calls that return at once
	Hot                    // probes of any kind on the most expensive of both
	Host                   // tracepoints for disks, memory and sockets
	Twice                  // probes on runtime launches, which the driver's probes see too
	AllStacks              // stacks of calls, and of threads between calls and while others wait for them
	NumParts
)

// Step is one shedding level.
type Step struct {
	Name string
	Part Part
	Does string // effect, as a clause
	Cost string // affected results
}

// Steps are the shedding levels, in order of activation: high cost and little information first,
// incomplete counts last. They are reverted in the reverse order.
var Steps = [...]Step{
	{"launches-once", Twice, "CUDA runtime launches have no probe: the driver's probe counts and records them, by return address", "launches that the runtime rejects are not seen; results and times of launches are those of the driver call"},
	{"stacks-rare", CallStacks, "stacks of calls take at most a thousandth of a thread's time: slow and failed calls have one first", "rare call sites may be missing"},
	{"records-thin", Records, "1 in 8 of the fast calls that no result depends on has a record", "single launches, asynchronous copies, memsets, events and queries; counts and sums of operations stay exact, quantiles are estimates"},
	{"python-off", CallStacks, "stacks of calls have no Python functions", "Python lines of calls and of the GIL holder"},
	{"launches-counted", Launches, "launches of processes that make very many are counted, not timed", "durations and results of these launches: call-slow, driver-slow, graph-pool, gpu-behind and cold-start skip them, and failed launches are not seen; counts stay exact"},
	{"stacks-off", AllStacks, "neither calls nor waits have a stack", "call sites, lines of culprits"},
	{"records-least", Records, "1 in 64 of the fast calls that no result depends on has a record", "single launches, asynchronous copies, memsets, events and queries; counts and sums of operations stay exact, quantiles are estimates"},
	{"host-off", Host, "disks, reclaim and sockets are not traced", "causes on the host, except the CPU"},
	{"calls-counted", Calls, "copies, memsets, events and queries that return at once are counted, not timed", "durations of these calls; counts stay exact"},
	{"hot-off", Hot, "the most expensive launches and calls that return at once have no probe", "their counts become lower bounds: calls are not counted until the probes are back"},
}

// Load is the cost of tracing in a tick, as shares of the time of the traced processes.
type Load struct {
	Share float64
	Agent float64           // of Share: CPU time of the agent, on any CPU, to read records
	Parts [NumParts]float64 // of Share; parts may overlap
	Calls uint64            // calls that the process with the most calls made, as far as seen
	// Partial says that probes were attached or detached in the tick, so that the figures do not show
	// what the present probes cost.
	Partial bool
	// Lacks reports whether a step is not possible here, by index; nil: all are possible. It is called
	// only for steps that are worth activating. An active step of Hot is activated again, for more
	// operations, unless Lacks excludes it.
	Lacks func(step int) bool
}

// Change is a decision.
type Change struct {
	Step  int  // index into Steps
	Taken bool // false: reverted
	Share float64
}

// paid returns the share that the traced threads pay for probes, stacks and tracepoints: it must
// fit into the budget. The agent's own share must fit as well, but only fewer records reduce it: no
// call goes uncounted because of it.
func (l *Load) paid() float64 { return l.Share - l.Agent }

// lacks reports whether a step is not possible here.
func (l *Load) lacks(step int) bool { return l.Lacks != nil && l.Lacks(step) }

// worth reports whether the cost of a part justifies a step on it. Shedding records reduces only
// the agent's cost.
func (b *Budget) worth(p Part, load *Load) bool {
	if p == Records {
		return load.Share > b.Share && load.Parts[p] >= leastRecords*b.Share
	}
	excess := load.paid() - b.Share
	return excess > 0 && b.Saves(load.Parts[p]) && load.Parts[p] >= helps*excess
}

// Saves reports whether shedding a share makes a noticeable difference.
func (b *Budget) Saves(share float64) bool { return share >= least*b.Share }

// Constants that prevent frequent changes.
const (
	confirm   = 2                // consecutive ticks over the budget
	minCool   = 10 * time.Second // time with room for what a step sheds, before it is reverted
	maxCool   = 5 * time.Minute
	relapse   = time.Minute // a step that is activated again within it waits twice as long the next time
	minWindow = 100 * time.Millisecond

	urgent = 3.0  // times the budget: one step per tick
	least  = 0.05 // of the budget: steps that save less are never activated
	// helps is the least part of the excess that a step is activated for: all steps together that save
	// less than it would not end the excess.
	helps = 1.0 / float64(len(Steps))
	// confirmHot are the ticks over the budget, less those within it, before calls lose their probes: the
	// start of a program makes many calls in a second or two.
	confirmHot = 5
	// leastRecords is the minimum for records: most of the agent's cost does not depend on them.
	leastRecords = 0.5
	revertBelow  = 0.75 // of the budget: limit including the cost that a revert adds
	settling     = 2 * time.Second
)

// Budget keeps the cost of tracing under a share by activating steps, one at a time. The zero value
// has no budget and decides nothing. It is not safe for concurrent use.
type Budget struct {
	Share float64 // of the time of the traced processes; 0: no limit
	// Forced are steps, by index. Each call of Tick activates one more, at any cost. They stay
	// active, and no other step is activated. For measurements.
	Forced []int
	taken  []taken
	over   int                       // consecutive ticks over the budget
	hot    int                       // ticks in which only hot-off helped, less ticks without need
	noRoom int                       // consecutive ticks without room for what is shed
	stuck  int                       // consecutive ticks over the budget without a step that helps
	room   time.Time                 // start of the time with room; zero: no room
	last   time.Time                 // time of the last change
	wait   [len(Steps)]time.Duration // before a step is reverted
	back   [len(Steps)]time.Time     // time of the last revert
}

type taken struct {
	step int
	per  float64 // cost of its part per call, as a share of the time: what a revert adds
}

// Taken returns the active steps, by index, in order of activation.
func (b *Budget) Taken() []int {
	var out []int
	for _, x := range b.taken {
		out = append(out, x.step)
	}
	return out
}

// Tick takes in the cost of tracing in the last window and returns a change, if any. Partial windows,
// windows that are too short and invalid figures change nothing. Forced steps need no judgment, so
// they do not wait for a long window.
func (b *Budget) Tick(now time.Time, window time.Duration, load *Load) (c Change, any bool) {
	if !(b.Share > 0) || window <= 0 || !(load.Share >= 0) || load.Share > maxShare {
		return c, false
	}
	if len(b.Forced) > 0 {
		return b.force(now, window, load)
	}
	if window < minWindow {
		return c, false
	}
	if load.Partial {
		b.skip(window)
		return c, false
	}
	step := b.next(load)
	if step < 0 && load.paid() > b.Share {
		b.stuck++
	} else {
		b.stuck = 0
	}
	if step < 0 {
		b.over, b.hot = 0, max(b.hot-1, 0)
		return b.revert(now, window, load)
	}
	b.over++
	b.countNoRoom()
	if Steps[step].Part == Hot {
		b.hot++
		if b.hot < confirmHot && !b.returned(step, now) && !slices.Contains(b.Taken(), step) {
			return c, false
		}
	}
	if load.paid() < urgent*b.Share && (b.over < confirm || now.Sub(b.last) < settling) {
		return c, false
	}
	b.take(now, step, window, load)
	return Change{Step: step, Taken: true, Share: load.Share}, true
}

// skip makes a window count neither as time with room nor as time since the last change.
func (b *Budget) skip(window time.Duration) {
	b.last = b.last.Add(window)
	if !b.room.IsZero() {
		b.room = b.room.Add(window)
	}
}

// Exhausted reports whether the traced threads have exceeded the budget for a while and no step is
// left that would help.
func (b *Budget) Exhausted() bool { return b.stuck >= confirm }

// maxShare is more than all CPUs can use: a larger figure is invalid.
const maxShare = 1 << 20

// next returns the first step worth activating, or -1.
func (b *Budget) next(load *Load) int {
	held := [len(Steps)]bool{}
	for _, x := range b.taken {
		held[x.step] = true
	}
	for i := range Steps {
		more := Steps[i].Part == Hot // operations that it has not shed yet
		if (!held[i] || more) && b.worth(Steps[i].Part, load) && !load.lacks(i) {
			return i
		}
	}
	return -1
}

// force activates the next forced step, if there is something to shed.
func (b *Budget) force(now time.Time, window time.Duration, load *Load) (c Change, any bool) {
	for _, step := range b.Forced {
		if !load.lacks(step) && !slices.Contains(b.Taken(), step) {
			b.take(now, step, window, load)
			return Change{Step: step, Taken: true, Share: load.Share}, true
		}
	}
	return c, false
}

// StepNamed returns the index of a step, or -1.
func StepNamed(name string) int {
	return slices.IndexFunc(Steps[:], func(s Step) bool { return s.Name == name })
}

func (b *Budget) take(now time.Time, step int, window time.Duration, load *Load) {
	rate := float64(load.Calls) / window.Seconds()
	per := load.Parts[Steps[step].Part] / max(rate, 1)
	b.over, b.hot, b.last, b.room = 0, 0, now, time.Time{}
	if i := slices.IndexFunc(b.taken, func(x taken) bool { return x.step == step }); i >= 0 {
		b.taken[i].per = max(b.taken[i].per, per)
		return
	}
	if b.returned(step, now) {
		b.wait[step] = min(2*b.wait[step], maxCool)
	} else {
		b.wait[step] = minCool
	}
	b.taken = append(b.taken, taken{step: step, per: per})
}

// returned reports whether a step was reverted a short time ago.
func (b *Budget) returned(step int, now time.Time) bool {
	return !b.back[step].IsZero() && now.Sub(b.back[step]) < relapse
}

// countNoRoom counts a tick without room; a single one has no effect.
func (b *Budget) countNoRoom() {
	if b.noRoom++; b.noRoom >= confirm {
		b.room = time.Time{}
	}
}

// revert reverts the last step after enough time with room for it.
func (b *Budget) revert(now time.Time, window time.Duration, load *Load) (c Change, any bool) {
	if len(b.taken) == 0 {
		return c, false
	}
	x := &b.taken[len(b.taken)-1]
	rate := float64(load.Calls) / window.Seconds()
	limit, back := revertBelow*b.Share, x.per*rate
	fits := load.paid()+back <= limit
	if Steps[x.step].Part == Records { // they cost the agent only
		fits = load.paid() <= limit && (load.Share+back <= limit || back <= leastRecords*limit)
	}
	if !fits {
		b.countNoRoom()
		return c, false
	}
	b.noRoom = 0
	if b.room.IsZero() {
		b.room = now
	}
	if now.Sub(b.room) < b.wait[x.step] {
		return c, false
	}
	c = Change{Step: x.step, Share: load.Share}
	b.back[x.step], b.last = now, now
	b.taken = b.taken[:len(b.taken)-1]
	if n := len(b.taken); n > 0 { // the next one soon, if there is still room
		b.room = now.Add(between - b.wait[b.taken[n-1].step])
	}
	return c, true
}

// between is the time from one reverted step to the next.
const between = 3 * time.Second
