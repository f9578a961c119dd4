package causal

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// normal is what steps of a kind are without excess.
type normal struct {
	length int64 // ns
	spread int64 // of the lengths around it
	free   bool  // it was seen: steps without excess told it
	// host is how much of what the host took reaches the steps' length, by the rule
	// that most of it is of; critical is that of what the closing call lost. NaN
	// where too few steps tell.
	host     [maxRules]float64
	critical float64
	// large is the least excess, ns, that has a share of its own, largeShare; 0: no excess has.
	large      int64
	largeShare float64
}

// few is how many steps it takes to say how much of an excess reaches the length.
const few = 3

// normal finds it.
func (e *Engine) normal(steps []step, s *series) normal {
	var n normal
	v := e.scratch.values[:0]
	var free, all float64
	for i := range steps {
		x := &steps[i]
		all += x.weight
		if !x.held() {
			free += x.weight
			v = append(v, weighed{x.length, x.weight})
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

// held says whether a step has an excess worth the name.
func (x *step) held() bool { return x.sum >= max(leastSlow, x.length/100) }

// own is what a step took longer than normal. Where the next one is shorter for it,
// because the program keeps a pace or had work queued beyond the step, that is
// taken off.
func (n *normal) own(x *step) int64 {
	own := x.length - n.length
	if x.next > 0 {
		own -= max(n.length-n.spread-x.next, 0)
	}
	return own
}

// shares finds how much of an excess reaches the length: of what the host took, in
// steps whose closing call lost little; of what the closing call lost, beside that.
func (e *Engine) shares(steps []step, n *normal) {
	var host [maxRules]ratio
	var critical ratio
	for i := range steps {
		if x := &steps[i]; x.held() && x.critical*10 < x.sum {
			host[e.rule(x)].add(x, n.own(x), x.sum)
		}
	}
	for r := range host {
		n.host[r] = host[r].value()
	}
	for i := range steps {
		x := &steps[i]
		if x.held() && x.critical*2 >= x.sum && x.loss.Min == x.loss.Max {
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

// add counts a step. One that is much longer, or shorter, than the excess explains
// is so for other reasons.
func (r *ratio) add(x *step, own, excess int64) {
	r.steps++
	r.all += x.weight * float64(excess)
	r.reached += x.weight * float64(min(max(own, -excess), 2*excess))
}

func (r *ratio) value() float64 {
	if r.steps < few || r.all <= 0 {
		return math.NaN()
	}
	return clamp(r.reached / r.all)
}

// clamp makes nothing of next to nothing.
func clamp(share float64) float64 {
	if share < absorbed {
		return 0
	}
	return min(share, 1)
}

// hostShare is how much of what the host took from a step reaches its length. Where
// few steps tell, the step itself does.
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

// slope finds a normal length where nearly every step has an excess, by comparing
// the third with the least of it with the third with the most. Where all have about
// the same, all of it counts but for what the GPU's queue hid. Steps with a
// much larger excess have a share of their own.
func (e *Engine) slope(steps []step, n *normal, s *series) {
	type point struct {
		d, l int64
		w    float64
	}
	p := make([]point, 0, len(steps))
	for i := range steps {
		x := &steps[i]
		d, late := x.sum, int64(0)
		if x.loss.Min < x.loss.Max { // somewhere in an interval: no measure of what reaches the length
			d, late = x.sum-x.critical, min(x.loss.Est, x.critical)
		}
		p = append(p, point{d, x.length - late, x.weight})
	}
	slices.SortFunc(p, func(a, b point) int { return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.l, b.l)) })
	middle := func(p []point, f func(*point) int64) int64 {
		v := e.scratch.values[:0]
		for i := range p {
			v = append(v, weighed{f(&p[i]), p[i].w})
		}
		e.scratch.values = v
		return quantile(thin(v), 0.5)
	}
	excess := func(p *point) int64 { return p.d }
	length := func(p *point) int64 { return p.l }
	third := len(p) / 3
	share, critical := s.reach(steps), 1.0
	if third >= few {
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
	// The GPU may hide a small excess and not a much larger one.
	if third < few {
		return
	}
	from := timesLarge * middle(p[len(p)-third:], excess)
	at := sort.Search(len(p), func(i int) bool { return p[i].d >= from })
	if large := p[at:]; from > 0 && len(large) >= few {
		n.large = from
		n.largeShare = clamp(float64(middle(large, length)-n.length) / float64(middle(large, excess)))
	}
}

// An excess is large from timesLarge times the median of the third with the most on.
const timesLarge = 4

// reached is what steps that end alike had reach their length when that was last known.
type reached struct {
	kind  uint32 // without the number of launches
	share float64
}

// reach is how much of what the host took reaches the steps' length, by what fell into a time
// when the GPU had work queued. Where launches have no record that is not known: then it is what
// other steps say, now or before.
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
	case seen.all > 0 && (unseen.steps == 0 || seen.steps >= few):
		*last = reached{kind, clamp(1 - seen.behind/seen.all)}
		return last.share
	case unseen.all > 0 && last.kind == kind && kind != 0:
		return last.share
	case unseen.all > 0:
		return clamp(1 - unseen.behind/unseen.all)
	}
	return 1
}

// net sets how much of a step's excess was lost.
func (n *normal) net(x *step, rule int) {
	host := int64(n.hostShare(x, rule) * float64(x.sum-x.critical))
	lo, est, hi := min(x.loss.Min, x.critical), min(x.loss.Est, x.critical), x.critical
	switch {
	case lo < hi && n.free: // only an interval is known; the step's own excess narrows it
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
	x.host, x.late = host, est
	x.lost, x.min, x.max = host+est, host+lo, host+hi
}
