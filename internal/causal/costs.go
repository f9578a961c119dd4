package causal

import (
	"slices"

	"ingero/internal/ledger"
	"ingero/pkg/events"
)

// costKind tells steps apart in which a program does something that it need not do, and
// says what that costs: what these steps take longer than its others.
type costKind uint8

// The kinds.
const (
	costStorm   costKind = iota // many allocations and frees
	costCopies                  // copies that the thread waits for, or makes itself
	costPieces                  // many small copies
	costCapture                 // a graph is captured, after one was launched
	costNoRoom                  // an allocation fails for want of memory
	costNoGraph                 // launches one by one, as many as a graph would make at once
	costUpload                  // memory is freed, allocated, and filled from the host
	costSync                    // waits for the GPU after each launch or two
	costKinds
)

// Limits of the kinds.
const (
	stormCalls   = 16 // allocations and frees in a step
	manyPieces   = 32 // copies in a step
	pieceBytes   = 64 << 10
	copyShare    = 0.10 // of a step
	syncStep     = 500_000
	manyLaunches = 8      // in a step that waits once
	copyCall     = 20_000 // ns that a copy takes beside its bytes
	slowCopy     = 2      // bytes a ns that any copy makes
	wholeTimes   = 1.5    // what a step may lose to calls, of their own time
)

// cost is what steps of a kind have cost a process's main thread.
type cost struct {
	steps          float64 // of the kind
	lost, min, max float64 // ns
	own            float64 // time of the calls that make them so, ns
	length         float64 // of these steps, ns
	calls          float64
	async          float64 // of own: in calls that only give the GPU work
	first, last    int64   // Unix ns: of the kind
	worst          step
	worstLost      int64
	freed          float64 // of the steps: in which memory was freed
	compared       bool    // with steps that are not of the kind
	base           int64
	without        int64 // p99 of all steps without what these lost, ns
}

// costs are those of a process.
type costs struct {
	tid        uint32
	all        float64 // steps
	from, to   int64   // Unix ns
	p50, p99   int64   // of the steps' lengths, ns
	eager      eager
	firstGraph int64 // Unix ns: when a graph was launched first, of what is known; 0: none
	of         [costKinds]cost
}

func (c *costs) span() int64 { return max(c.to-c.from, 1) }

// use is what a step's calls of some operations came to.
type use struct {
	ns    int64
	calls uint32
	large bool  // a copy of more than pieceBytes
	async int64 // of ns: in calls that only give the GPU work
}

func (x *step) use(of func(events.Class) bool) (u use) {
	for _, o := range x.own[:x.nown] {
		class := classOf(o.op)
		if of(class) {
			ns := o.ns
			if class == events.ClassMemcpy { // what is longer was a wait for what the GPU had to do before
				ns = min(ns, int64(o.seen)*(copyCall+(1<<o.size)/slowCopy))
			}
			u.ns += ns
			if o.op.Row().Has(events.RoleStream) {
				u.async += ns
			}
			u.calls += o.seen
			u.large = u.large || 1<<o.size > 2*pieceBytes
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

func memoryOp(c events.Class) bool { return c == events.ClassMalloc || c == events.ClassFree }
func copyOp(c events.Class) bool   { return c == events.ClassMemcpy }
func launchOp(c events.Class) bool { return c == events.ClassLaunch }
func noOp(events.Class) bool       { return false }

// costRow says what a kind is.
type costRow struct {
	of func(events.Class) bool // the calls
	is func(x *step, u use, c *costs) bool
	// whole: all that such a step takes longer counts, not only what the calls took.
	whole bool
	// extra: such a step may be one more than there would be: then all of it is lost.
	extra bool
}

var costRows = [costKinds]costRow{
	costStorm:  {of: memoryOp, is: func(_ *step, u use, _ *costs) bool { return u.calls >= stormCalls }},
	costCopies: {of: copyOp, is: func(x *step, u use, _ *costs) bool { return float64(u.ns) >= copyShare*float64(x.length) }},
	costPieces: {of: copyOp, is: func(_ *step, u use, _ *costs) bool { return u.calls >= manyPieces && !u.large }, whole: true},
	costCapture: {of: noOp, whole: true, is: func(x *step, _ use, c *costs) bool {
		return x.marks&ledger.MarkCapture != 0 && c.firstGraph != 0 && x.to() > c.firstGraph
	}},
	costNoRoom: {of: noOp, whole: true, extra: true, is: func(x *step, _ use, _ *costs) bool { return x.marks&(ledger.MarkNoMemory|markAfter) != 0 }},
	costNoGraph: {of: launchOp, whole: true, is: func(x *step, _ use, c *costs) bool {
		return !x.graphs() && x.launches > 1 && x.gpu*3 < x.length
	}},
	costUpload: {of: noOp, whole: true, is: func(x *step, _ use, _ *costs) bool {
		const swap = ledger.MarkAlloc | ledger.MarkFree | ledger.MarkUpload
		return x.marks&swap == swap
	}},
	costSync: {of: noOp, is: func(x *step, _ use, _ *costs) bool {
		return !x.graphs() && x.launches >= 1 && x.launches <= 2 && x.length < syncStep
	}},
}

// costs returns what the steps of a process's main thread have cost by kind.
func (w *Window) costs(pid uint32) *costs {
	if c, ok := w.costed[pid]; ok {
		return c
	}
	c := &costs{}
	w.costed[pid] = c
	tid, steps := w.steps(pid)
	c.tid = tid
	lengths := make([]weighed, 0, len(steps))
	b, launching := w.Book(pid), measuring(graphLaunch)
	for i := range steps {
		x := &steps[i]
		c.all += x.weight
		lengths = append(lengths, weighed{x.length, x.weight})
		if c.from == 0 || x.from < c.from {
			c.from = x.from
		}
		c.to = max(c.to, x.to())
		x.graph = x.shed&launching != 0 && b != nil && b.graphs(x.to())
		if x.graphs() && (c.firstGraph == 0 || x.to() < c.firstGraph) {
			c.firstGraph = x.to()
		}
	}
	c.eager = eagerOf(steps, c)
	c.p50, c.p99 = quantile(lengths, 0.5), quantile(lengths, 0.99)
	for k := range costRows {
		if costKind(k) == costSync {
			c.syncs(steps)
			continue
		}
		c.count(w.e, steps, costKind(k), slices.Clone(lengths))
	}
	return c
}

// count adds up the cost of a kind. less is scratch memory for as many values as there are
// steps.
func (c *costs) count(e *Engine, steps []step, kind costKind, less []weighed) {
	row, y := &costRows[kind], &c.of[kind]
	var rest [][]weighed // lengths of the other steps, by closing call
	var ops []events.Op
	var at []int
	for i := range steps {
		x := &steps[i]
		less[i] = weighed{x.length, x.weight}
		if x.period {
			continue
		}
		if row.is(x, x.use(row.of), c) {
			y.steps += x.weight
			at = append(at, i)
			continue
		}
		n := indexOf(&ops, x.op)
		if n == len(rest) {
			rest = append(rest, nil)
		}
		rest[n] = append(rest[n], weighed{x.length - int64(e.others(x, row.of, row.whole)), x.weight})
	}
	for _, i := range at {
		x := &steps[i]
		base := int64(-1)
		if n := indexOf(&ops, x.op); n < len(rest) && len(rest[n]) >= minFree {
			base = quantile(thin(rest[n]), 0.5)
			y.compared, y.base = true, base
		}
		less[i].v -= y.add(x, x.use(row.of), base, int64(e.others(x, row.of, row.whole)), row)
	}
	y.without = quantile(less, 0.99)
}

// indexOf returns where an operation is in a list, at its end where it was not.
func indexOf(ops *[]events.Op, op events.Op) int {
	for i, o := range *ops {
		if o == op {
			return i
		}
	}
	*ops = append(*ops, op)
	return len(*ops) - 1
}

// others is what a step lost to other causes than its own calls of some operations; with
// whole, than any calls of its own.
func (e *Engine) others(x *step, of func(events.Class) bool, whole bool) (ns float64) {
	for _, g := range x.excess() {
		if c := &e.causes.list[g.cause]; !c.call || !whole && !of(classOf(c.id.key.Op)) {
			ns += x.lossBy(g)
		}
	}
	return ns
}

// add counts a step of the kind. Without others to compare with, the GPU may have hidden
// what its calls took, as far as the closing call waited for it. It returns what was lost.
func (y *cost) add(x *step, u use, base, others int64, row *costRow) int64 {
	lost := x.length - others - base
	lo, hi := lost, lost
	switch {
	case base < 0 && u.ns > 0:
		lo, hi = max(u.ns-x.gpu, 0), u.ns
		lost = (lo + hi) / 2
	case base < 0:
		lo, hi, lost = 0, x.length-others, 0
	case row.extra:
		hi = x.length - others
	case !row.whole:
		lost = min(lost, int64(wholeTimes*float64(u.ns)))
		lo, hi = lost, lost
	}
	y.lost += x.weight * float64(max(lost, 0))
	y.min += x.weight * float64(max(lo, 0))
	y.max += x.weight * float64(max(hi, 0))
	y.see(x, u, max(lost, 0))
	return max(lost, 0)
}

func (y *cost) see(x *step, u use, lost int64) {
	y.own += x.weight * float64(u.ns)
	y.length += x.weight * float64(x.length)
	y.calls += x.weight * float64(u.calls)
	y.async += x.weight * float64(u.async)
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

// syncs adds up what waiting after each launch costs: the GPU idles while the host makes
// the next launch, and the host while the GPU works, where both could work at a time. Where
// the thread has steps of many launches too, these say what a launch takes.
func (c *costs) syncs(steps []step) {
	y := &c.of[costSync]
	var host, gpu, launches float64
	var waits, each []weighed
	for i := range steps {
		x := &steps[i]
		switch {
		case x.period:
		case costRows[costSync].is(x, use{}, c):
			y.steps += x.weight
			host += x.weight * float64(x.length-x.gpu)
			gpu += x.weight * float64(x.gpu)
			launches += x.weight * float64(x.launches)
			waits = append(waits, weighed{x.gpu, x.weight})
			y.see(x, use{}, x.length)
		case x.launches >= manyLaunches:
			each = append(each, weighed{x.length / int64(x.launches), x.weight})
		}
	}
	y.own, y.without = host+gpu, c.p99
	if len(each) >= minFree {
		y.compared, y.base = true, quantile(each, 0.5)
		y.lost = max(host+gpu-launches*float64(y.base), 0)
		y.min, y.max = y.lost, y.lost
		return
	}
	// The shortest waits are what the GPU itself takes; others are the way there and back.
	work := y.steps * float64(quantile(waits, low))
	y.lost = host + gpu - max(host, work)
	y.min, y.max = min(host, gpu), gpu
}
