package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/fleet"
	"ingero/internal/query"
)

// queryNodes runs query on other nodes.
func (e *Env) queryNodes(c *cobra.Command, s *config.Config, o *queryOptions, args []string) error {
	if err := notWithNodes(c, "use SQL, or run ingero on the node itself", "calls", "by", "show", "order"); err != nil {
		return err
	}
	if len(args) > 0 {
		return e.sqlNodes(c, s, o, args[0])
	}
	w, err := o.parse(e.now(o.utc))
	if err != nil {
		return err
	}
	ctx := c.Context()
	g, err := e.gather(ctx, s)
	if err != nil {
		return err
	}
	defer g.Close()
	params := o.params()
	for name, text := range map[string]string{"op": strings.Join(o.names, ","), "node": o.node, "session": o.session, "label": query.JoinLabels(o.labels)} {
		if text != "" {
			params.Set(name, text)
		}
	}
	if o.perProcess {
		params.Set("per_process", "1")
	}
	ops, problems := g.Ops(ctx, params, w.from, w.to)
	g.add(problems)
	if len(g.problems) == g.requested {
		return g.noAnswer()
	}
	return e.showOps(g, ops, o)
}

// showOps prints the operations of several nodes, summed or per node.
func (e *Env) showOps(g *nodeAnswers, ops *fleet.Ops, o *queryOptions) error {
	zone := e.zone(o.utc)
	t := &explain.OpTable{From: ops.From.In(zone), To: ops.To.In(zone), Database: g.answered(), Nodes: g.nodes(), Notes: g.warnings()}
	for i := range ops.Rows {
		x := &ops.Rows[i]
		row := explain.OpRow{Comm: x.Comm, Op: x.Op}
		if o.perNode || o.perProcess { // a PID is valid on its node only
			row.Node = x.Node
		}
		t.Rows = append(t.Rows, row)
	}
	var text []byte
	var err error
	switch {
	case o.json:
		text, err = explain.OperationsJSON(t)
	case o.csv:
		text = explain.OperationsCSV(t)
	default:
		text = []byte(explain.Operations(t, explain.Options{Location: zone}))
	}
	if err != nil {
		return err
	}
	if _, err := e.Stdout.Write(text); err != nil {
		return err
	}
	how := "together; --per-node separates them"
	if o.perNode || o.perProcess {
		how = "separately"
	}
	e.note("These are the calls of %s, %s", g.answered(), how)
	for _, n := range t.Notes {
		e.note("Note: %s", n)
	}
	return nil
}

// sqlNodes runs a statement on other nodes.
func (e *Env) sqlNodes(c *cobra.Command, s *config.Config, o *queryOptions, text string) error {
	if err := o.sqlFlags(c); err != nil {
		return err
	}
	limits, err := sqlLimits(o.timeout, o.limit)
	if err != nil {
		return err
	}
	ctx := c.Context()
	g, err := e.gather(ctx, s)
	if err != nil {
		return err
	}
	defer g.Close()
	res, problems, err := g.SQL(ctx, text, limits, o.perNode)
	if err != nil {
		return err
	}
	g.add(problems)
	if len(g.problems) == g.requested {
		return g.noAnswer()
	}
	grid := &explain.Grid{Columns: res.Columns, Rows: res.Rows, Database: g.answered(), Cut: res.Cut, Nodes: g.nodes(), Notes: g.warnings()}
	if err := e.printGrid(grid, o.output); err != nil {
		return err
	}
	how := "each row is of one node"
	if res.Merged {
		how = "rows cover all nodes together"
	}
	e.note("%s", fmt.Sprintf("Asked %s; %s", g.answered(), how))
	return nil
}

// sqlFlags rejects flags that duplicate clauses of the statement.
func (o *queryOptions) sqlFlags(c *cobra.Command) error {
	for _, name := range notWithSQL {
		if c.Flags().Changed(name) {
			return usage("use WHERE or GROUP BY in the statement", "--%s cannot be combined with SQL", name)
		}
	}
	return o.check("ingero query")
}
