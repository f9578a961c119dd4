package causal

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// tally sums up what one cause took of a thread's steps. The cause may group several culprits of
// one rule.
type tally struct {
	rule           int
	group          string
	lost, min, max float64 // ns
	slow           float64 // steps
	excess         float64 // ns: of the slow steps
	by             map[uint32]float64
	first, last    *step // slow steps, by time
	worst, counted *step // counted: the last one in slow
	worstLost      int64
	seconds        losses
	spread         bins
	merged         []string // groups of other causes
}

// verdict has the totals of a thread's steps.
type verdict struct {
	s      *series
	steps  []step
	from   int64   // Unix ns
	span   int64   // ns: the observed time
	count  float64 // steps
	excess float64 // ns, of any cause
	rule   [maxRules]float64
	tally  []*tally
}

// claim adds up what claimed parts cost, by rule. Threads of one process lose time in parallel: the
// thread that lost most to a cause represents the process. A thread without real steps is ignored
// if another thread of the process has some. A loss is ignored beside one ten times as large.
func (w *Window) claim() {
	tids := slices.Sorted(maps.Keys(w.e.series))
	var all []Finding
	at := map[string]int{} // in all, by id
	most := map[uint32]int64{}
	for _, tid := range tids {
		s := w.e.series[tid]
		if _, paced := w.main[s.pid]; s.period && paced {
			continue
		}
		for _, x := range w.judgeThread(s) {
			if i, ok := at[x.id]; !ok {
				at[x.id], all = len(all), append(all, x)
			} else if x.Lost > all[i].Lost {
				all[i] = x
			}
			most[x.PID] = max(most[x.PID], x.Lost)
		}
	}
	for _, x := range all {
		if x.Severity == tick.High || x.Lost*10 >= most[x.PID] {
			r := ruleNamed(x.rule.Name)
			w.claimed[r] = append(w.claimed[r], x)
		}
	}
}

// judgeThread returns a finding for each cause that cost a thread enough.
func (w *Window) judgeThread(s *series) []Finding {
	e := w.e
	v := verdict{s: s, steps: w.stepsOf(s.tid)}
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
	e.several(&v)
	e.crowd(&v)
	var out []Finding
	for _, y := range v.tally {
		if v.enough(y) {
			out = append(out, w.finding(&v, y))
		}
	}
	return out
}

// tally adds a slow step to its causes.
func (e *Engine) tally(v *verdict, x *step) {
	if x.lost == 0 && x.max == 0 {
		return
	}
	for _, g := range x.excess() {
		c := &e.causes.list[g.cause]
		rule := int(c.id.rule)
		if !e.slows(x, rule) {
			continue
		}
		y := v.tallyOf(rule, c.group)
		if x.from < c.changed && !slices.Contains(y.merged, c.former) { // the step was in that group
			y.merged = append(y.merged, c.former)
		}
		lost := x.lossBy(g)
		v.rule[rule] += x.weight * lost
		y.lost += x.weight * lost
		lo, hi := x.boundsBy(g)
		y.min += x.weight * lo
		y.max += x.weight * hi
		y.by[g.cause] += x.weight * lost
		y.seconds.add(x.to(), x.weight*lost)
		y.spread.add(x.from, x.to(), x.weight*lost)
		y.count(x)
		y.see(x, int64(lost))
	}
}

// slows reports whether a rule's parts cost a step enough.
func (e *Engine) slows(x *step, rule int) bool {
	lost := 0.0
	for _, g := range x.excess() {
		if int(e.causes.list[g.cause].id.rule) == rule {
			lost += x.lossBy(g)
		}
	}
	return lost >= max(leastSlow, slowShare*float64(x.normal))
}

// count counts a slow step, unless it was the last one counted.
func (y *tally) count(x *step) {
	if y.counted == x {
		return
	}
	y.counted = x
	y.slow += x.weight
	more := max(x.length-x.normal, x.lost)
	if x.period {
		more = x.max // it may not have cost anything
	}
	y.excess += x.weight * float64(more)
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

func (v *verdict) tallyOf(rule int, group string) *tally {
	for _, y := range v.tally {
		if y.rule == rule && y.group == group {
			return y
		}
	}
	y := &tally{rule: rule, group: group, by: map[uint32]float64{}}
	v.tally = append(v.tally, y)
	return y
}

// enough reports whether a cause cost enough for a finding.
func (v *verdict) enough(y *tally) bool {
	r := &Rules[y.rule]
	return (y.lost >= r.Share*float64(v.span) || y.burst() >= burstShare*r.Share*float64(tick.SpreadStep)) && y.lost >= float64(leastLost) &&
		(y.slow >= float64(r.Slow) || y.lost >= float64(decisiveLoss))
}

// siblings adds causes that are too small to report to the largest reported one with the same
// parent process. Example: log rotation runs programs of many names.
func (e *Engine) siblings(v *verdict) {
	reported := slices.DeleteFunc(slices.Clone(v.tally), func(y *tally) bool { return !v.enough(y) })
	v.tally = slices.DeleteFunc(v.tally, func(y *tally) bool {
		p := e.parent(y)
		at := slices.IndexFunc(reported, func(x *tally) bool { return x.rule == y.rule && p > kthreadd && e.parent(x) == p })
		if at < 0 || slices.Contains(reported, y) {
			return false
		}
		reported[at].add(y)
		return true
	})
	for _, y := range reported {
		if len(y.merged) > 0 {
			e.recount(v, y)
		}
	}
}

// parent returns the parent PID of the cause's largest culprit.
func (e *Engine) parent(y *tally) uint32 {
	most, of := 0.0, uint32(0)
	for c, ns := range y.by {
		if ns > most || ns == most && c < of {
			most, of = ns, c
		}
	}
	return e.causes.list[of].thread.Parent
}

// several is the group of a cause that stands for many small ones.
const several = "several"

// several merges the many small causes of a rule into one. Example: a build starts hundreds of
// programs, none of which costs enough. The largest represents them all, unless a reported cause
// outweighs the sum.
func (e *Engine) several(v *verdict) {
	var reported [maxRules]float64
	for _, y := range v.tally {
		if v.enough(y) {
			reported[y.rule] += y.lost
		}
	}
	sums := map[int]*tally{}
	for _, y := range v.tally {
		if v.enough(y) {
			continue
		}
		s := sums[y.rule]
		if s == nil {
			s = &tally{rule: y.rule, group: several, by: map[uint32]float64{}}
			sums[y.rule] = s
		}
		s.add(y)
	}
	for r := range Rules {
		s := sums[r]
		if s == nil || s.lost <= reported[r] {
			continue
		}
		if e.recount(v, s); v.enough(s) {
			v.tally = append(v.tally, s)
		}
	}
}

// unknown returns the extra time of steps without a known cause while levels in were active, ns.
// Where launches were not counted, kinds of steps cannot be told apart. The normal length is then
// that of steps that ended alike while launches were counted, if there are any.
func (v *verdict) unknown(in shed) (ns float64) {
	counted := v.counted()
	for i := range v.steps {
		x := &v.steps[i]
		if x.shed&in == 0 {
			continue
		}
		normal := x.normal
		if n, ok := counted[x.kind>>8]; ok && x.shed&uncounted != 0 {
			normal = min(normal, n.v)
		}
		if more := x.length - normal; more > max(leastSlow, normal/100) {
			ns += x.weight * float64(more-x.lost)
		}
	}
	return max(ns, 0)
}

// counted returns the normal length of the most frequent steps by closing call, from the time when
// launches were counted.
func (v *verdict) counted() map[uint32]weighted {
	sums, most := map[uint32]float64{}, map[uint32]weighted{}
	for i := range v.steps {
		if x := &v.steps[i]; x.shed&uncounted == 0 {
			sums[x.kind] += x.weight
			if end := x.kind >> 8; sums[x.kind] > most[end].w {
				most[end] = weighted{x.normal, sums[x.kind]}
			}
		}
	}
	return most
}

// counterfactual returns the p50 and p99 of the steps, and the p99 without the cause.
func (e *Engine) counterfactual(v *verdict, y *tally) (p50, p99, without int64) {
	steps := e.scratch.values[:0]
	less := make([]weighted, 0, len(v.steps))
	for i := range v.steps {
		x := &v.steps[i]
		var took float64
		for _, g := range x.excess() {
			if _, ok := y.by[g.cause]; ok {
				took += x.lossBy(g)
			}
		}
		steps = append(steps, weighted{x.length, x.weight})
		less = append(less, weighted{x.length - int64(took), x.weight})
	}
	e.scratch.values = steps
	return quantile(steps, 0.5), quantile(steps, 0.99), quantile(less, 0.99)
}

// finding returns the judged finding of what one cause cost a thread.
func (w *Window) finding(v *verdict, y *tally) Finding {
	e, r := w.e, &Rules[y.rule]
	p50, p99, without := e.counterfactual(v, y)
	lost := min(y.lost, float64(v.span)) // a sum over sampled steps can exceed the observed time
	x := Finding{
		PID: v.s.pid, TID: v.s.tid, Op: cmp.Or(e.opOf(y), y.worst.op), Group: y.group, From: y.first.from, To: y.last.to(),
		Lost: int64(lost), Window: v.span, Steps: int(v.count + 0.5), Slow: int(y.slow + 0.5),
		P50: p50, P99: p99, Without: without,
		Severity: severity(lost, float64(v.span)), Confidence: confidence(y), Baseline: e.baselineText(r, y),
		Culprits: e.culprits(v, y), Timeline: e.timeline(v, y),
		excess: int64(max(v.excess, y.lost)), ruledOut: e.ruledOut(v, y), spread: y.spread, peak: y.peak(), judged: true,
	}
	x.assign(r)
	x.spread = w.whole(&x)
	for _, group := range y.merged {
		x.parts = append(x.parts, chainID(x.PID, r.Name, group))
	}
	x.Min, x.Max = r.interval(y.min, lost, y.max, v.span)
	e.weaken(&x, v.unknown(taking(r.Sees|r.Dims)), w.Now())
	return x
}

// confidence returns the share of the slow steps' excess that the cause explains.
func confidence(y *tally) float64 {
	if y.excess <= 0 {
		return 0
	}
	return min(y.lost/y.excess, 1)
}

// opOf returns the operation of a cause, or 0 if it is uncertain.
func (e *Engine) opOf(y *tally) events.Op {
	for _, n := range byLost(y) {
		return e.causes.list[n].id.key.Op
	}
	return 0
}

// byLost returns a cause's culprits, largest first.
func byLost(y *tally) []uint32 {
	list := make([]uint32, 0, len(y.by))
	for n := range y.by {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(y.by[b], y.by[a]), cmp.Compare(a, b))
	})
	return list
}

// culprits returns the culprits that took most.
func (e *Engine) culprits(v *verdict, y *tally) []tick.Culprit {
	var out []tick.Culprit
	for _, n := range byLost(y) {
		if len(out) == maxCulprits {
			break
		}
		x := &e.causes.list[n]
		cpus, path := slices.Clone(x.cpus), x.path.text(v.s.pid)
		if slices.Sort(cpus); path != "" { // most of it was on the CPU of another thread
			cpus = nil
		}
		out = append(out, tick.Culprit{
			Thread: x.thread, Own: x.own, Root: x.root, Agent: e.agent != 0 && x.thread.PID == e.agent,
			What: x.what + x.server.text(), Path: path, CPUs: cpus, Stack: x.place.stack, Lost: time.Duration(y.by[n]),
		})
	}
	return out
}
