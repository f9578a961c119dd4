package query

import (
	"context"

	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// rebuild fills in a window's summary from records and the kernel's counts.
func (r *Reader) rebuild(ctx context.Context, sum *Summary, f Filter) error {
	sum.Rebuilt = true
	if f.From.After(sum.From) {
		sum.From = f.From
	}
	if !f.To.IsZero() && f.To.Before(sum.To) {
		sum.To = f.To
	}
	if sum.To.Before(sum.From) {
		sum.To = sum.From
	}
	counts := &Counts{}
	if len(f.Labels) == 0 { // the kernel's counts know no labels
		var err error
		if counts, err = r.Counts(ctx, &sum.Session, f); err != nil {
			return err
		}
	}
	if counts.known {
		sum.CountedFrom, sum.CountedTo = counts.From, counts.To
		f = counts.window(f)
	}
	for _, d := range sum.Drops {
		sum.Thinned = sum.Thinned || d.LosesCalls()
	}
	b := builder{ops: map[opKey]*builtOp{}, gaps: sum.Gaps}
	all := f
	all.Ops = nil // calls inside others and gaps are needed
	cover, err := r.scan(ctx, &sum.Session, all, 0, func(c *events.Call, _ uint64) bool {
		b.add(c)
		return true
	})
	if err != nil {
		return err
	}
	sum.Torn = cover.Torn
	sum.Session.Cut = sum.Session.Cut || len(cover.Missing) > 0 // removed meanwhile
	sum.Thinned = sum.Thinned || b.thinned
	sum.Damage = cover.Damage
	if counts.known {
		b.count(counts)
	}
	for k, o := range b.ops { // an operation with only inner calls in the window was not called
		if o.Calls > 0 && f.matches(k.pid, k.op) {
			x := tick.Op{PID: k.pid, Op: k.op, Sum: o.Counts, Dur: &o.Dur}
			if !counts.known {
				x.Sum.Inner = o.inner
			}
			sum.Ops = append(sum.Ops, x)
		}
	}
	sum.keepPresent()
	return nil
}

// count replaces the records' counts by the kernel's.
func (b *builder) count(c *Counts) {
	for _, o := range b.ops {
		o.Counts = tick.Counts{}
	}
	for k, n := range c.ByKey {
		b.op(k.PID, k.Op).Counts = n
	}
}

type opKey struct {
	pid uint32
	op  events.Op
}

// builder counts calls from records as the kernel does.
type builder struct {
	ops     map[opKey]*builtOp
	gaps    tick.Gaps
	thinned bool
}

type builtOp struct {
	store.Sum
	inner uint64
}

func (b *builder) op(pid uint32, op events.Op) *builtOp {
	k := opKey{pid, op}
	o := b.ops[k]
	if o == nil {
		o = &builtOp{}
		b.ops[k] = o
	}
	return o
}

func (b *builder) add(c *events.Call) {
	g := b.gaps[c.PID]
	if g == nil {
		g = &tick.Gap{}
		b.gaps[c.PID] = g
	}
	g.Add(c)
	b.thinned = b.thinned || c.Weight > 1
	b.op(c.PID, c.Op).Add(c)
	if c.Parent != 0 && c.Flags&events.CallUnmeasured == 0 {
		b.op(c.PID, c.Parent).inner += uint64(max(c.Duration, 0)) * uint64(c.Weight)
	}
}
