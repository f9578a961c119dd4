package otlp

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of the calls per tick that become spans with their inner calls, unless all do.
const (
	mostFailed  = 64
	mostSlow    = 32
	mostSampled = 16
	slowFrom    = 100_000 // ns; shorter calls are not slow
	slowTimes   = 2       // multiple of its operation's median
)

// Reasons for a span.
const (
	reasonAll     = "all"
	reasonFailed  = "failed"
	reasonSlow    = "slow"
	reasonSampled = "sampled"
)

type opKey struct {
	pid uint32
	op  events.Op
}

// chooser selects a tick's calls that become spans.
type chooser struct {
	medians map[opKey]int64 // as of the last tick, ns
	seen    map[opKey]bool  // in this tick, for sampling
	failed  int
	slow    []*group // the slowest so far, unordered
	least   int      // index in slow of the fastest
	left    int      // failed calls of this tick without a span
}

// group is a copy of a call and its inner calls.
type group struct {
	calls  []events.Call // the outer one last
	reason string
}

func copyGroup(g *group, outer *events.Call, inside []events.Call, why string) *group {
	if g == nil {
		g = &group{}
	}
	g.calls = append(append(g.calls[:0], inside...), *outer)
	g.reason = why
	return g
}

func newChooser() chooser { return chooser{medians: map[opKey]int64{}, seen: map[opKey]bool{}} }

// slowCall reports whether a call was slow for its operation.
func (x *chooser) slowCall(c *events.Call) bool {
	return c.Duration >= slowFrom && c.Flags&events.CallUnmeasured == 0 && c.Duration >= slowTimes*x.medians[opKey{c.PID, c.Op}]
}

// look returns a call's group if it certainly becomes a span. It keeps candidates for the slowest
// calls until the tick.
func (x *chooser) look(outer *events.Call, inside []events.Call) *group {
	if fails(outer, inside) {
		if x.failed < mostFailed {
			x.failed++
			return copyGroup(nil, outer, inside, reasonFailed)
		}
		x.left++
		return nil
	}
	if x.slowCall(outer) {
		switch {
		case len(x.slow) < mostSlow:
			x.slow = append(x.slow, copyGroup(nil, outer, inside, reasonSlow))
			x.find()
			return nil
		case outer.Duration > x.slow[x.least].outer().Duration:
			copyGroup(x.slow[x.least], outer, inside, reasonSlow)
			x.find()
			return nil
		}
	}
	if len(x.seen) < mostSampled {
		if k := (opKey{outer.PID, outer.Op}); !x.seen[k] {
			x.seen[k] = true
			return copyGroup(nil, outer, inside, reasonSampled)
		}
	}
	return nil
}

func (g *group) outer() *events.Call { return &g.calls[len(g.calls)-1] }

func fails(outer *events.Call, inside []events.Call) bool {
	if outer.Flags&events.CallFailed != 0 {
		return true
	}
	for i := range inside {
		if inside[i].Flags&events.CallFailed != 0 {
			return true
		}
	}
	return false
}

func (x *chooser) find() {
	for i := range x.slow {
		if i == 0 || x.slow[i].outer().Duration < x.slow[x.least].outer().Duration {
			x.least = i
		}
	}
}

// tick returns the slowest calls and starts over.
func (x *chooser) tick(t *tick.Tick) []*group {
	out := x.slow
	x.slow, x.least, x.failed, x.left = nil, 0, 0, 0
	clear(x.medians)
	clear(x.seen)
	for i := range t.Ops {
		if o := &t.Ops[i]; o.Dur != nil {
			x.medians[opKey{o.PID, o.Op}] = o.Dur.Quantile(0.5)
		}
	}
	return out
}
