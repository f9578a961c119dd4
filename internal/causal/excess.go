package causal

import (
	"cmp"
	"math"
	"slices"

	"ingero/pkg/events"
)

const (
	low = 0.10 // the quantile that is normal where that must be learnt
	// minLearn is how many steps of a kind it takes to learn what is normal.
	minLearn = 10
	// leastGrowth is what a learnt part must have grown by, ns.
	leastGrowth = 200_000
	// leastSlow and slowShare are what a step must have lost to count: ns, and of
	// a normal step.
	leastSlow = 50_000
	slowShare = 0.01
	// minFree and freeShare are how many steps without excess tell what a normal
	// length is.
	minFree   = 8
	freeShare = 0.05
	// absorbed is the share of an excess that reaches the steps' length under which
	// it was free.
	absorbed = 0.1
)

// grown is a part of a step beyond what is normal.
type grown struct {
	ns       int64
	cause    uint32
	critical bool
}

// step is a step under judgement.
type step struct {
	sample
	grown    [maxParts + maxOwn]grown
	n        int
	sum      int64 // of grown
	critical int64 // of these: critical ones
	normal   int64 // ns: the length of a normal step of its kind
	graph    bool  // graphs were launched about then, by the kernel's count
	host     int64 // lost of what is not critical
	late     int64 // lost of what is
	lost     int64 // both, and between what
	min, max int64
}

// scratch is memory that judging uses again.
type scratch struct {
	samples []sample
	steps   []step
	values  []weighed
	parts   []Part
}

// excess finds what grew in each step and how much of that was lost.
func (e *Engine) excess(s *series) []step {
	x := &e.scratch
	x.samples = s.samples(x.samples[:0])
	slices.SortStableFunc(x.samples, func(a, b sample) int { // they are small; steps are not
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.from, b.from))
	})
	x.steps = x.steps[:0]
	for _, m := range x.samples {
		x.steps = append(x.steps, step{sample: m})
	}
	for i := 0; i < len(x.steps); {
		j := i + 1
		for j < len(x.steps) && x.steps[j].kind == x.steps[i].kind {
			j++
		}
		e.kind(x.steps[i:j], s)
		i = j
	}
	return x.steps
}

// kind judges the steps of one kind.
func (e *Engine) kind(steps []step, s *series) {
	e.growWaits(steps)
	e.growOwn(steps, s.pid)
	if steps[0].period {
		for i := range steps { // whether it cost anything cannot be known
			x := &steps[i]
			x.normal, x.host, x.lost, x.max = x.length, x.sum/2, x.sum/2, x.sum
		}
		return
	}
	n := e.normal(steps, s)
	for i := range steps {
		steps[i].normal = n.length
	}
	for i := range steps {
		if steps[i].sum > 0 {
			n.net(&steps[i], e.rule(&steps[i]))
		}
	}
}

// usual is how much of a rule's waits is normal in a step.
type usual struct {
	there, known bool
	ns           int64
}

// growWaits adds the waits beyond what is normal to the steps.
func (e *Engine) growWaits(steps []step) {
	var normal [norms][maxRules]usual
	e.present(steps, &normal)
	for n := range normal {
		for r := range normal[n] {
			if x := &normal[n][r]; x.there && len(steps) >= minLearn {
				*x = e.usual(steps, norm(n), r)
			}
		}
	}
	for i := range steps {
		x := &steps[i]
		for _, p := range x.parts[:x.nparts] {
			c := &e.causes.list[p.cause]
			if c.norm == normNone {
				x.add(grown{ns: p.ns, cause: p.cause, critical: p.critical})
				continue
			}
			u := &normal[c.norm][c.id.rule]
			all := e.ofRule(x.record, c.norm, int(c.id.rule))
			more := all - u.ns
			if u.known && more >= max(u.ns, leastGrowth) || !u.known && c.norm == normLevel {
				x.add(grown{ns: int64(float64(p.ns) * float64(more) / float64(all)), cause: p.cause, critical: p.critical})
			}
		}
	}
}

// usual finds how much of a rule's waits is normal: what a tenth of the steps have no more
// of, or, where there are two levels of it, the lower one.
func (e *Engine) usual(steps []step, n norm, rule int) (u usual) {
	u = usual{there: true, known: n == normLearnt}
	all := e.scratch.values[:0]
	var some []weighed
	for i := range steps {
		x := weighed{e.ofRule(steps[i].record, n, rule), steps[i].weight}
		all = append(all, x)
		if x.v >= leastSlow {
			some = append(some, x)
		}
	}
	e.scratch.values = all
	if u.known {
		u.ns = quantile(thin(all), low)
	}
	if lower, ok := levels(some); ok {
		u.ns, u.known = max(u.ns, lower), true
	}
	return u
}

// present says which rules have parts in steps whose normal amount must be learnt.
func (e *Engine) present(steps []step, of *[norms][maxRules]usual) {
	for i := range steps {
		x := steps[i].record
		for _, p := range x.parts[:x.nparts] {
			if c := &e.causes.list[p.cause]; c.norm != normNone {
				of[c.norm][c.id.rule].there = true
			}
		}
	}
}

// ofRule returns how much of a step is of a rule and has its normal amount found in a way.
func (e *Engine) ofRule(r *record, n norm, rule int) (ns int64) {
	for _, p := range r.parts[:r.nparts] {
		if c := &e.causes.list[p.cause]; int(c.id.rule) == rule && c.norm == n {
			ns += p.ns
		}
	}
	return ns
}

func (x *step) add(g grown) {
	x.grown[x.n] = g
	x.n++
	x.sum += g.ns
	if g.critical {
		x.critical += g.ns
	}
}

// growOwn adds the operations' own time beyond what is normal to the steps.
func (e *Engine) growOwn(steps []step, pid uint32) {
	if len(steps) < minLearn {
		return
	}
	type opSize struct {
		op   uint16
		size uint8
		as   shed
	}
	done := map[opSize]bool{}
	for i := range steps {
		for _, o := range steps[i].own[:steps[i].nown] {
			k := opSize{uint16(o.op), o.size, steps[i].shed & measuring(o.op)}
			if done[k] {
				continue
			}
			done[k] = true
			e.growOp(steps, pid, o, k.as)
		}
	}
}

// growOp does so for one operation and size, in the steps in which it was measured in a way.
func (e *Engine) growOp(steps []step, pid uint32, like ownTime, as shed) {
	mask := measuring(like.op)
	v := e.scratch.values[:0]
	alike := func(x *step) *ownTime {
		if o := x.ofOp(like); o != nil && x.shed&mask == as {
			return o
		}
		return nil
	}
	for i := range steps {
		if o := alike(&steps[i]); o != nil {
			v = append(v, weighed{o.ns / int64(o.seen), steps[i].weight * float64(o.all) / float64(o.seen)})
		}
	}
	e.scratch.values = v
	base, most := int64(math.MaxInt64), mostOf(like.op)
	if len(v) >= minLearn {
		base = quantile(thin(v), low)
	} else if most == 0 {
		return
	}
	if most > 0 {
		base = min(base, most)
	}
	for i := range steps {
		x := &steps[i]
		o := alike(x)
		if o == nil {
			continue
		}
		normal := base * int64(o.seen)
		more := o.ns - normal
		if more < max(normal, leastGrowth, x.length/100) {
			continue
		}
		p := Part{Victim: pid, NS: more, Op: o.op, Size: o.size, First: x.from, Last: x.to()}
		if n, ok := e.causes.of(&p); ok {
			x.add(grown{ns: more, cause: n})
		}
	}
}

// mostOf is the most that a call of an operation normally takes, ns; 0: that must be learnt.
func mostOf(op events.Op) int64 {
	p := Part{Op: op}
	for i := range Rules {
		if r := &Rules[i]; r.Match != nil && r.Match(&p) {
			return r.Most
		}
	}
	return 0
}

func (r *record) ofOp(like ownTime) *ownTime {
	for i := range r.own[:r.nown] {
		if o := &r.own[i]; o.op == like.op && o.size == like.size {
			return o
		}
	}
	return nil
}

// rule is the rule that most of what the host took from a step is of.
func (e *Engine) rule(x *step) int {
	var sums [maxRules]int64
	most := 0
	for _, g := range x.grown[:x.n] {
		if g.critical {
			continue
		}
		k := int(e.causes.list[g.cause].id.rule)
		if sums[k] += g.ns; sums[k] > sums[most] {
			most = k
		}
	}
	return most
}

// took is how much of a step's loss is due to one part.
func (x *step) took(g grown) float64 {
	all, lost := x.sum-x.critical, x.host
	if g.critical {
		all, lost = x.critical, x.late
	}
	if all <= 0 {
		return 0
	}
	return float64(lost) * float64(g.ns) / float64(all)
}

// bounds are the least and the most that may be lost due to one part.
func (x *step) bounds(g grown) (lo, hi float64) {
	if x.sum == 0 {
		return 0, 0
	}
	part := float64(g.ns) / float64(x.sum)
	return float64(x.min) * part, float64(x.max) * part
}
