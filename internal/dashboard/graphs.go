package dashboard

import (
	"cmp"
	"encoding/json"
	"slices"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// graphOps restricts the operations to those of CUDA graphs, and to the requested ones of them.
func (a *request) graphOps() {
	wanted := a.q.Ops
	a.q.Ops = nil
	for i := range events.Catalog {
		op := events.Catalog[i].Op
		if op.Source() == events.SourceGraph && (len(wanted) == 0 || slices.Contains(wanted, op)) && !slices.Contains(a.q.Ops, op) {
			a.q.Ops = append(a.q.Ops, op)
		}
	}
}

func (a *request) graphMetrics() (any, error) {
	a.graphOps()
	t, err := a.sums()
	if err != nil {
		return nil, err
	}
	ops := explain.BuildOperations(&explain.OpTable{Rows: oneNode(t.Rows)})
	seconds := t.To.Sub(t.From).Seconds()
	out := wire.GraphMetrics{Scope: wire.Scope{From: t.From.UTC(), To: t.To.UTC(), Node: a.Node}, Seconds: seconds, Ops: []wire.GraphRate{}, Notes: append([]string{}, t.Notes...)}
	for i := range ops.Operations {
		o := &ops.Operations[i].Op
		rate := wire.GraphRate{Op: o.Op, Calls: o.Calls, PerSecond: float64(o.Calls) / seconds, Errors: o.Errors, P50NS: o.P50NS, P99NS: o.P99NS, MaxNS: o.MaxNS}
		if o.TotalNS != nil {
			rate.TotalNS = *o.TotalNS
		}
		out.Ops = append(out.Ops, rate)
	}
	out.Columns, out.Graphs, err = a.view("graphs")
	return out, err
}

// oneNode removes the machines from rows, so that their sums are added.
func oneNode(rows []explain.OpRow) []explain.OpRow {
	for i := range rows {
		rows[i].Node = ""
	}
	return rows
}

func (a *request) graphEvents() (any, error) {
	a.graphOps()
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	type event struct {
		start int64
		text  json.RawMessage
	}
	var last []event // the latest Limit, as a ring
	n := 0
	var cover query.Coverage
	for i := range sessions {
		f, comms, err := a.filter(&sessions[i])
		if err != nil {
			return nil, err
		}
		c, err := a.db.Each(a.ctx, f, func(_ *query.Session, c *events.Call, _ uint64) bool {
			if len(last) < a.q.Limit {
				last = append(last, event{})
			}
			last[n%a.q.Limit] = event{c.Start, explain.AppendCallJSON(nil, c, comms[c.PID], "")}
			n++
			return true
		})
		if err != nil {
			return nil, err
		}
		cover.Add(c)
	}
	slices.SortStableFunc(last, func(a, b event) int { return cmp.Compare(b.start, a.start) })
	out := wire.GraphEvents[json.RawMessage]{Scope: a.about(), Of: n, Events: []json.RawMessage{}, Notes: append([]string{}, explain.CoverageNotes(&cover)...)}
	for _, e := range last {
		out.Events = append(out.Events, e.text)
	}
	return out, nil
}
