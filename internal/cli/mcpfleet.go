package cli

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/mcp"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// fleetAnswers maps each kind of question about the nodes to its default time and function.
var fleetAnswers = map[string]struct {
	since string // default
	ask   func(*nodeAnswers, context.Context, *mcp.FleetQuestion, url.Values, time.Time, time.Time) (*mcp.FleetAnswer, error)
}{
	"overview": {"1h", (*nodeAnswers).overview},
	"ops":      {"5m", (*nodeAnswers).operations},
	"chains":   {"1h", (*nodeAnswers).chains},
	"sql":      {"1h", (*nodeAnswers).statement},
}

// queryFleet queries the configured nodes.
func (e *Env) queryFleet(ctx context.Context, c *config.Config, q *mcp.FleetQuestion) (*mcp.FleetAnswer, error) {
	a, ok := fleetAnswers[q.What]
	if !ok {
		return nil, &problem{What: "no such kind of answer", Do: "set what to overview, ops, chains or sql"}
	}
	if len(c.Fleet.Nodes) == 0 {
		return nil, &problem{What: "no other nodes are configured", Do: "start ingero mcp --nodes a:8080,b:8080 with nodes that run ingero dashboard"}
	}
	if q.What == "sql" && q.Since != "" {
		return nil, &problem{What: "since does not apply to a statement", Do: "write the time into it: WHERE timestamp > ago('5m')"}
	}
	since, err := config.ParseDuration(cmp.Or(q.Since, a.since))
	if err != nil || since <= 0 {
		return nil, &problem{What: "since is not a duration", Do: "for example 5m, 1h, 2d"}
	}
	s := *c
	s.From = nil // one server may query both the database and the nodes
	quiet := *e
	g, err := quiet.gather(ctx, &s)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	var from, to time.Time
	if q.Since != "" {
		to = e.clock()
		from = to.Add(-since)
	}
	out, err := a.ask(g, ctx, q, url.Values{}, from, to)
	if err != nil {
		return nil, err
	}
	if len(g.problems) == g.requested {
		return nil, g.noAnswer()
	}
	out.Nodes, out.Notes = g.requested-len(g.problems), append(out.Notes, g.warnings()...)
	return out, nil
}

// overview returns a row per node: its clock and its findings.
func (g *nodeAnswers) overview(ctx context.Context, _ *mcp.FleetQuestion, v url.Values, from, to time.Time) (*mcp.FleetAnswer, error) {
	reports, problems := g.Reports(ctx, v, from, to)
	g.add(problems)
	out := &mcp.FleetAnswer{Columns: []string{"node", "address", "version", "clock_ahead_ns", "within_ns", "causes", "gravest", "lost_ns", "faults"}}
	for i := range reports {
		r := &reports[i]
		row := []any{r.Name, r.Address, r.Version, int64(r.Ahead), int64(r.Within), int64(len(r.Chains)), nil, nil, int64(r.Faults)}
		if len(r.Chains) > 0 {
			row[6], row[7] = r.Chains[0].Headline, r.Chains[0].LostNS
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// chains returns the chains of all nodes, most severe first.
func (g *nodeAnswers) chains(ctx context.Context, _ *mcp.FleetQuestion, v url.Values, from, to time.Time) (*mcp.FleetAnswer, error) {
	reports, problems := g.Reports(ctx, v, from, to)
	g.add(problems)
	out := &mcp.FleetAnswer{Columns: []string{"node", "id", "severity", "job", "pid", "headline", "lost_ns"}}
	for i := range reports {
		for j := range reports[i].Chains {
			c := &reports[i].Chains[j]
			out.Rows = append(out.Rows, []any{reports[i].Name, c.ID, c.Severity, c.Comm, int64(c.PID), c.Headline, c.LostNS})
		}
	}
	slices.SortStableFunc(out.Rows, func(a, b []any) int {
		x, _ := tick.ParseSeverity(a[2].(string))
		y, _ := tick.ParseSeverity(b[2].(string))
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b[6].(int64), a[6].(int64)))
	})
	return out, nil
}

// operations returns the operations of all nodes, summed.
func (g *nodeAnswers) operations(ctx context.Context, _ *mcp.FleetQuestion, v url.Values, from, to time.Time) (*mcp.FleetAnswer, error) {
	ops, problems := g.Ops(ctx, v, from, to)
	g.add(problems)
	t := &explain.OpTable{From: ops.From, To: ops.To}
	for i := range ops.Rows {
		t.Rows = append(t.Rows, explain.OpRow{Op: ops.Rows[i].Op})
	}
	out := &mcp.FleetAnswer{Columns: []string{"op", "calls", "errors", "total_ns", "p50_ns", "p99_ns", "max_ns"}}
	sums := explain.BuildOperations(t)
	for i := range sums.Operations {
		o := &sums.Operations[i]
		row := []any{o.Op.Op, int64(o.Calls), int64(o.Errors), nil, nil, nil, nil}
		if o.TotalNS != nil {
			row[3] = int64(*o.TotalNS)
		}
		for i, q := range []*int64{o.P50NS, o.P99NS, o.MaxNS} {
			if q != nil {
				row[4+i] = *q
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// statement runs an SQL statement on each node.
func (g *nodeAnswers) statement(ctx context.Context, q *mcp.FleetQuestion, _ url.Values, _, _ time.Time) (*mcp.FleetAnswer, error) {
	res, problems, err := g.SQL(ctx, q.SQL, query.SQLLimits{Rows: 1000, Time: 10 * time.Second}, false)
	if err != nil {
		return nil, err
	}
	g.add(problems)
	out := &mcp.FleetAnswer{Columns: res.Columns, Rows: res.Rows}
	if res.Cut != "" {
		out.Notes = []string{"rows were left out: " + res.Cut}
	}
	return out, nil
}
