package dashboard

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/stats"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// Limits of heat maps.
const (
	mostHeat  = 16
	fineCalls = 2 << 20 // calls in the window up to which buckets may be shorter than a second
	leastFine = time.Millisecond
)

func (a *request) heatmap() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	out := wire.Heatmap{Scope: a.about(), Ops: []wire.HeatOp{}, Names: []string{}, Notes: []string{}}
	var cover query.Coverage
	wanted := a.q.Ops
	a.q.Ops = nil
	all, err := a.opStats(sessions, 0, &cover)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(x, y query.OpStat) int {
		return cmp.Or(cmp.Compare(y.Sum.Total, x.Sum.Total), cmp.Compare(x.Op, y.Op))
	})
	least, calls := time.Second, uint64(0)
	for i := range all {
		o := &all[i]
		out.Names = append(out.Names, o.Op.String())
		calls += o.Sum.Calls
		if o.Dur.Count() > 0 && len(out.Ops) < min(a.q.Limit, mostHeat) && (len(wanted) == 0 || slices.Contains(wanted, o.Op)) {
			a.q.Ops = append(a.q.Ops, o.Op)
			out.Ops = append(out.Ops, heatOf(o))
		}
	}
	if calls <= fineCalls {
		least = leastFine
	}
	s := a.divided(least)
	if out.Scale = s.json(); len(out.Ops) > 0 {
		if all, err = a.opStats(sessions, time.Duration(s.width), &cover); err != nil {
			return nil, err
		}
		for i := range out.Ops {
			fillHeat(&out.Ops[i], a.q.Ops[i], &s, all)
		}
	}
	out.Notes = append(out.Notes, explain.CoverageNotes(&cover)...)
	return out, nil
}

// opStats sums the calls of all recordings.
func (a *request) opStats(sessions []query.Session, every time.Duration, cover *query.Coverage) (out []query.OpStat, err error) {
	type key struct {
		op events.Op
		at int64
	}
	at := map[key]int{}
	for i := range sessions {
		f, _, err := a.filter(&sessions[i])
		if err != nil {
			return nil, err
		}
		some, c, err := a.db.OpStats(a.ctx, f, query.Group{Every: every})
		if err != nil {
			return nil, err
		}
		cover.Add(c)
		for j := range some {
			x := &some[j]
			k := key{x.Op, x.Time.UnixNano()}
			n, known := at[k]
			if !known {
				at[k], out = len(out), append(out, *x)
				continue
			}
			out[n].Sum.Calls, out[n].Sum.Total = out[n].Sum.Calls+x.Sum.Calls, out[n].Sum.Total+x.Sum.Total
			out[n].Dur.Merge(x.Dur)
		}
	}
	return out, nil
}

func heatOf(o *query.OpStat) wire.HeatOp {
	return wire.HeatOp{Op: o.Op.String(), Source: o.Op.Source().String(), Calls: o.Sum.Calls, TotalNS: o.Sum.Total,
		P50NS: wire.Known(o.Dur.Quantile(0.5)), P99NS: wire.Known(o.Dur.Quantile(0.99)), MaxNS: wire.Known(o.Dur.Max()), LowNS: []uint64{}, Cells: [][3]int64{}}
}

// fillHeat counts an operation's calls by bucket and latency.
func fillHeat(h *wire.HeatOp, op events.Op, s *scale, all []query.OpStat) {
	counts := map[[2]int]int64{}
	lowest, highest := stats.HistBuckets, -1
	for i := range all {
		if all[i].Op != op {
			continue
		}
		t := s.bucket(all[i].Time.UnixNano())
		for ns, n := range all[i].Dur.Middles() {
			row := stats.HistIndex(uint64(ns))
			lowest, highest = min(lowest, row), max(highest, row)
			counts[[2]int{t, row}] += int64(n)
		}
	}
	for row := lowest; row <= highest; row++ {
		lo, hi := stats.HistBounds(row)
		if h.LowNS = append(h.LowNS, lo); row == highest {
			h.LowNS = append(h.LowNS, min(hi, 1<<43)) // the last is open
		}
	}
	for k, n := range counts {
		h.Cells = append(h.Cells, [3]int64{int64(k[0]), int64(k[1] - lowest), n})
	}
	slices.SortFunc(h.Cells, func(x, y [3]int64) int { return slices.Compare(x[:], y[:]) })
}
