package causal

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// normal describes steps of a kind without excess.
type normal struct {
	length int64 // ns
	spread int64 // spread of the lengths around it
	free   bool  // measured from steps without excess
	// host is the share of host losses that reaches the steps' length, by the rule with most of the
	// loss. critical is the share for the closing call's losses. NaN: too few steps to tell.
	host     [maxRules]float64
	critical float64
	// large is the smallest excess with its own share, largeShare, ns; 0: none.
	large      int64
	largeShare float64
}

// minExcessSteps is the number of steps needed to estimate the share of an excess that reaches the
// length.
const minExcessSteps = 3

// normal finds the normal step of one kind.
func (e *Engine) normal(steps []step, s *series) normal {
	var n normal
	v := e.scratch.values[:0]
	var free, all float64
	for i := range steps {
		x := &steps[i]
		all += x.weight
		if !x.hasExcess() {
			free += x.weight
			v = append(v, weighted{x.length, x.weight})
		}
	}
	e.scratch.values = v
	if len(v) < minFree || free < freeShare*all {
		e.slope(steps, &n, s)
		return n
	}
	v = thin(v)
	n.length, n.free = quantile(v, 0.5), true
	n.spread = spread(v)
	e.shares(steps, &n)
	return n
}

// hasExcess reports whether a step has a significant excess.
func (x *step) hasExcess() bool { return x.sum >= max(leastSlow, x.length/100) }

// own returns how much longer than normal a step was. If the next step is shorter in return,
// because the program keeps a pace or had work queued beyond the step, that time is subtracted.
func (n *normal) own(x *step) int64 {
	own := x.length - n.length
	if x.next > 0 {
		own -= max(n.length-n.spread-x.next, 0)
	}
	return own
}

// shares finds how much of an excess reaches the length: first for host losses, in steps whose
// closing call lost little, then for the closing call's losses beyond these.
func (e *Engine) shares(steps []step, n *normal) {
	var host [maxRules]ratio
	var critical ratio
	for i := range steps {
		if x := &steps[i]; x.hasExcess() && x.critical*10 < x.sum {
			host[e.rule(x)].add(x, n.own(x), x.sum)
		}
	}
	for r := range host {
		n.host[r] = host[r].value()
	}
	for i := range steps {
		x := &steps[i]
		if x.hasExcess() && x.critical*2 >= x.sum && x.loss.Min == x.loss.Max {
			known := float64(x.sum-x.critical) * n.hostShare(x, e.rule(x))
			critical.add(x, n.own(x)-int64(known), x.critical)
		}
	}
	n.critical = critical.value()
}

// ratio is the mean share of excesses that reached the lengths.
type ratio struct {
	steps        int
	reached, all float64
}

// add counts a step. It bounds the length to what the excess can explain; the rest has other
// reasons.
func (r *ratio) add(x *step, own, excess int64) {
	r.steps++
	r.all += x.weight * float64(excess)
	r.reached += x.weight * float64(min(max(own, -excess), 2*excess))
}

func (r *ratio) value() float64 {
	if r.steps < minExcessSteps || r.all <= 0 {
		return math.NaN()
	}
	return clamp(r.reached / r.all)
}

// clamp returns 0 for a share below absorbed, and at most 1.
func clamp(share float64) float64 {
	if share < absorbed {
		return 0
	}
	return min(share, 1)
}

// hostShare returns the share of a step's host losses that reaches its length. With too few other
// steps, it is estimated from the step itself.
func (n *normal) hostShare(x *step, rule int) float64 {
	if n.large > 0 && x.sum >= n.large {
		return n.largeShare
	}
	if share := n.host[rule]; !math.IsNaN(share) {
		return share
	}
	if x.sum == 0 {
		return 0
	}
	return min(max(float64(n.own(x))/float64(x.sum), 0), 1)
}

// slope finds a normal length when nearly every step has an excess. It compares the third with the
// least excess with the third with the most. If all have about the same excess, all of it counts
// except what the GPU's queue hid. Steps with a much larger excess have their own share.
func (e *Engine) slope(steps []step, n *normal, s *series) {
	type point struct {
		d, l int64
		w    float64
	}
	p := make([]point, 0, len(steps))
	for i := range steps {
		x := &steps[i]
		d, late := x.sum, int64(0)
		if x.loss.Min < x.loss.Max { // only an interval is known, so it cannot measure what reaches the length
			d, late = x.sum-x.critical, min(x.loss.Est, x.critical)
		}
		p = append(p, point{d, x.length - late, x.weight})
	}
	slices.SortFunc(p, func(a, b point) int { return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.l, b.l)) })
	middle := func(p []point, f func(*point) int64) int64 {
		v := e.scratch.values[:0]
		for i := range p {
			v = append(v, weighted{f(&p[i]), p[i].w})
		}
		e.scratch.values = v
		return quantile(thin(v), 0.5)
	}
	excess := func(p *point) int64 { return p.d }
	length := func(p *point) int64 { return p.l }
	third := len(p) / 3
	share, critical := s.reach(steps), 1.0
	if third >= minExcessSteps {
		least, most := p[:third], p[len(p)-third:]
		if d := middle(most, excess) - middle(least, excess); d*5 >= middle(most, excess) && d > 0 {
			share = clamp(float64(middle(most, length)-middle(least, length)) / float64(d))
			critical = share
		}
	}
	n.length = middle(p[:max(third, 1)], func(p *point) int64 { return p.l - int64(share*float64(p.d)) })
	for k := range n.host {
		n.host[k] = share
	}
	n.critical = critical
	// The GPU may hide a small excess but not a much larger one.
	if third < minExcessSteps {
		return
	}
	from := timesLarge * middle(p[len(p)-third:], excess)
	at := sort.Search(len(p), func(i int) bool { return p[i].d >= from })
	if large := p[at:]; from > 0 && len(large) >= minExcessSteps {
		n.large = from
		n.largeShare = clamp(float64(middle(large, length)-n.length) / float64(middle(large, excess)))
	}
}

// timesLarge times the median excess of the third with the most is a large excess.
const timesLarge = 4

// reached is the last known share of excess that reached the length, for steps with one closing
// call.
type reached struct {
	kind  uint32 // without the number of launches
	share float64
}

// reach returns the share of host losses that reaches the steps' length, derived from the losses
// while the GPU had work queued. Where launches have no record this is unknown; other or earlier
// steps give the share.
func (s *series) reach(steps []step) float64 {
	var seen, unseen struct{ steps, all, behind float64 }
	for i := range steps {
		x, sum := &steps[i], &seen
		if x.unseen {
			sum = &unseen
		}
		host := x.sum - x.critical
		sum.steps++
		sum.all += x.weight * float64(host)
		sum.behind += x.weight * float64(min(x.behind, host))
	}
	kind := steps[0].kind >> 8
	last := &s.reached[kind%maxKinds]
	switch {
	case seen.all > 0 && (unseen.steps == 0 || seen.steps >= minExcessSteps):
		*last = reached{kind, clamp(1 - seen.behind/seen.all)}
		return last.share
	case unseen.all > 0 && last.kind == kind && kind != 0:
		return last.share
	case unseen.all > 0:
		return clamp(1 - unseen.behind/unseen.all)
	}
	return 1
}

// net sets the lost part of a step's excess.
func (n *normal) net(x *step, rule int) {
	host := int64(n.hostShare(x, rule) * float64(x.sum-x.critical))
	lo, est, hi := min(x.loss.Min, x.critical), min(x.loss.Est, x.critical), x.critical
	switch {
	case lo < hi && n.free: // the step's own excess narrows the known interval
		est = min(max(n.own(x)-host, lo), hi)
		lo, hi = max(lo, est-n.spread), min(hi, est+n.spread)
	case lo == hi && math.IsNaN(n.critical):
		est = min(max(n.own(x)-host, 0), hi)
		lo, hi = est, est
	case lo == hi && n.large > 0 && x.sum >= n.large:
		est = int64(n.largeShare * float64(hi))
		lo, hi = est, est
	case lo == hi:
		est = int64(n.critical * float64(hi))
		lo, hi = est, est
	}
	x.host, x.late, x.lateMin, x.lateMax = host, est, lo, hi
	x.lost, x.min, x.max = host+est, host+lo, host+hi
}
