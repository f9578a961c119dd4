package session

import (
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// table has the distribution of durations, and the sums at the last tick, for each operation of
// each process.
type table struct {
	rows map[key]*row
	last *row // of the previous call: most calls have the same key
	at   key
}

type key struct {
	pid uint32
	op  events.Op
}

type row struct {
	all    *stats.Sketch // at the last tick, which shares it: replaced, never modified
	recent stats.Sketch  // since the last tick
	sum    tick.Counts   // at the last tick
	listed bool          // in the current tick
}

// none is shared by operations without calls.
var none = &stats.Sketch{}

func newTable() *table { return &table{rows: map[key]*row{}} }

func (t *table) row(k key) *row {
	if t.last != nil && t.at == k {
		return t.last
	}
	r := t.rows[k]
	if r == nil {
		r = &row{all: none}
		t.rows[k] = r
	}
	t.last, t.at = r, k
	return r
}

// add adds the durations of calls. It does not keep calls.
func (t *table) add(calls []events.Call) {
	for i := range calls {
		c := &calls[i]
		if c.Flags&events.CallUnmeasured != 0 {
			continue
		}
		t.row(key{c.PID, c.Op}).recent.Add(c.Duration, c.Weight)
	}
}

// fill completes the operations of a tick that have their sums: the tick's share, and the
// durations.
func (t *table) fill(ops []tick.Op, drops []tick.Drop) {
	lossy := false
	for _, d := range drops {
		lossy = lossy || (d.Count > 0 && (d.LosesCalls() || d.Reason == "thinned"))
	}
	for _, r := range t.rows {
		r.listed = false
	}
	for i := range ops {
		o := &ops[i]
		r := t.row(key{o.PID, o.Op})
		r.listed = true
		o.Last = o.Sum.Since(&r.sum)
		r.sum = o.Sum
		o.DurLast = none
		if r.recent.Count() > 0 {
			r.all = r.all.Clone()
			r.all.Merge(&r.recent)
			o.DurLast = r.recent.Clone()
			r.recent.Reset()
		}
		o.Dur = r.all
		o.Thinned = lossy && o.Dur.Count() != o.Sum.Done
	}
	for k, r := range t.rows { // forgotten by the source
		if !r.listed && r.recent.Count() == 0 {
			delete(t.rows, k)
			t.last = nil
		}
	}
}

// slowest returns the duration from which on a call of each operation was slow in this tick: the
// 99th percentile, maximum over processes.
func slowest(ops []tick.Op) map[events.Op]time.Duration {
	out := map[events.Op]time.Duration{}
	for i := range ops {
		if o := &ops[i]; o.DurLast.Count() > 0 {
			out[o.Op] = max(out[o.Op], time.Duration(o.DurLast.Quantile(0.99)))
		}
	}
	return out
}

// setSlow sets the source's limits for slow calls.
func (r *runner) setSlow(ops []tick.Op, final bool) error {
	if r.can.SetSlow == nil || final {
		return nil
	}
	for op, d := range slowest(ops) {
		if err := r.can.SetSlow(op, d); err != nil {
			return err
		}
	}
	return nil
}
