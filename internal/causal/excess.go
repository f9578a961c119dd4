package causal

import (
	"cmp"
	"math"
	"slices"

	"ingero/pkg/events"
)

const (
	baselineQuantile = 0.10 // of the steps of a kind: the learned baseline
	// minLearn is the number of steps of a kind that a learned baseline needs.
	minLearn = 10
	// leastGrowth is the smallest excess over a learned baseline, ns.
	leastGrowth = 200_000
	// leastSlow and slowShare are the smallest loss of a step that counts: ns, and share of a
	// normal step.
	leastSlow = 50_000
	slowShare = 0.01
	// minFree and freeShare are the number and share of steps without excess that define a normal
	// length.
	minFree   = 8
	freeShare = 0.05
	// absorbed is the share of an excess reaching the steps' length below which the excess cost
	// nothing.
	absorbed = 0.1
)

// excess is the time of a part beyond its baseline.
type excess struct {
	ns       int64
	cause    uint32
	critical bool
	unknown  uint8 // as in part
}

// step is a step with its excess by cause and, after netting, its loss. Times are in ns.
type step struct {
	sample
	list     [maxParts + maxOwn]excess
	n        int
	sum      int64 // of the excess
	critical int64 // of sum: critical parts
	normal   int64 // length of a normal step of its kind
	graph    bool  // graphs were launched at about that time, by the kernel's count
	host     int64 // loss by parts that are not critical
	late     int64 // loss by critical parts
	lost     int64 // host + late, in [min, max]
	min, max int64
	// lateMin and lateMax are the bounds of late.
	lateMin, lateMax int64
}

// scratch is memory reused at each tick.
type scratch struct {
	samples []sample
	steps   []step   // of the thread under judgment
	main    [][]step // of main threads
	thread  []step   // all of the thread whose excess is looked for
	values  []weighted
	span    float64 // ns: of all steps of the thread under judgment
	normal  map[baselineKey]waitBaseline
	parts   []Part
}

// steps appends the steps of a thread, by kind and time, each with its excess and its loss.
func (e *Engine) steps(s *series, to []step) []step {
	x := &e.scratch
	x.samples = s.samples(x.samples[:0])
	slices.SortStableFunc(x.samples, func(a, b sample) int { // they are small; steps are not
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.from, b.from))
	})
	to = slices.Grow(to, len(x.samples))
	x.span = 0
	for _, m := range x.samples {
		x.span += m.weight * float64(m.length)
		to = append(to, step{sample: m})
	}
	x.thread = to
	for i := 0; i < len(to); {
		j := i + 1
		for j < len(to) && to[j].kind == to[i].kind {
			j++
		}
		e.alike(to[i:j], s)
		i = j
	}
	return to
}

// alike finds the excess of the steps of one kind, and nets it.
func (e *Engine) alike(steps []step, s *series) {
	e.excessOfWaits(steps, s.pid)
	e.excessOfCalls(steps, s.pid)
	if steps[0].period {
		for i := range steps { // no way to know whether the excess cost anything
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

// excess returns the excess of a step by cause.
func (x *step) excess() []excess { return x.list[:x.n] }

func (x *step) add(g excess) {
	x.list[x.n] = g
	x.n++
	x.sum += g.ns
	if g.critical {
		x.critical += g.ns
	}
}

// excessOfCalls adds the excess of operations' own time to the steps.
func (e *Engine) excessOfCalls(steps []step, pid uint32) {
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
			e.excessOfOp(steps, pid, o, k.as)
		}
	}
}

// excessOfOp adds the excess of one operation and size, in the steps that measured it the same way.
func (e *Engine) excessOfOp(steps []step, pid uint32, like ownTime, as shed) {
	mask := measuring(like.op)
	alike := func(x *step) *ownTime {
		if o := x.lookupOwn(like); o != nil && x.shed&mask == as {
			return o
		}
		return nil
	}
	low := int64(0)
	if like.size == 0 { // the histogram does not separate sizes
		low = e.low(pid, like.op)
	}
	v := e.scratch.values[:0]
	for i := range steps {
		x := &steps[i]
		switch o := alike(x); {
		case o != nil && low > 0:
			v = append(v, weighted{o.ns / int64(o.seen), x.weight})
		case o != nil:
			v = append(v, weighted{o.ns / int64(o.seen), x.weight * float64(o.all) / float64(o.seen)})
		case low > 0 && x.shed&mask == as && x.lacks(like.op): // its calls were fast
			v = append(v, weighted{low, x.weight})
		}
	}
	e.scratch.values = v
	base, most := int64(math.MaxInt64), maxBaseline(like.op)
	if len(v) >= minLearn {
		base = quantile(thin(v), baselineQuantile)
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
		if n, ok := e.causes.attribute(&p); ok {
			x.add(excess{ns: more, cause: n})
		}
	}
}

// maxBaseline returns the bound of an operation's learned baseline, ns; 0: none.
func maxBaseline(op events.Op) int64 {
	p := Part{Op: op}
	for _, r := range claiming {
		if claims := Rules[r].Claims; claims.Part(&p) {
			return claims.MaxBaseline
		}
	}
	return 0
}

func (r *record) lookupOwn(like ownTime) *ownTime {
	for i := range r.own[:r.nown] {
		if o := &r.own[i]; o.op == like.op && o.size == like.size {
			return o
		}
	}
	return nil
}

// rule returns the rule with the largest excess of a step, ignoring critical parts.
func (e *Engine) rule(x *step) int {
	var sums [maxRules]int64
	most := 0
	for _, g := range x.excess() {
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

// lossBy returns the loss that one excess accounts for in a step, ns.
func (x *step) lossBy(g excess) float64 {
	all, lost := x.sum-x.critical, x.host
	if g.critical {
		all, lost = x.critical, x.late
	}
	if all <= 0 {
		return 0
	}
	return float64(lost) * float64(g.ns) / float64(all)
}

// boundsBy returns the bounds of lossBy. Before a waker was known it may have done something else.
func (x *step) boundsBy(g excess) (lo, hi float64) {
	all, least, most := x.sum-x.critical, x.min-x.lateMin, x.max-x.lateMax
	if g.critical {
		all, least, most = x.critical, x.lateMin, x.lateMax
	}
	if all <= 0 {
		return 0, 0
	}
	part := float64(g.ns) / float64(all)
	return float64(least) * part * (1 - float64(g.unknown)/255), float64(most) * part
}
