package diff

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/pkg/events"
)

// Result has the differences between run A and run B.
type Result struct {
	A, B         *Run
	Pairs        []Pair // largest difference first
	OnlyA, OnlyB []Role // missing in the other run
}

// Pair has the differences of one role's processes.
type Pair struct {
	RoleA, RoleB Role
	Anchor       events.Op // the calls that are steps; 0: both runs have none, and nothing is compared
	A, B         Side
	Step         Effect
	Parts        []Effect // parts of the ledger, in order; none if it was not recorded
	Within       []Effect // contents of the parts, largest change first
	Counts       []Effect // calls per step
	Calls        []CallChange
	Short        bool // a run is too short to tell a difference from chance
	NoDetail     bool // culprits are unknown: the records are gone
}

// Side is the data of a pair in one run.
type Side struct {
	PIDs     []uint32
	From, To time.Time // without the warm-up
	Steps    uint64
	Warm     time.Duration // excluded warm-up
	Stalls   time.Duration // excluded stalls
	Threads  int           // with steps
}

// CallChange is the call time of an operation in both runs.
type CallChange struct {
	Op       events.Op
	A, B     uint64 // calls
	DurA     *stats.Sketch
	DurB     *stats.Sketch
	TimeA    float64 // ns per step, of outermost calls
	TimeB    float64
	OncesA   float64 // calls per step
	OncesB   float64
	Findings int // of effects of the operation
}

// Compare returns the differences between two runs.
func Compare(ctx context.Context, a, b *Run) (*Result, error) {
	r := &Result{A: a, B: b}
	var pairs []pairing
	pairs, r.OnlyA, r.OnlyB = pair(a, b)
	var as, bs []*collected
	for _, p := range pairs {
		as, bs = append(as, &collected{role: p.a, anchor: p.anchor}), append(bs, &collected{role: p.b, anchor: p.anchor})
	}
	ca, err := a.collect(ctx, as)
	if err != nil {
		return nil, err
	}
	cb, err := b.collect(ctx, bs)
	if err != nil {
		return nil, err
	}
	var steps []*Effect
	for i, p := range pairs {
		x := Pair{RoleA: p.a.Role, RoleB: p.b.Role, Anchor: p.anchor}
		if p.anchor != 0 {
			left, right := ca.side(as[i], false), cb.side(bs[i], false)
			if left.wall != right.wall { // a step means the same in both
				left, right = ca.side(as[i], true), cb.side(bs[i], true)
			}
			x.compare(left, right)
			x.calls(p.a, p.b)
		}
		r.Pairs = append(r.Pairs, x)
	}
	for i := range r.Pairs {
		if r.Pairs[i].Anchor != 0 {
			steps = append(steps, &r.Pairs[i].Step)
		}
	}
	holm(steps)
	slices.SortStableFunc(r.Pairs, func(x, y Pair) int {
		if x.Step.Found != y.Step.Found {
			return before(x.Step.Found)
		}
		if !x.Step.Found {
			return 0
		}
		return cmp.Compare(math.Abs(y.Relative()), math.Abs(x.Relative()))
	})
	return r, nil
}

// Relative returns the relative growth of the step length from A to B.
func (p *Pair) Relative() float64 {
	if p.Step.A == 0 {
		return 0
	}
	return p.Step.Delta() / p.Step.A
}

// run is one side of a pair, ready to be tested.
type run struct {
	Side
	wall           bool // a step's time is that of the processes: there are no threads' accounts
	blocks, slices *side
}

// side makes the series of a role from its threads with steps; with wall, from how long its
// processes made steps, as it does without accounts. Blocks whose accounts are deleted have no steps.
func (c *collector) side(x *collected, wall bool) *run {
	blocks, parts := newSeries(c.n), newSeries(c.m)
	most := 0.0
	for _, t := range x.threads {
		most = max(most, t.anchors)
	}
	out := &run{Side: Side{PIDs: slices.Clone(x.pids)}}
	for _, t := range x.threads {
		if t.anchors >= mainShare*most && most > 0 {
			out.Threads++
			blocks.merge(t.blocks)
			parts.merge(t.slices)
		}
	}
	block := int64(c.Run.every)
	for i := range c.n {
		blocks.At[i] = c.start + int64(i)*block
	}
	for i := range c.m {
		parts.At[i] = c.start + int64(i)*c.every
		parts.add(i, StepKey, float64(sliceLength)*float64(max(out.Threads, 1)))
	}
	out.wall = wall || blocks.Values[StepKey] == nil
	lives := map[uint32]life{}
	for i := range x.ops {
		o := &x.ops[i]
		at := int((o.Time.UnixNano() - c.start) / block)
		if at < 0 || at >= c.n || !out.wall && blocks.Values[StepKey][at] == 0 {
			continue
		}
		share := x.sums[o.Op].outermost(&o.Sum)
		calls := share * float64(o.Sum.Calls)
		if o.Op == x.anchor {
			blocks.Steps[at] += calls
			lives[o.PID] = lives[o.PID].with(at)
		}
		blocks.add(at, Key{Kind: KindCount, Op: o.Op}, calls)
		if isSync(o.Op) {
			blocks.add(at, Key{Kind: KindOp, Part: GPUWait, Op: o.Op}, share*float64(o.Sum.OnCPU+o.Sum.PartialNS+o.Sum.Blocked()))
			continue
		}
		blocks.add(at, Key{Kind: KindOp, Part: CallCPU, Op: o.Op}, share*float64(o.Sum.OnCPU+o.Sum.PartialNS))
		blocks.add(at, Key{Kind: KindOp, Part: Blocked, Op: o.Op}, share*float64(o.Sum.Blocked()))
	}
	if out.wall {
		blocks.Values[StepKey] = make([]float64, c.n)
		for _, l := range lives {
			for i := l.from; i < l.to; i++ {
				blocks.add(i, StepKey, float64(block))
			}
		}
	}
	out.cut(blocks, parts, block)
	return out
}

// life is the blocks [from, to) in which a process made steps.
type life struct{ from, to int }

func (l life) with(block int) life {
	if l.to == 0 {
		return life{block, block + 1}
	}
	return life{min(l.from, block), max(l.to, block+1)}
}

// merge adds the values of another series of the same blocks.
func (s *Series) merge(o *Series) {
	for i, n := range o.Steps {
		s.Steps[i] += n
	}
	for k, v := range o.Values {
		for i, x := range v {
			if x != 0 {
				s.add(i, k, x)
			}
		}
	}
}

// cut drops the incomplete first and last blocks with steps, all before and after them, and the warm-up.
// The rest begins and ends with a step, so that it has the whole time of its steps. cut divides it into batches.
func (r *run) cut(blocks, parts *Series, block int64) {
	var starts []int64 // of blocks with steps
	for i, n := range blocks.Steps {
		if n > 0 {
			starts = append(starts, blocks.At[i])
		}
	}
	n := len(starts)
	if n == 0 {
		r.blocks, r.slices = &side{Series: newSeries(0)}, &side{Series: newSeries(0)}
		return
	}
	to := starts[n-1] + block
	if n > 2 { // the first and the last one are incomplete
		starts, to = starts[1:n-1], starts[n-1]
	}
	whole := blocks.within(starts[0], to)
	skip := warm((&batches{n: len(whole.Steps), size: 1}).means(whole, StepKey))
	from := starts[skip]
	r.Warm = time.Duration(from - starts[0])
	r.From, r.To = time.Unix(0, from), time.Unix(0, to)
	blocks = blocks.within(from, to)
	r.blocks = &side{blocks, batched(blocks)}
	for _, off := range r.blocks.off {
		if off {
			r.Stalls += time.Duration(block)
		}
	}
	for _, n := range blocks.Steps {
		r.Steps += uint64(n + 0.5)
	}
	parts = parts.within(from, to)
	r.slices = &side{parts, batched(parts)}
}

// compare tests all values of two runs of a role.
func (p *Pair) compare(a, b *run) {
	p.A, p.B = a.Side, b.Side
	length := a.blocks.mean(a.blocks.Series, StepKey)
	least := leastShare * length
	p.Step = test(a.blocks, b.blocks, StepKey, least)
	p.Short = len(a.blocks.means(a.blocks.Series, StepKey)) < minBatch || len(b.blocks.means(b.blocks.Series, StepKey)) < minBatch
	p.NoDetail = a.Threads == 0 || b.Threads == 0
	if !p.NoDetail {
		for part := GPUWait; part < parts; part++ {
			p.Parts = append(p.Parts, test(a.blocks, b.blocks, Key{Kind: KindPart, Part: part}, least))
		}
	}
	for _, k := range keys(a.blocks.Series, b.blocks.Series) {
		switch k.Kind {
		case KindCount:
			e := test(a.blocks, b.blocks, k, 0)
			if k.Op != p.Anchor && max(e.A, e.B) > leastCount {
				e = test(a.blocks, b.blocks, k, max(countShare*e.A, leastCount))
				p.Counts = append(p.Counts, e)
			}
		case KindOp:
			p.Within = append(p.Within, test(a.blocks, b.blocks, k, least))
		}
	}
	if !p.NoDetail {
		for _, k := range keys(a.slices.Series, b.slices.Series) {
			if k != StepKey {
				p.Within = append(p.Within, test(a.slices, b.slices, k, least))
			}
		}
	}
	p.correct(length)
}

const (
	countShare = 0.05 // minimum difference of the number of calls, as a share
	leastCount = 0.02 // minimum difference in calls per step
	tiny       = 1e-4 // of a step: values below it in both runs are ignored
)

// correct drops values that are too small, corrects for the number of tests, and sorts.
func (p *Pair) correct(length float64) {
	p.Within = slices.DeleteFunc(p.Within, func(e Effect) bool { return max(e.A, e.B) < tiny*length })
	var all []*Effect
	for _, list := range [][]Effect{p.Parts, p.Within, p.Counts} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	holm(all)
	slices.SortStableFunc(p.Within, func(a, b Effect) int { return cmp.Compare(math.Abs(b.Delta()), math.Abs(a.Delta())) })
	slices.SortStableFunc(p.Counts, func(a, b Effect) int {
		if a.Found != b.Found {
			return before(a.Found)
		}
		return cmp.Compare(math.Abs(b.Delta()), math.Abs(a.Delta()))
	})
}

// keys returns the keys of either series, in a fixed order.
func keys(a, b *Series) (out []Key) {
	for k := range a.Values {
		out = append(out, k)
	}
	for k := range b.Values {
		if a.Values[k] == nil {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(x, y Key) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Part, y.Part), cmp.Compare(x.Op, y.Op), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Who, y.Who),
			cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Call, y.Call), cmp.Compare(x.Dev, y.Dev), flags(x)-flags(y))
	})
	return out
}

func flags(k Key) (n int) {
	for i, set := range [...]bool{k.Own, k.Agent, k.Idle} {
		if set {
			n |= 1 << i
		}
	}
	return n
}

// calls adds the call times of each operation.
func (p *Pair) calls(a, b *role) {
	all := map[events.Op]*CallChange{}
	add := func(x *role, dur func(*CallChange) *stats.Sketch, count func(*CallChange) *uint64) {
		for i := range x.ops {
			o := &x.ops[i]
			c := all[o.Op]
			if c == nil {
				c = &CallChange{Op: o.Op, DurA: &stats.Sketch{}, DurB: &stats.Sketch{}}
				all[o.Op] = c
			}
			dur(c).Merge(o.Dur)
			*count(c) += o.Sum.Calls
		}
	}
	add(a, func(c *CallChange) *stats.Sketch { return c.DurA }, func(c *CallChange) *uint64 { return &c.A })
	add(b, func(c *CallChange) *stats.Sketch { return c.DurB }, func(c *CallChange) *uint64 { return &c.B })
	for _, e := range p.Counts {
		if c := all[e.Op]; c != nil {
			c.OncesA, c.OncesB = e.A, e.B
			if e.Found {
				c.Findings++
			}
		}
	}
	for _, e := range p.Within {
		if c := all[e.Op]; c != nil && e.Kind == KindOp {
			c.TimeA, c.TimeB = c.TimeA+e.A, c.TimeB+e.B
			if e.Found {
				c.Findings++
			}
		}
	}
	if c := all[p.Anchor]; c != nil {
		c.OncesA, c.OncesB = 1, 1
	}
	for _, c := range all {
		p.Calls = append(p.Calls, *c)
	}
	slices.SortFunc(p.Calls, func(x, y CallChange) int {
		return cmp.Or(cmp.Compare(y.TimeA+y.TimeB, x.TimeA+x.TimeB), cmp.Compare(x.Op, y.Op))
	})
}

// Findings returns the number of significant differences.
func (p *Pair) Findings() (n int) {
	if p.Step.Found {
		n++
	}
	for _, list := range [][]Effect{p.Parts, p.Within, p.Counts} {
		for i := range list {
			if list[i].Found {
				n++
			}
		}
	}
	return n
}
