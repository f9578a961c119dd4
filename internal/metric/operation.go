package metric

import (
	"math"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

type opID = events.Op

type opPID struct {
	pid uint32
	op  events.Op
}

// operations sums up the calls of all processes, including ended ones.
type operations struct {
	byOp  map[opID]*operation
	hists map[opPID]*histState
}

// operation is the sum of one operation.
type operation struct {
	calls, errors uint64
	open          uint64 // currently open
	sketch        stats.Sketch
	dist          *Distribution
	labels        []string
	exemplars     []Exemplar
}

// histState is the kernel's histogram at the last tick.
type histState struct {
	hist stats.Hist
	seen uint64 // sequence number of the tick
}

// operations adds a tick's calls. If records are missing, the kernel's histogram stands in, as for
// quantiles elsewhere.
func (m *Meter) operations(t *tick.Tick) {
	for _, x := range m.ops.byOp {
		x.open = 0
	}
	for i := range t.Ops {
		o := &t.Ops[i]
		x := m.ops.byOp[o.Op]
		if x == nil {
			if len(m.ops.byOp) >= mostOps {
				m.over[OpCount]++
				continue
			}
			x = &operation{labels: []string{o.Op.String(), o.Op.Source().String()}}
			m.ops.byOp[o.Op] = x
		}
		last := o.Last
		if last.Calls > o.Sum.Calls || last.Errors > o.Sum.Errors { // it was reset
			last = o.Sum
		}
		x.calls += last.Calls
		x.errors += last.Errors
		if done := o.Sum.Done + o.Sum.Abandoned + o.Sum.Unmeasured; o.Sum.Calls > done {
			x.open += o.Sum.Calls - done
		}
		m.ops.durations(x, o, t.Seq)
	}
	for k, h := range m.ops.hists {
		if h.seen != t.Seq {
			delete(m.ops.hists, k)
		}
	}
	for _, x := range m.ops.byOp {
		m.set(OpCount, float64(x.calls), x.labels...)
		m.set(OpErrors, float64(x.errors), x.labels...)
		m.set(OpOpen, float64(x.open), x.labels...)
		if x.sketch.Count() == 0 {
			continue
		}
		if x.dist == nil || x.dist.Count() != x.sketch.Count() {
			x.dist = &Distribution{sketch: x.sketch.Clone()}
		}
		m.point(OpDuration, Point{Labels: x.labels, Dist: x.dist, Exemplars: fresh(x.exemplars)})
	}
}

// durations adds the durations of a process's calls in a tick.
func (o *operations) durations(to *operation, x *tick.Op, seq uint64) {
	var before stats.Hist
	if x.Hist != nil {
		k := opPID{x.PID, x.Op}
		h := o.hists[k]
		if h == nil {
			h = &histState{}
			o.hists[k] = h
		}
		before, h.hist, h.seen = h.hist, *x.Hist, seq
	}
	if !x.Thinned || x.Hist == nil {
		to.sketch.Merge(x.DurLast)
		return
	}
	share := *x.Hist
	share.Sub(&before)
	for i, n := range share {
		lo, hi := stats.HistBounds(i)
		middle := lo + (hi-1-lo)/2
		if i == stats.HistBuckets-1 {
			middle = lo
		}
		for ; n > 0; n -= min(n, math.MaxUint32) {
			to.sketch.Add(int64(middle), uint32(min(n, math.MaxUint32)))
		}
	}
}

// exemplar adds the latest chain of a point. Each point has one exemplar, which later ones replace,
// since Prometheus accepts a series's exemplars only in time order.
func exemplar(list []Exemplar, e Exemplar) []Exemplar {
	if len(list) > 0 && !e.Time.After(list[0].Time) {
		return list
	}
	return append(list[:0], e)
}

// without removes a chain's exemplar.
func without(list []Exemplar, chain string) []Exemplar {
	if len(list) > 0 && list[0].Chain == chain {
		return nil
	}
	return list
}

// fresh returns a copy for a snapshot.
func fresh(list []Exemplar) []Exemplar {
	if len(list) == 0 {
		return nil
	}
	return append([]Exemplar(nil), list...)
}

// exemplarAt returns a chain's exemplar.
func exemplarAt(c *tick.Chain, value time.Duration) Exemplar {
	return Exemplar{Chain: c.ID, Rule: c.Rule, Value: value.Seconds(), Time: c.To}
}
