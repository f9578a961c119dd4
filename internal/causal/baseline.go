package causal

import (
	"math"
	"slices"
)

// waitsOf names waits that have a baseline in common: those of a rule, of one kind of baseline.
type waitsOf struct {
	how  baseline
	rule uint8
}

func (e *Engine) waitsOf(p *part) waitsOf {
	c := &e.causes.list[p.cause]
	return waitsOf{c.baseline, c.id.rule}
}

// waitBaseline is the baseline of such waits in a step.
type waitBaseline struct {
	known bool
	ns    int64
	most  int64 // that some of those that are normal reach, ns; 0: ns
}

// excessOfWaits adds the excess of waits to the steps of a process.
func (e *Engine) excessOfWaits(steps []step, pid uint32) {
	normal := e.baselines(steps)
	for i := range steps {
		x := &steps[i]
		starts := x.early && e.starting(pid, x.from)
		for _, p := range x.parts[:x.nparts] {
			of := e.waitsOf(&p)
			if starts && Rules[of.rule].Claims.Started && e.causes.list[p.cause].ofJob {
				continue
			}
			if of.how == baselineZero {
				x.add(excess(p))
				continue
			}
			u := normal[of]
			all := e.sumOf(x.record, of)
			more := all - u.ns
			if beyond := all - max(u.ns, u.most); u.known && beyond >= max(u.ns, u.most, leastGrowth) || !u.known && (of.how == baselineLevel || of.how == baselineLittle) {
				p.ns = int64(float64(p.ns) * float64(more) / float64(all))
				x.add(excess(p))
			}
		}
	}
}

// starting says whether a process that was seen from its start on had just begun to make calls.
func (e *Engine) starting(pid uint32, at int64) bool {
	b := e.books[pid]
	return b != nil && !b.Late && b.Mapped != 0 && at < b.First+startSpan
}

// baselines finds the baselines of the waits that are in the steps. Too few steps have none.
func (e *Engine) baselines(steps []step) map[waitsOf]waitBaseline {
	if e.scratch.normal == nil {
		e.scratch.normal = map[waitsOf]waitBaseline{}
	}
	normal := e.scratch.normal
	clear(normal)
	if len(steps) < minLearn {
		return normal
	}
	for i := range steps {
		x := steps[i].record
		for j := range x.parts[:x.nparts] {
			of := e.waitsOf(&x.parts[j])
			if _, ok := normal[of]; !ok && of.how != baselineZero {
				normal[of] = e.baseline(steps, of)
			}
		}
	}
	return normal
}

// baseline finds the baseline of waits: the low quantile of the steps, or the lower
// level where the steps have two levels.
func (e *Engine) baseline(steps []step, of waitsOf) (u waitBaseline) {
	if of.how == baselinePace {
		return e.pace(steps, of)
	}
	u.known = of.how != baselineLevel && of.how != baselineLittle
	all := e.scratch.values[:0]
	var some, any []weighed
	for i := range steps {
		x := weighed{e.sumOf(steps[i].record, of), steps[i].weight}
		all = append(all, x)
		if x.v > 0 {
			any = append(any, x)
		}
		if x.v >= leastSlow {
			some = append(some, x)
		}
	}
	e.scratch.values = all
	if usual := e.usual(of.how, any, all); usual.known || of.how == baselineLittle {
		return usual
	}
	usual := int64(0)
	if of.how == baselineHabit { // before the order of time is gone
		usual = e.habit(all, steps)
	}
	if u.known {
		u.ns = quantile(thin(all), baselineQuantile)
	}
	if lower, ok := levels(some); ok {
		u.ns, u.known = max(u.ns, lower), true
	} else {
		u.ns = max(u.ns, usual)
	}
	return u
}

// habit returns what waits usually take that are not in each step, but come again and again all the
// time, take about as long each time, less than a step, and little of all of them: the program works
// so. 0 where they are none. all are those of the steps, in order of time.
func (e *Engine) habit(all []weighed, steps []step) int64 {
	if len(all) < habitStretches*leastBin {
		return 0
	}
	var some []weighed
	for i := range habitStretches {
		before := len(some)
		for _, x := range all[i*len(all)/habitStretches : (i+1)*len(all)/habitStretches] {
			if x.v >= leastSlow {
				some = append(some, x)
			}
		}
		if len(some) == before {
			return 0
		}
	}
	var times float64
	for i := range some {
		times += some[i].w
	}
	lengths := make([]weighed, len(steps))
	for i := range steps {
		lengths[i] = weighed{steps[i].length, steps[i].weight}
	}
	some = thin(some)
	usual := quantile(some, 0.25)
	if likeUsual*quantile(some, 0.1) < quantile(some, 0.5) || usual >= quantile(thin(lengths), 0.5) || times*float64(usual) >= littleShare*e.scratch.span {
		return 0
	}
	return usual
}

// habitStretches are parts of the window, each of which has a wait that is a habit.
const habitStretches = 8

// usual returns how long a thread usually waits for another one that it meets in its steps; it is not
// known where the waits are none that are normal. A hand-over is in most steps, and takes about as
// long each time or longer. A lock that is held at times is not: what is left of the time that it is
// held may be next to nothing. If it varies, it is normal where it is little.
func (e *Engine) usual(how baseline, waits, steps []weighed) (u waitBaseline) {
	if how != baselineHandOver && how != baselineMeeting && how != baselineLittle || len(waits) < minLearn {
		return u
	}
	var some, all float64
	for i := range waits {
		some += waits[i].w
	}
	for i := range steps {
		all += steps[i].w
	}
	sorted := thin(slices.Clone(waits))
	middle := quantile(sorted, 0.5)
	share, most := some*float64(middle)/max(e.scratch.span, 1), 2*some >= all
	switch how {
	case baselineHandOver:
		u.known = most && (likeUsual*quantile(sorted, 0.1) >= middle || share < littleShare)
	case baselineMeeting:
		u.known = most || share < littleShare
	case baselineLittle:
		u.known = most && share < littleInput
	}
	if !u.known {
		return u
	}
	last := len(sorted)
	for last > 0 && sorted[last-1].v > likeUsual*middle {
		last--
	}
	u.ns, u.most = middle, quantile(sorted[:last], 0.9)
	return u
}

// Waits that take less than this share of a thread's time are little. Of those for input it is what
// inputWait asks for.
const (
	littleShare = 0.03
	littleInput = 0.05
)

// likeUsual is how many times as long as another one a hand-over may be to be like it.
const likeUsual = 3

// pace finds the baseline of waits that keep a pace: where they are not on two levels, all
// of them are normal. A step that waited for a thread of which nothing was known yet says nothing.
func (e *Engine) pace(steps []step, of waitsOf) waitBaseline {
	all := e.scratch.values[:0]
	for i := range steps {
		if x := &steps[i]; !x.unknown {
			all = append(all, weighed{e.sumOf(x.record, of), x.weight})
		}
	}
	e.scratch.values = all
	lower, ok := rises(all)
	if !ok {
		lower = math.MaxInt64 / 2
	}
	return waitBaseline{known: true, ns: lower}
}

// sumOf returns the waits of a step that have a baseline in common.
func (e *Engine) sumOf(r *record, of waitsOf) (ns int64) {
	for i := range r.parts[:r.nparts] {
		if e.waitsOf(&r.parts[i]) == of {
			ns += r.parts[i].ns
		}
	}
	return ns
}
