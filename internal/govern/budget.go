// Package govern decides what tracing does without, so that it costs no more than it may:
// see [Budget].
//
// It is pure: time and costs come in with each tick, decisions go out. It does
// not know how anything is made cheaper. Its caller is session.
package govern

import (
	"slices"
	"time"
)

// Part is something that tracing costs, and that a step makes cheaper.
type Part uint8

// The parts.
const (
	Stacks   Part = iota // taken in the kernel, in the traced threads
	Records              // put out by the kernel and read by the agent
	Launches             // probes on launches, of the processes where they are dear
	Calls                // probes on other calls that return at once
	Hot                  // probes of any kind on the dearest of both
	Host                 // tracepoints that tell of disks, memory and sockets
	Twice                // probes on launches of the runtime, which those of the driver see too
	Parts
)

// Step is one thing to do without.
type Step struct {
	Name string
	Part Part
	Does string // what happens, as a clause
	Cost string // which answers are the worse for it
}

// Steps are what is left out to spare the traced processes, in the order in which it is:
// what costs much and tells little first, what makes counts incomplete last. They are
// taken back in the reverse order.
var Steps = [...]Step{
	{"launches-once", Twice, "launches of the CUDA runtime have no probe: the driver's probe counts and records them, by their return addresses", "launches that the runtime refuses are not seen; results and times of launches are the driver's"},
	{"stacks-rare", Stacks, "stacks are taken of slow and failed calls, and of a sixteenth of the others that had one", "calls by place in the program: rare places may be missing"},
	{"records-thin", Records, "one fast call in 8 of those on which no answer rests has a record", "single launches, asynchronous copies, memsets, events and queries; counts and sums of operations stay exact, quantiles are estimates"},
	{"python-off", Stacks, "stacks have no Python functions", "Python lines of calls, and of who holds Python's lock"},
	{"launches-counted", Launches, "launches of the processes that make very many are counted, not timed", "durations and results of these launches, so call-slow, driver-slow, graph-pool, gpu-behind and cold-start do not look at them, and failed launches are not seen; their counts stay exact"},
	{"stacks-off", Stacks, "no stack is taken", "where in the program calls are made"},
	{"records-least", Records, "one fast call in 64 of those on which no answer rests has a record", "single launches, asynchronous copies, memsets, events and queries; counts and sums of operations stay exact, quantiles are estimates"},
	{"host-off", Host, "disks, reclaim and sockets are not watched", "causes on the host but for the CPU"},
	{"calls-counted", Calls, "copies, memsets, events and queries that return at once are counted, not timed", "durations of these calls; their counts stay exact"},
	{"hot-off", Hot, "the dearest of the launches and calls that return at once have no probe", "their counts, which are lower bounds: calls are not counted until the probes are back"},
}

// Load is what tracing costs in a tick, as shares of the time of the traced processes.
type Load struct {
	Share float64
	Agent float64        // of it: what the agent takes of CPUs, whichever they are, to read records
	Parts [Parts]float64 // of it; they may overlap
	Calls uint64         // that were made, as far as they are seen
	// Lacks are steps that cannot be taken here, by index.
	Lacks [len(Steps)]bool
}

// Change is a decision.
type Change struct {
	Step  int  // index into Steps
	Taken bool // false: taken back
	Share float64
}

// paid is the share that the traced threads pay for probes, stacks and tracepoints: it must
// fit into the budget. The agent's own must fit as well, but nothing makes that cheaper than
// fewer records: for its sake no call is left uncounted.
func (l *Load) paid() float64 { return l.Share - l.Agent }

// worth says whether a part costs so much that a step on it is to be taken. Fewer records
// are cheaper for the agent alone.
func (b *Budget) worth(p Part, load *Load) bool {
	if p == Records {
		return load.Share > b.Share && load.Parts[p] >= leastRecords*b.Share
	}
	return load.paid() > b.Share && b.Saves(load.Parts[p])
}

// Saves says whether to do without what costs a share would make a difference.
func (b *Budget) Saves(share float64) bool { return share >= least*b.Share }

// What keeps a change from being one of many.
const (
	confirm   = 2                // ticks over the budget, one after the other
	minCool   = 10 * time.Second // with room for what a step leaves out, before it is taken back
	maxCool   = 5 * time.Minute
	relapse   = time.Minute // a step that is taken again within it waits twice as long the next time
	minWindow = 100 * time.Millisecond

	urgent = 3.0  // times the budget: a step each tick
	least  = 0.05 // of the budget: one that may save less than this is not taken at all
	// leastRecords is that of records: most of what the agent takes is the same with none.
	leastRecords = 0.5
	quietBy      = 0.75 // of the budget: with what comes back it must stay under it
	settling     = 2 * time.Second
)

// Budget keeps what tracing costs under a share by taking steps, one at a time. The zero
// value has no budget and decides nothing. It is for one goroutine.
type Budget struct {
	Share float64 // of the time of the traced processes; 0: no bound
	// Forced are steps, by index, of which each call of Tick takes one more, whatever tracing
	// costs. They are kept, and no other is taken. For measurements.
	Forced []int
	taken  []taken
	hot    int                       // ticks over the budget in a row
	noisy  int                       // ticks in a row without room for what is left out
	stuck  int                       // ticks over the budget in a row that no step can help
	quiet  time.Time                 // since when there is room; zero: there is none
	last   time.Time                 // of the last change
	wait   [len(Steps)]time.Duration // before a step is taken back
	back   [len(Steps)]time.Time     // when it was
}

type taken struct {
	step int
	at   time.Time
	per  float64 // of its part, share of the time for one call: what comes back with it
}

// Taken returns the steps that are taken, by index, in their order.
func (b *Budget) Taken() []int {
	var out []int
	for _, x := range b.taken {
		out = append(out, x.step)
	}
	return out
}

// Tick takes in what tracing cost in the last window and returns what is to be changed,
// if anything is. Windows that are too short to judge by, and figures that are none,
// change nothing; forced steps need no judgement, so they do not wait for a long window.
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
	step := b.next(load)
	if step < 0 && load.paid() > b.Share {
		b.stuck++
	} else {
		b.stuck = 0
	}
	if step < 0 {
		b.hot = 0
		return b.calm(now, window, load)
	}
	b.hot++
	b.noise()
	if load.paid() < urgent*b.Share && (b.hot < confirm || now.Sub(b.last) < settling) {
		return c, false
	}
	b.take(now, step, window, load)
	return Change{Step: step, Taken: true, Share: load.Share}, true
}

// Exhausted tells whether the traced threads have paid more than the budget for a while, and no
// step is left that would help.
func (b *Budget) Exhausted() bool { return b.stuck >= confirm }

// maxShare is more than all CPUs can take: a figure above it is none.
const maxShare = 1 << 20

// next returns the first step that is worth to be taken, -1: none is, or none need be.
func (b *Budget) next(load *Load) int {
	held := [len(Steps)]bool{}
	for _, x := range b.taken {
		held[x.step] = true
	}
	for i := range Steps {
		if !held[i] && !load.Lacks[i] && b.worth(Steps[i].Part, load) {
			return i
		}
	}
	return -1
}

// force takes the next of the forced steps, if there is something to leave out.
func (b *Budget) force(now time.Time, window time.Duration, load *Load) (c Change, any bool) {
	for _, step := range b.Forced {
		if !load.Lacks[step] && !slices.Contains(b.Taken(), step) {
			b.take(now, step, window, load)
			return Change{Step: step, Taken: true, Share: load.Share}, true
		}
	}
	return c, false
}

// StepNamed returns the index of a step, -1: there is none of the name.
func StepNamed(name string) int {
	return slices.IndexFunc(Steps[:], func(s Step) bool { return s.Name == name })
}

func (b *Budget) take(now time.Time, step int, window time.Duration, load *Load) {
	if b.back[step].IsZero() || now.Sub(b.back[step]) >= relapse {
		b.wait[step] = minCool
	} else {
		b.wait[step] = min(2*b.wait[step], maxCool)
	}
	rate := float64(load.Calls) / window.Seconds()
	b.taken = append(b.taken, taken{step: step, at: now, per: load.Parts[Steps[step].Part] / max(rate, 1)})
	b.hot, b.last = 0, now
}

// noise notes a tick without room; one alone means nothing.
func (b *Budget) noise() {
	if b.noisy++; b.noisy >= confirm {
		b.quiet = time.Time{}
	}
}

// calm takes the last step back once there has been room for it for long enough.
func (b *Budget) calm(now time.Time, window time.Duration, load *Load) (c Change, any bool) {
	if len(b.taken) == 0 {
		return c, false
	}
	x := &b.taken[len(b.taken)-1]
	rate := float64(load.Calls) / window.Seconds()
	room, back := quietBy*b.Share, x.per*rate
	loud := load.paid()+back > room
	if Steps[x.step].Part == Records { // of the agent
		loud = load.paid() > room || load.Share+back > room && back > leastRecords*room
	}
	if loud {
		b.noise()
		return c, false
	}
	b.noisy = 0
	if b.quiet.IsZero() {
		b.quiet = now
	}
	if now.Sub(b.quiet) < b.wait[x.step] {
		return c, false
	}
	c = Change{Step: x.step, Share: load.Share}
	b.back[x.step] = now
	b.taken = b.taken[:len(b.taken)-1]
	b.last = now
	b.quiet = now.Add(-b.wait[x.step] + between) // the next one soon, if it stays quiet
	if n := len(b.taken); n > 0 {
		b.quiet = now.Add(between - b.wait[b.taken[n-1].step])
	}
	return c, true
}

// between is the time from one step that is taken back to the next.
const between = 3 * time.Second
