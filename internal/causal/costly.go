package causal

import (
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// finding makes a finding of what a kind of steps has cost.
func (c *costs) finding(pid uint32, kind costKind, what string) Finding {
	y := &c.of[kind]
	x := Finding{
		PID: pid, TID: c.tid, From: y.first, To: y.last, Window: c.span(),
		Lost: int64(y.lost), Min: int64(min(y.min, y.lost)), Max: int64(max(y.max, y.lost)), Steps: int(c.all + 0.5), Slow: int(y.steps + 0.5),
		P50: c.p50, P99: c.p99, Without: y.without, Confidence: 0.9, Baseline: "the steps of this run without it",
		Culprits: []tick.Culprit{{What: what, Lost: time.Duration(y.lost)}},
	}
	if y.worst.record != nil {
		x.Timeline = append(x.Timeline, moment(y.worst.from, "CUDA", "a step of %s", span(y.worst.length)))
	}
	if !y.compared {
		x.Confidence, x.Baseline = 0.6, "what the calls themselves took: there was no step without them"
	}
	return x
}

// costly makes a Find of processes that have at least so many steps of a kind. of are the calls that the
// chain is told by, what says what they do.
func costly(kind costKind, least float64, of func(events.Class) bool, what func(y *cost) string) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		w.living(5e9, func(b *Book) {
			c := w.costs(b.PID)
			if y := &c.of[kind]; y.steps >= least {
				x := c.finding(b.PID, kind, what(y))
				x.Op = y.worstOp(of)
				out = append(out, x)
			}
		})
		return out
	}
}

// worstOp is the operation of some calls that took most of the worst step, 0 where there is none.
func (y *cost) worstOp(of func(events.Class) bool) (op events.Op) {
	if y.worst.record == nil {
		return 0
	}
	most := int64(0)
	for _, o := range y.worst.own[:y.worst.nown] {
		if of(classOf(o.op)) && o.ns > most {
			op, most = o.op, o.ns
		}
	}
	return op
}

// delta is what the copies of a kind came to in the time that is known.
func (b *Book) delta(of func(c *tick.Copy) bool) (sum tick.Copy) {
	if len(b.Seconds) == 0 {
		return sum
	}
	add := func(s *Second, sign int64) {
		for i := range s.Copies {
			if c := &s.Copies[i]; of(c) {
				sum.Count += c.Count * uint64(sign)
				sum.Bytes += c.Bytes * uint64(sign)
				sum.NS += c.NS * sign
			}
		}
	}
	add(&b.Seconds[len(b.Seconds)-1], 1)
	if first := &b.Seconds[0]; first.From != b.First {
		add(first, -1)
	}
	return sum
}
