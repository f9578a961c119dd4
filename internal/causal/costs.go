package causal

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// stepKind selects steps in which a program does something unnecessary. The cost is how much longer
// these steps are than the others.
type stepKind struct {
	class func(events.Class) bool // the calls
	match func(x *step, u use, p *process) bool
	// allExtra: the cost is all extra time of such a step, not only the time of the calls.
	allExtra bool
	// extra: such a step may be one too many; then all of it is lost.
	extra bool
	// apart: such a step may do none of the others' work (see isApart); then all of it is lost.
	apart bool
	// sameLaunches: the others have about as many launches. An evaluation has other work to do.
	sameLaunches bool
}

// alike returns a number that is the same for the steps to compare a step with.
func (k *stepKind) alike(x *step) uint32 {
	if k.sameLaunches {
		return x.kind
	}
	return uint32(x.op)
}

const (
	minCallsPerSlow = 4       // calls per slow call, at least
	minSlowShare    = 0.8     // of the total time, that the few slow calls must take
	minSlowCall     = 500_000 // ns that each of the few takes at least
	copyCall        = 20_000  // fixed cost of a copy, ns
	slowCopy        = 2       // slowest copy rate, bytes per ns
	maxLossRatio    = 1.5     // bound of a step's loss to calls, as a multiple of their own time
)

// cost is what steps of a kind cost a process's main thread.
type cost struct {
	*process
	steps          float64 // of the kind
	lost, min, max float64 // ns
	own            float64 // own time of the calls that select these steps, ns
	length         float64 // of these steps, ns
	calls          float64
	async          float64 // of own: in calls that only queue GPU work
	slowest, long  float64 // as in use
	first, last    int64   // Unix ns: of steps of the kind
	worst          step
	worstLost      int64
	freed          float64 // of the steps: with freed memory
	compared       bool    // with steps of other kinds
	base           int64
	spread         bins  // of lost
	without        int64 // p99 of all steps without this loss, ns
}

// process has the totals of all steps of a process's main thread.
type process struct {
	pid, tid   uint32
	list       []step
	all        float64 // steps
	from, to   int64   // Unix ns
	p50, p99   int64   // of the steps' lengths, ns
	firstGraph int64   // Unix ns: first known graph launch; 0: none
	costs      map[*stepKind]*cost
}

func (p *process) span() int64 { return max(p.to-p.from, 1) }

// use sums up a step's calls of some operations.
type use struct {
	ns      int64
	calls   uint32
	most    uint64 // bytes of the largest copy: its power of two
	async   int64  // of ns: in calls that only queue GPU work
	slowest uint32 // of calls: the few slow ones that took nearly all of the time
	long    int64  // of ns: in the few slow calls
}

func (x *step) use(selects func(events.Class) bool) (u use) {
	for _, o := range x.own[:x.nown] {
		class := classOf(o.op)
		if selects(class) {
			ns := o.ns
			if class == events.ClassMemcpy { // any longer copy waited for earlier GPU work
				ns = min(ns, int64(o.seen)*(copyCall+(1<<o.size)/slowCopy))
			}
			u.ns += ns
			if o.op.Row().Has(events.RoleStream) {
				u.async += ns
			}
			u.calls += o.seen
			if o.slowest*minCallsPerSlow <= o.seen {
				u.slowest += o.slowest
				u.long += o.long
			}
			u.most = max(u.most, 1<<o.size)
		}
	}
	return u
}

func classOf(op events.Op) events.Class {
	if r := op.Row(); r != nil {
		return r.Class
	}
	return events.ClassOther
}

func mallocOp(c events.Class) bool { return c == events.ClassMalloc }
func freeOp(c events.Class) bool   { return c == events.ClassFree }
func memoryOp(c events.Class) bool { return c == events.ClassMalloc || c == events.ClassFree }
func copyOp(c events.Class) bool   { return c == events.ClassMemcpy }
func launchOp(c events.Class) bool { return c == events.ClassLaunch }
func graphOp(c events.Class) bool  { return c == events.ClassGraph }
func noOp(events.Class) bool       { return false }

// process returns the totals of a process's steps.
func (w *Window) process(pid uint32) *process {
	if p, ok := w.processes[pid]; ok {
		return p
	}
	p := &process{pid: pid, costs: map[*stepKind]*cost{}}
	w.processes[pid] = p
	p.tid, p.list = w.steps(pid)
	lengths := make([]weighted, 0, len(p.list))
	b, launching := w.History(pid), measuring(graphLaunch)
	for i := range p.list {
		x := &p.list[i]
		p.all += x.weight
		lengths = append(lengths, weighted{x.length, x.weight})
		if p.from == 0 || x.from < p.from {
			p.from = x.from
		}
		p.to = max(p.to, x.to())
		x.graph = x.shed&launching != 0 && b != nil && b.graphs(x.to())
		if x.graphs() && (p.firstGraph == 0 || x.to() < p.firstGraph) {
			p.firstGraph = x.to()
		}
	}
	p.p50, p.p99 = quantile(lengths, 0.5), quantile(lengths, 0.99)
	return p
}

// cost returns what steps of a kind cost a process.
func (w *Window) cost(pid uint32, kind *stepKind) *cost {
	p := w.process(pid)
	y, ok := p.costs[kind]
	if !ok {
		y = &cost{process: p}
		y.count(w.e, kind)
		p.costs[kind] = y
	}
	return y
}

// count adds up the cost of a kind.
func (y *cost) count(e *Engine, kind *stepKind) {
	steps, less := y.list, make([]weighted, len(y.list))
	rest := map[uint32]*peers{} // the other steps, by what they have alike
	var at []int
	for i := range steps {
		x := &steps[i]
		less[i] = weighted{x.length, x.weight}
		if x.period {
			continue
		}
		if kind.match(x, x.use(kind.class), y.process) {
			y.steps += x.weight
			at = append(at, i)
			continue
		}
		n := kind.alike(x)
		if rest[n] == nil {
			rest[n] = &peers{}
		}
		rest[n].push(x, x.length-int64(e.others(x, kind.class, kind.allExtra)))
	}
	for n, p := range rest {
		if len(p.lengths) < minFree {
			delete(rest, n)
			continue
		}
		p.length, p.wait = quantile(thin(p.lengths), 0.5), quantile(thin(p.waits), 0.5)
	}
	for _, i := range at {
		x := &steps[i]
		p := rest[kind.alike(x)]
		if p != nil {
			y.compared, y.base = true, p.length
		}
		less[i].v -= y.add(x, x.use(kind.class), p, int64(e.others(x, kind.class, kind.allExtra)), kind)
	}
	y.without = quantile(less, 0.99)
}

// peers are the steps that steps of a kind are compared with.
type peers struct {
	lengths, waits []weighted // waits: for the GPU
	length, wait   int64      // medians, ns
}

func (p *peers) push(x *step, length int64) {
	p.lengths = append(p.lengths, weighted{length, x.weight})
	p.waits = append(p.waits, weighted{x.gpu, x.weight})
}

// others returns what a step lost to causes other than its own calls selected by class. With
// allExtra, it returns what the step lost to causes other than any of its calls, and its waits for
// data: a server without requests waits in the middle of a step.
func (e *Engine) others(x *step, class func(events.Class) bool, allExtra bool) (ns float64) {
	if allExtra {
		ns = float64(x.awaited)
	}
	for _, g := range x.excess() {
		if c := &e.causes.list[g.cause]; !c.call || !allExtra && !class(classOf(c.id.key.Op)) {
			ns += x.lossBy(g)
		}
	}
	return ns
}

// isApart reports whether a step did none of the work of its peers: it launched no graph, and waited
// for the GPU less than half as long.
func (x *step) isApart(from *peers) bool {
	return !x.graphs() && !x.graphsUnknown && 2*x.gpu < from.wait
}

// add counts a step of the kind and returns its loss. Without other steps to compare with, the GPU
// may have hidden the time of the calls, up to the closing call's wait.
func (y *cost) add(x *step, u use, from *peers, others int64, kind *stepKind) int64 {
	all := x.length - others
	lost := all
	if from != nil {
		lost -= from.length
	}
	lo, hi := lost, lost
	switch {
	case from == nil && u.ns > 0:
		lo, hi = max(u.ns-x.gpu, 0), u.ns
		lost = (lo + hi) / 2
	case from == nil:
		lo, lost = 0, 0
	case kind.apart && x.isApart(from):
		lost, hi = all, all
	case kind.extra:
		hi = all
	case !kind.allExtra:
		lost = min(lost, int64(maxLossRatio*float64(u.ns)))
		lo, hi = lost, lost
	}
	y.lost += x.weight * float64(max(lost, 0))
	y.min += x.weight * float64(max(lo, 0))
	y.max += x.weight * float64(max(hi, 0))
	y.see(x, u, max(lost, 0))
	return max(lost, 0)
}

func (y *cost) see(x *step, u use, lost int64) {
	y.spread.add(x.from, x.to(), x.weight*float64(lost))
	y.own += x.weight * float64(u.ns)
	y.length += x.weight * float64(x.length)
	y.calls += x.weight * float64(u.calls)
	y.async += x.weight * float64(u.async)
	y.slowest += x.weight * float64(u.slowest)
	y.long += x.weight * float64(u.long)
	if x.marks&ledger.MarkFree != 0 {
		y.freed += x.weight
	}
	if y.first == 0 || x.from < y.first {
		y.first = x.from
	}
	y.last = max(y.last, x.to())
	if y.worst.record == nil || lost > y.worstLost {
		y.worst, y.worstLost = *x, lost
	}
}

// finding returns a finding of the cost.
func (y *cost) finding(what string) Finding {
	x := Finding{
		PID: y.pid, TID: y.tid, From: y.first, To: y.last, Window: y.span(),
		Lost: int64(y.lost), Min: int64(min(y.min, y.lost)), Max: int64(max(y.max, y.lost)), Steps: int(y.all + 0.5), Slow: int(y.steps + 0.5),
		P50: y.p50, P99: y.p99, Without: y.without, Confidence: 0.9, Baseline: "steps of this run without it",
		Culprits: []tick.Culprit{{What: what, Lost: time.Duration(y.lost)}}, spread: y.spread,
	}
	x.fitSpread()
	if y.worst.record != nil {
		x.Timeline = append(x.Timeline, moment(y.worst.from, "CUDA", "a step of %s", span(y.worst.length)))
	}
	if !y.compared {
		x.Confidence, x.Baseline = 0.6, "the duration of the calls, because every step has them"
	}
	return x
}

// costly returns a Find of the cost of a kind of steps, for processes with at least least such
// steps. of selects the operation that the finding names; what describes the calls.
func costly(kind *stepKind, least float64, class func(events.Class) bool, what func(y *cost) string) func(*Window) []Finding {
	return eachProcess(5e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, kind)
		if y.steps < least || y.isSkewed() { // slowCalls reports these
			return x, false
		}
		x = y.finding(what(y))
		x.Op = y.worstOp(class)
		return x, true
	})
}

// isSkewed reports whether a few calls took nearly all of the time.
func (u *use) isSkewed() bool {
	return u.slowest > 0 && float64(u.long) >= minSlowShare*float64(u.ns) && u.long >= minSlowCall*int64(u.slowest)
}

func (y *cost) isSkewed() bool {
	return y.slowest > 0 && y.long >= minSlowShare*y.own && y.long >= minSlowCall*y.slowest
}

// slowCalls returns a Find of the cost of the few slow calls of a class among many in a step.
func slowCalls(class func(events.Class) bool) func(*Window) []Finding {
	kind := stepKind{class: class, match: func(_ *step, u use, _ *process) bool { return u.isSkewed() }}
	return eachProcess(5e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, &kind)
		if y.steps < minSlowSteps {
			return x, false
		}
		x = y.finding("")
		x.Op = y.worstOp(class)
		x.Group = "few"
		x.Culprits[0].What = fmt.Sprintf("%.0f of %.0f %s a step: %s of %s in all",
			max(y.slowest/y.steps, 1), y.calls/y.steps, x.Op, span(int64(y.long/y.steps)), span(int64(y.own/y.steps)))
		return x, true
	})
}

// minSlowSteps is the minimum number of steps with few slow calls.
const minSlowSteps = 10

// better returns the findings of a, and those of b for other processes or with a larger loss.
func better(a, b func(*Window) []Finding) func(*Window) []Finding {
	return func(w *Window) []Finding {
		first := a(w)
		out := first
		for _, x := range b(w) {
			reported := func(o Finding) bool {
				return o.PID == x.PID && float64(o.Lost) >= minSlowShare*float64(x.Lost) && float64(o.Lost) >= Rules[w.running].Share*float64(o.Window)
			}
			if !slices.ContainsFunc(first, reported) {
				out = append(out, x)
			}
		}
		return out
	}
}

// worstOp returns the operation that took most of the worst step among the selected calls, or 0.
func (y *cost) worstOp(class func(events.Class) bool) (op events.Op) {
	if y.worst.record == nil {
		return 0
	}
	most := int64(0)
	for _, o := range y.worst.own[:y.worst.nown] {
		if class(classOf(o.op)) && o.ns > most {
			op, most = o.op, o.ns
		}
	}
	return op
}
