package dashboard

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

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

// graphRate is how often a graph operation was called, and its duration.
type graphRate struct {
	Op        string  `json:"op"`
	Calls     uint64  `json:"calls"`
	PerSecond float64 `json:"per_second"`
	Errors    uint64  `json:"errors"`
	TotalNS   uint64  `json:"total_ns"`
	P50NS     *int64  `json:"p50_ns"` // null: unknown
	P99NS     *int64  `json:"p99_ns"`
	MaxNS     *int64  `json:"max_ns"`
}

func (a *request) graphMetrics() (any, error) {
	a.graphOps()
	t, err := a.sums()
	if err != nil {
		return nil, err
	}
	text, err := explain.OperationsJSON(&explain.OpTable{Rows: oneNode(t.Rows)})
	if err != nil {
		return nil, err
	}
	var ops struct {
		Operations []struct {
			Op      string `json:"op"`
			Calls   uint64 `json:"calls"`
			Errors  uint64 `json:"errors"`
			TotalNS uint64 `json:"total_ns"`
			P50NS   *int64 `json:"p50_ns"`
			P99NS   *int64 `json:"p99_ns"`
			MaxNS   *int64 `json:"max_ns"`
		} `json:"operations"`
	}
	if err := json.Unmarshal(text, &ops); err != nil {
		return nil, err
	}
	seconds := t.To.Sub(t.From).Seconds()
	out := struct {
		From    time.Time   `json:"from"`
		To      time.Time   `json:"to"`
		Node    string      `json:"node"`
		Seconds float64     `json:"seconds"`
		Ops     []graphRate `json:"operations"`
		Columns []string    `json:"graph_columns"`
		Graphs  []wire.Row  `json:"graphs"` // most launches first
		Notes   []string    `json:"notes"`
	}{From: t.From.UTC(), To: t.To.UTC(), Node: a.Node, Seconds: seconds, Ops: []graphRate{}, Notes: append([]string{}, t.Notes...)}
	for _, o := range ops.Operations {
		out.Ops = append(out.Ops, graphRate{o.Op, o.Calls, float64(o.Calls) / seconds, o.Errors, o.TotalNS, o.P50NS, o.P99NS, o.MaxNS})
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
	out := struct {
		From   time.Time         `json:"from"`
		To     time.Time         `json:"to"`
		Node   string            `json:"node"`
		Of     int               `json:"of"`     // total number
		Events []json.RawMessage `json:"events"` // latest first
		Notes  []string          `json:"notes"`
	}{a.q.From.UTC(), a.q.To.UTC(), a.Node, n, []json.RawMessage{}, append([]string{}, explain.CoverageNotes(&cover)...)}
	for _, e := range last {
		out.Events = append(out.Events, e.text)
	}
	return out, nil
}
