package causal

import (
	"cmp"
	"slices"

	"ingero/internal/govern"
)

// baselineKey identifies waits that share a baseline: those of one rule and one kind of baseline.
type baselineKey struct {
	how  baseline
	rule uint8
}

func (e *Engine) baselineKey(p *part) baselineKey {
	c := &e.causes.list[p.cause]
	return baselineKey{c.baseline, c.id.rule}
}

// waitBaseline is the baseline of the waits of one baselineKey in a step.
type waitBaseline struct {
	known bool
	ns    int64
	most  int64 // 90th percentile of the usual waits, ns; 0: same as ns
	mixed bool  // unknown, as steps of several kinds cannot be told apart
	// around has the largest mean of a run of steps with each step, ns: it counts instead of the step's
	// own waits, from `from` on. nil: the step's own waits count.
	around []int64
	from   int64
}

// exceeded reports whether waits of ns nanoseconds are beyond what is usual.
func (u *waitBaseline) exceeded(ns int64) bool {
	if u.around != nil {
		return ns >= u.from
	}
	most := max(u.ns, u.most)
	return ns-most >= max(most, leastGrowth)
}

// excessOfWaits adds the excess of waits to the steps of a process.
func (e *Engine) excessOfWaits(steps []step, pid uint32) {
	normal := e.baselines(steps)
	for i := range steps {
		x := &steps[i]
		starts := x.early && e.starting(pid, x.from)
		for _, p := range x.parts[:x.nparts] {
			key := e.baselineKey(&p)
			if starts && Rules[key.rule].Claims.Started && e.causes.list[p.cause].ofJob {
				continue
			}
			if key.how == baselineZero {
				x.add(excess(p))
				continue
			}
			u := normal[key]
			if u.mixed {
				continue
			}
			all := e.sumOf(x.record, key)
			if u.around != nil {
				all = u.around[i]
			}
			if u.known && u.exceeded(all) || !u.known && key.how.elseZero() {
				p.ns = int64(float64(p.ns) * float64(all-u.ns) / float64(all))
				x.add(excess(p))
			}
		}
	}
}

// starting reports whether ingero has seen a process from its start and at is within its start.
func (e *Engine) starting(pid uint32, at int64) bool {
	b := e.histories[pid]
	return b != nil && !b.MissedCalls && b.Mapped != 0 && at < cmp.Or(b.Called, b.First)+startSpan
}

// baselines finds the baselines of the waits in the steps. With fewer than minLearn steps there are
// none.
func (e *Engine) baselines(steps []step) map[baselineKey]waitBaseline {
	if e.scratch.normal == nil {
		e.scratch.normal = map[baselineKey]waitBaseline{}
	}
	normal := e.scratch.normal
	clear(normal)
	if len(steps) < minLearn {
		return normal
	}
	for i := range steps {
		x := steps[i].record
		for j := range x.parts[:x.nparts] {
			key := e.baselineKey(&x.parts[j])
			if _, ok := normal[key]; !ok && key.how != baselineZero {
				normal[key] = e.baseline(steps, key)
			}
		}
	}
	return normal
}

// baseline finds the baseline of waits: the low quantile of the steps, or the lower level if the
// steps have two levels and all parts of the window have such waits.
func (e *Engine) baseline(steps []step, key baselineKey) (u waitBaseline) {
	switch key.how {
	case baselinePace:
		return e.pace(steps, key)
	case baselineShared:
		return e.shared(steps, key)
	}
	u.known = !key.how.elseZero()
	all := e.scratch.values[:0]
	var some, any []weighted
	for i := range steps {
		x := weighted{e.sumOf(steps[i].record, key), steps[i].weight}
		all = append(all, x)
		if x.v > 0 {
			any = append(any, x)
		}
		if x.v >= leastSlow {
			some = append(some, x)
		}
	}
	e.scratch.values = all
	if usual := e.usual(key.how, any, all); usual.known || key.how == baselineLittle {
		return usual
	}
	u.mixed = key.how == baselineHandOver && e.mixed(steps[0].kind>>8, key)
	usual, often := int64(0), throughout(all) // before thin and quantile lose the time order
	if key.how == baselineHabit || key.how == baselineHandOver {
		usual = e.habit(all, steps)
		if key.how == baselineHandOver && !isShort(usual, steps) {
			usual = 0
		}
	}
	if u.known {
		u.ns = quantile(thin(all), baselineQuantile)
	}
	if lower, ok := levels(some); ok && often {
		u.ns, u.known = max(u.ns, lower), true
	} else {
		u.ns = max(u.ns, usual)
	}
	return u
}

// mixed reports whether the thread's steps with a closing call may be of several kinds, one of which
// usually waits. Without counts of launches, these differ only in CPU time.
func (e *Engine) mixed(closing uint32, key baselineKey) bool {
	if !slices.ContainsFunc(e.unseen, func(u unseen) bool { return u.sheds&govern.LaunchCounts != 0 }) {
		return false
	}
	var waiting, others []weighted
	for i := range e.scratch.thread {
		x := &e.scratch.thread[i]
		switch {
		case x.kind>>8 != closing || x.shed&uncounted == 0:
		case e.sumOf(x.record, key) >= leastSlow:
			waiting = append(waiting, weighted{x.cpu, x.weight})
		default:
			others = append(others, weighted{x.cpu, x.weight})
		}
	}
	a, b := quantile(waiting, 0.5), quantile(others, 0.5)
	return len(waiting) > 0 && len(others) > 0 && float64(max(a, b)) > otherKind*float64(min(a, b))
}

// otherKind is the smallest ratio of the CPU times of steps of two kinds.
const otherKind = 1.2

// habit returns the usual duration of recurring waits that are not in each step. They recur
// throughout the window, vary little, are shorter than a step, and take a small share of the time.
// It returns 0 for other waits. all has one value per step, in time order.
func (e *Engine) habit(all []weighted, steps []step) int64 {
	if len(all) < habitStretches*leastBin || !throughout(all) {
		return 0
	}
	var some []weighted
	var times float64
	for _, x := range all {
		if x.v >= leastSlow {
			some = append(some, x)
			times += x.w
		}
	}
	lengths := make([]weighted, len(steps))
	for i := range steps {
		lengths[i] = weighted{steps[i].length, steps[i].weight}
	}
	some = thin(some)
	usual := quantile(some, 0.25)
	if likeUsual*quantile(some, 0.1) < quantile(some, 0.5) || usual >= quantile(thin(lengths), 0.5) || times*float64(usual) >= littleShare*e.scratch.span {
		return 0
	}
	return usual
}

// isShort reports whether a wait takes at most a quarter of most steps.
func isShort(ns int64, steps []step) bool {
	const part = 4
	short, all := 0.0, 0.0
	for i := range steps {
		if all += steps[i].weight; part*ns <= steps[i].length {
			short += steps[i].weight
		}
	}
	return 2*short > all
}

// throughout reports whether each part of the window has such waits. all has one value per step, in time order.
func throughout(all []weighted) bool {
	for i := range habitStretches {
		part := all[i*len(all)/habitStretches : (i+1)*len(all)/habitStretches]
		if !slices.ContainsFunc(part, func(x weighted) bool { return x.v >= leastSlow }) {
			return false
		}
	}
	return true
}

// habitStretches is the number of equal parts of the window that must each contain a wait of a
// habit.
const habitStretches = 8

// usual returns how long a thread usually waits for another thread. The result is unknown if such
// waits are not normal. A hand-over is in most steps, and is about as long each time, or longer. A
// lock that is held at times is not a hand-over: only a short rest of the holding time may be left
// to wait for. Waits that vary are normal if their share is small.
func (e *Engine) usual(how baseline, waits, steps []weighted) (u waitBaseline) {
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

// Waits below this share of a thread's time are small. For input waits the share is that of the
// rule input-wait.
const (
	littleShare = 0.03
	littleInput = 0.05
)

// likeUsual is the largest ratio between two similar hand-overs.
const likeUsual = 3

// shared finds the baseline of waits for the job's own threads. Threads take CPUs from each other, in one
// step more than in the next, so the mean of the steps around a step counts. The mean of the lowest level is
// usual. Without a higher level, the median is usual, up to twice its value. Nothing is usual if threads
// take much from each other at all times, or nothing for a while. Steps in which others took the CPUs do
// not tell what is usual: the threads could not take them meanwhile.
func (e *Engine) shared(steps []step, key baselineKey) waitBaseline {
	all, lowSteps := e.untaken(steps)
	low := e.sums(lowSteps, key)
	size := runSize(len(low))
	sorted, from := slices.Sorted(slices.Values(smooth(low, size))), int64(0)
	for { // there may be several higher levels
		l, ok := lowerLevel(low, size)
		if !ok {
			break
		}
		low, lowSteps, from = runsOf(low, l.starts, size), runsOf(lowSteps, l.starts, size), int64(l.below)
	}
	var waited, length, count float64
	for i, w := range low {
		waited += w.w * float64(w.v)
		length += w.w * float64(lowSteps[i].length)
		count += w.w
	}
	if waited >= muchShared*length || from == 0 && sorted[len(sorted)/10] < leastSlow {
		return waitBaseline{}
	}
	usual := int64(waited / count)
	if from == 0 {
		usual = sorted[len(sorted)/2]
		from = usual + max(usual, leastGrowth)
	}
	return waitBaseline{known: true, ns: usual, around: highest(smooth(e.sums(all, key), size), size/2), from: from}
}

// untaken returns all steps, and those around which only the job's own threads took much CPU time. If these
// are few, it returns all twice.
func (e *Engine) untaken(steps []step) (all, out []sample) {
	taken := make([]weighted, len(steps))
	for i := range steps {
		x := steps[i].sample
		all, taken[i].w = append(all, x), x.weight
		for _, p := range x.parts[:x.nparts] {
			if e.causes.list[p.cause].baseline == baselineZero {
				taken[i].v += p.ns
			}
		}
	}
	for i, ns := range smooth(taken, runSize(len(taken))) {
		if ns < max(leastSlow, all[i].length/100) {
			out = append(out, all[i])
		}
	}
	if len(out) < minLearn || float64(len(out)) < freeShare*float64(len(all)) {
		return all, all
	}
	return all, out
}

// sums returns the sum of each step's waits that share a baseline.
func (e *Engine) sums(steps []sample, key baselineKey) []weighted {
	out := make([]weighted, len(steps))
	for i, x := range steps {
		out[i] = weighted{e.sumOf(x.record, key), x.weight}
	}
	return out
}

// maxStretches bounds the runs of steps whose means are compared: short ones vary more.
const maxStretches = 32

func runSize(steps int) int { return max(stretchSize(steps), steps/maxStretches) }

// muchShared is the share of the time from which threads that always take CPUs from each other cost the
// job something.
const muchShared = 0.1

// hasWaits reports whether a step has waits of a rule.
func (e *Engine) hasWaits(r *record, rule uint8) bool {
	return slices.ContainsFunc(r.parts[:r.nparts], func(p part) bool { return e.causes.list[p.cause].id.rule == rule })
}

// sumOf returns the sum of a step's waits that share a baseline, ns.
func (e *Engine) sumOf(r *record, key baselineKey) (ns int64) {
	for i := range r.parts[:r.nparts] {
		if e.baselineKey(&r.parts[i]) == key {
			ns += r.parts[i].ns
		}
	}
	return ns
}
