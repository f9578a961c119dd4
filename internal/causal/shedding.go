package causal

import (
	"slices"
	"strings"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// maxUnseen bounds the spans that are kept.
const maxUnseen = 64

// unseen is a time in which a shedding level was active.
type unseen struct {
	step     string
	sheds    govern.Facts
	from, to int64 // Unix ns; to 0: still active
}

// overlap returns for how much of [from, to] the level was active, ns.
func (u *unseen) overlap(from, to int64) int64 {
	if u.to != 0 {
		to = min(to, u.to)
	}
	return max(to-max(from, u.from), 0)
}

// look records the active levels as of a tick. A decision is made at the end of a tick and holds
// from then on.
func (e *Engine) look(t *tick.Tick) {
	now := t.Time.UnixNano()
	for i := range e.unseen {
		if u := &e.unseen[i]; u.to == 0 && !slices.Contains(t.Overhead.Shed, u.step) {
			u.to = now
		}
	}
	for _, name := range t.Overhead.Shed {
		open := slices.ContainsFunc(e.unseen, func(u unseen) bool { return u.to == 0 && u.step == name })
		if takes := govern.Sheds(name); takes != 0 && !open {
			if takes&govern.EachLaunch != 0 && !e.graphsKnown {
				takes |= govern.GraphLaunches
			}
			e.unseen = append(e.unseen, unseen{name, takes, now, 0})
		}
	}
	e.unseen = recent(e.unseen, maxUnseen, func(u *unseen) bool { return u.to != 0 && u.to < now-windowSeconds*1e9 })
}

// knowGraphs notes that calls tell whether graphs were launched before them, with a record or without.
// Recordings from before 1.0 do not.
func (e *Engine) knowGraphs() {
	e.graphsKnown = true
	for i := range e.unseen {
		u := &e.unseen[i]
		u.sheds &= govern.Sheds(u.step)
	}
}

// each calls fn for each level active for a process in a part of [from, to]: launches are counted
// for some processes, and timed for others.
func (e *Engine) each(pid uint32, from, to int64, fn func(u *unseen)) {
	for i := range e.unseen {
		u := &e.unseen[i]
		if u.overlap(from, to) <= 0 {
			continue
		}
		b := e.histories[pid]
		if u.step == launchesCounted && b != nil && !slices.ContainsFunc(b.Seconds, func(s Second) bool { return s.Counted && s.To > from && s.From < to }) {
			continue
		}
		fn(u)
	}
}

const launchesCounted = "launches-counted"

// lost returns what was shed for a process in a part of [from, to].
func (e *Engine) lost(pid uint32, from, to int64) (s govern.Facts) {
	e.each(pid, from, to, func(u *unseen) { s |= u.sheds })
	return s
}

// factsOf returns the facts that the own time of a class of calls comes from.
func factsOf(op events.Op) govern.Facts {
	r := op.Row()
	switch {
	case r == nil || r.Class != events.ClassLaunch && r.Always() != "":
		return 0
	case r.Class == events.ClassLaunch:
		return govern.LaunchTimes | govern.EachLaunch | govern.LaunchCounts
	}
	switch r.Class {
	case events.ClassMemcpy, events.ClassMemset, events.ClassEvent, events.ClassQuery:
		return govern.QuickTimes | govern.EachQuick | govern.QuickCounts
	}
	return 0
}

// shed has the levels active during a thread's step: bit i is set if level i of govern.Steps was
// active, bit 16+i too if it was active only for a part.
type shed uint32

const _ = uint(16 - len(govern.Steps)) // they fit

func (e *Engine) shed(pid uint32, from, to int64) (bits shed) {
	for i := range e.unseen {
		u := &e.unseen[i]
		if u.overlap(from, to) <= 0 {
			continue
		}
		if b := e.histories[pid]; u.step == launchesCounted && b != nil && len(b.Seconds) > 0 && !b.Seconds[len(b.Seconds)-1].Counted {
			continue
		}
		n := slices.IndexFunc(govern.Steps[:], func(s govern.Step) bool { return s.Name == u.step })
		bits |= 1 << n
		if u.overlap(from, to) < to-from {
			bits |= 1 << (n + 16)
		}
	}
	return bits
}

// taking returns the levels that shed some of s.
func taking(s govern.Facts) (bits shed) {
	for i := range govern.Steps {
		if govern.Sheds(govern.Steps[i].Name)&s != 0 {
			bits |= 1 << i
		}
	}
	return bits
}

// measuring returns the levels that change how calls of an operation are measured, in all of a step
// or a part. Only times measured the same way are comparable.
func measuring(op events.Op) shed {
	bits := taking(factsOf(op))
	return bits | bits<<16
}

// graphLaunch is the launch of a graph.
var graphLaunch, _ = events.OpByName("cudaGraphLaunch")

// graphs reports whether graphs were launched in the second that contains ns, by the kernel's
// count.
func (b *ProcessHistory) graphs(ns int64) bool {
	for i := range b.Seconds {
		if s := &b.Seconds[i]; s.From < ns && ns <= s.To {
			return slices.ContainsFunc(s.Ops, func(o OpSum) bool {
				return o.Calls > 0 && classOf(o.Op) == events.ClassLaunch && o.Op.Source() == events.SourceGraph
			})
		}
	}
	return false
}

// graphs reports whether a graph was launched in a step. If launches may have no record, the
// kernel's count of that second decides.
func (x *step) graphs() bool { return x.graph || x.marks&ledger.MarkGraph != 0 }

// lacks reports whether fast calls of an operation may have no record in a step. For launches, the
// kernel's count decides.
func (x *step) lacks(op events.Op) bool {
	if classOf(op) == events.ClassLaunch {
		return x.unseen
	}
	return x.shed&taking(factsOf(op)&(govern.EachLaunch|govern.EachQuick)) != 0
}

// Levels that stop the counting of launches, that leave out records of launches, and at which no step
// tells whether it launched a graph.
var (
	uncounted = taking(govern.LaunchCounts)
	thinned   = taking(govern.EachLaunch)
	graphsOff = taking(govern.GraphLaunches)
)

// blindSpots returns the causes that cannot be fully reported, and since when.
func (e *Engine) blindSpots() (out []tick.BlindSpot) {
	for i := range e.unseen {
		u := &e.unseen[i]
		rules := RulesWithout(u.sheds)
		if len(rules) == 0 {
			continue
		}
		x := tick.BlindSpot{Step: u.step, Rules: rules, Without: u.sheds.String(), Since: wall(u.from)}
		if u.to != 0 {
			x.Until = wall(u.to)
		}
		out = append(out, x)
	}
	return out
}

// RulesWithout returns the rules that cannot fully report their causes while s is shed, in table
// order.
func RulesWithout(s govern.Facts) (names []string) {
	for i := range Rules {
		if Rules[i].Sees&s != 0 {
			names = append(names, Rules[i].Name)
		}
	}
	return names
}

// abstains reports whether a rule depends on facts that were shed for a process in a part of [from,
// to].
func (e *Engine) abstains(r *Rule, pid uint32, from, to int64) bool {
	return r.Rests != 0 && r.Rests&e.lost(pid, from, max(to, from+1)) != 0
}

// seen returns for how long of [from, to] a rule had all of its inputs, before the first was shed, ns.
func (e *Engine) seen(r *Rule, pid uint32, from, to int64) int64 {
	first := to
	e.each(pid, from, to, func(u *unseen) {
		if u.sheds&r.Sees != 0 {
			first = min(first, max(u.from, from))
		}
	})
	return first - from
}

// weaken adds to a finding which of its rule's inputs were shed in the observed time, up to now.
// unknown is the possible extra loss, ns.
func (e *Engine) weaken(x *Finding, unknown float64, now int64) {
	from := min(now-x.Window, x.From)
	needs := x.rule.Sees | x.rule.Dims
	var steps []string
	var without govern.Facts
	var since int64
	e.each(x.PID, from, now, func(u *unseen) {
		if u.sheds&needs == 0 {
			return
		}
		if !slices.Contains(steps, u.step) {
			steps = append(steps, u.step)
		}
		without |= u.sheds & needs
		if since == 0 || u.from < since {
			since = u.from
		}
	})
	if len(steps) == 0 {
		return
	}
	if more := int64(unknown); more > 0 {
		x.Max = max(x.Max, min(x.Max+more, x.Window))
		x.Confidence *= float64(x.Lost) / float64(x.Lost+more)
	}
	x.Baseline += tick.JudgedWithLess + "data is incomplete since " + wall(since).UTC().Format("15:04:05 UTC") + " (" + strings.Join(steps, ", ") + ": " + without.String() + ")"
	x.excess = max(x.excess, x.Lost)
}
