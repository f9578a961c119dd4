package causal

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/tick"
)

const (
	mediumShare = 0.015 // of the time looked at
	highShare   = 0.02
	leastLost   = 100 * time.Millisecond
	oneIsEnough = 250 * time.Millisecond // lost by one cause: it need not recur
	// burstShare is how many times a rule's share of a stretch of tick.SpreadStep is
	// told, though it is little of a minute.
	burstShare = 3
	// usuallyVague is how far off, as a share, what is said to be lost is taken to be at
	// least: normal steps are not all alike, and those of a full second are a sample.
	usuallyVague = 0.15
)

// tally is what one cause took of a thread's steps: culprits of one rule that
// belong together.
type tally struct {
	rule           int
	group          string
	lost, min, max float64 // ns
	slow           float64 // steps
	excess         float64 // ns: of those
	by             map[uint32]float64
	first, last    *step // slow ones, by time
	worst          *step
	worstLost      int64
	spread         bins
}

// bins are what was lost in the window by when steps ended, in stretches of
// [tick.SpreadStep] one after the other, round and round.
type bins [windowSeconds/int(tick.SpreadStep/time.Second) + 2]float64

func (s *bins) at(ns int64) *float64 { return &s[ns/int64(tick.SpreadStep)%int64(len(s))] }

// verdict is what a thread's steps say.
type verdict struct {
	s      *series
	steps  []step
	from   int64   // Unix ns
	span   int64   // ns: the time looked at
	count  float64 // steps
	excess float64 // ns, whatever its cause
	rule   [maxRules]float64
	tally  []*tally
}

// judge returns a chain for each cause that cost a thread enough.
func (e *Engine) judge(s *series, t *tick.Tick) []tick.Chain {
	v := verdict{s: s, steps: e.excess(s)}
	if len(v.steps) == 0 {
		return nil
	}
	first, last := v.steps[0].from, v.steps[0].to()
	for i := range v.steps {
		x := &v.steps[i]
		first, last = min(first, x.from), max(last, x.to())
		v.count += x.weight
		if more := x.length - x.normal; more > max(leastSlow, x.normal/100) {
			v.excess += x.weight * float64(more)
		}
		e.tally(&v, x)
	}
	v.from, v.span = first, last-first
	slices.SortFunc(v.tally, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(b.lost, a.lost), cmp.Compare(a.rule, b.rule), cmp.Compare(a.group, b.group))
	})
	e.siblings(&v)
	v.several()
	var out []tick.Chain
	for _, y := range v.tally {
		if v.enough(y) {
			out = append(out, e.chain(&v, y, t))
		}
	}
	return out
}

// tally adds a slow step to the causes that made it so.
func (e *Engine) tally(v *verdict, x *step) {
	if x.lost == 0 && x.max == 0 {
		return
	}
	var byRule [maxRules]float64
	for _, g := range x.grown[:x.n] {
		byRule[e.causes.list[g.cause].id.rule] += x.took(g)
	}
	for i, g := range x.grown[:x.n] {
		c := &e.causes.list[g.cause]
		rule := int(c.id.rule)
		if byRule[rule] < max(leastSlow, slowShare*float64(x.normal)) {
			continue
		}
		y := v.of(rule, c.group)
		lost := x.took(g)
		v.rule[rule] += x.weight * lost
		y.lost += x.weight * lost
		lo, hi := x.bounds(g)
		y.min += x.weight * lo
		y.max += x.weight * hi
		y.by[g.cause] += x.weight * lost
		*y.spread.at(x.to()) += x.weight * lost
		if !e.before(x, i, rule, c.group) {
			y.slow += x.weight
			y.excess += x.weight * float64(max(x.length-x.normal, x.lost))
		}
		y.see(x, int64(lost))
	}
}

// before says whether one of the step's earlier parts is of the same cause.
func (e *Engine) before(x *step, i, rule int, group string) bool {
	return slices.ContainsFunc(x.grown[:i], func(g grown) bool {
		c := &e.causes.list[g.cause]
		return int(c.id.rule) == rule && c.group == group
	})
}

func (y *tally) see(x *step, lost int64) {
	if y.first == nil || x.from < y.first.from {
		y.first = x
	}
	if y.last == nil || x.from > y.last.from {
		y.last = x
	}
	if y.worst == nil || lost > y.worstLost {
		y.worst, y.worstLost = x, lost
	}
}

func (v *verdict) of(rule int, group string) *tally {
	for _, y := range v.tally {
		if y.rule == rule && y.group == group {
			return y
		}
	}
	y := &tally{rule: rule, group: group, by: map[uint32]float64{}}
	v.tally = append(v.tally, y)
	return y
}

// enough says whether a cause cost enough to be told.
func (v *verdict) enough(y *tally) bool {
	r := &Rules[y.rule]
	return (y.lost >= r.Share*float64(v.span) || y.burst() >= burstShare*r.Share*float64(tick.SpreadStep)) && y.lost >= float64(leastLost) &&
		(y.slow >= float64(r.Slow) || y.lost >= float64(oneIsEnough))
}

// burst returns the most that was lost in two stretches that follow each other.
func (y *tally) burst() (most float64) {
	for i, ns := range y.spread {
		most = max(most, ns+y.spread[(i+1)%len(y.spread)])
	}
	return most
}

// siblings adds causes that cost too little to be told to the largest one that is told and
// that the same process started: the programs of a rotation of logs, say, go by many names.
func (e *Engine) siblings(v *verdict) {
	told := slices.DeleteFunc(slices.Clone(v.tally), func(y *tally) bool { return !v.enough(y) })
	v.tally = slices.DeleteFunc(v.tally, func(y *tally) bool {
		p := e.parent(y)
		at := slices.IndexFunc(told, func(x *tally) bool { return x.rule == y.rule && p > kthreadd && e.parent(x) == p })
		if at < 0 || slices.Contains(told, y) {
			return false
		}
		told[at].add(y, v.count)
		return true
	})
}

// parent is who started the culprit that took most of a cause.
func (e *Engine) parent(y *tally) uint32 {
	most, of := 0.0, uint32(0)
	for c, ns := range y.by {
		if ns > most || ns == most && c < of {
			most, of = ns, c
		}
	}
	return e.causes.list[of].who.Parent
}

// add adds another cause of the same rule. A step that both slowed counts twice, until it is
// all count steps.
func (y *tally) add(o *tally, count float64) {
	y.lost += o.lost
	y.min += o.min
	y.max += o.max
	y.slow = min(y.slow+o.slow, count)
	y.excess += o.excess
	for c, ns := range o.by {
		y.by[c] += ns
	}
	for i, ns := range o.spread {
		y.spread[i] += ns
	}
	y.see(o.first, 0)
	y.see(o.last, 0)
	y.see(o.worst, o.worstLost)
}

// several makes one cause of many small ones of a rule: a build, say, starts
// hundreds of programs, none of which costs enough to be told. The largest of them
// stands for all; it does not where a cause that is told outweighs them.
func (v *verdict) several() {
	var told [maxRules]float64
	for _, y := range v.tally {
		if v.enough(y) {
			told[y.rule] += y.lost
		}
	}
	sums := map[int]*tally{}
	for _, y := range v.tally {
		if v.enough(y) {
			continue
		}
		s := sums[y.rule]
		if s == nil {
			s = &tally{rule: y.rule, group: "several", by: map[uint32]float64{}, first: y.first, last: y.last}
			sums[y.rule] = s
		}
		s.add(y, v.count)
	}
	for r := range Rules {
		if s := sums[r]; s != nil && v.enough(s) && s.lost > told[r] {
			v.tally = append(v.tally, s)
		}
	}
}

// unknown is what steps took longer than normal without a known cause, ns.
func (v *verdict) unknown() float64 {
	left := v.excess
	for _, lost := range v.rule {
		left -= lost
	}
	return max(left, 0)
}

// lengths returns the p50 and p99 of the steps, and the p99 without what a cause
// took.
func (e *Engine) lengths(v *verdict, y *tally) (p50, p99, without int64) {
	steps := e.scratch.values[:0]
	less := make([]weighed, 0, len(v.steps))
	for i := range v.steps {
		x := &v.steps[i]
		var took float64
		for _, g := range x.grown[:x.n] {
			if _, ok := y.by[g.cause]; ok {
				took += x.took(g)
			}
		}
		steps = append(steps, weighed{x.length, x.weight})
		less = append(less, weighed{x.length - int64(took), x.weight})
	}
	e.scratch.values = steps
	return quantile(steps, 0.5), quantile(steps, 0.99), quantile(less, 0.99)
}
