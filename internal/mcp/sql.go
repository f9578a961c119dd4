package mcp

import (
	"context"
	"strings"

	"ingero/internal/query"
	"ingero/internal/wire"
)

// tablesText names the tables for statements.
func tablesText() string {
	var names []string
	for _, t := range query.SQLSchema() {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

func sqlTool() *tool {
	return &tool{
		name: "run_sql", title: "Run a read-only SQL statement",
		about: "Runs one read-only SQLite statement, with limits on time, memory and rows. Use it only for what no other tool answers. Virtual tables: " + tablesText() + "; the resource ingero://schema has their columns, all other tables and worked examples: read it first. " +
			"Times are ns since 1970: iso(x) makes them readable, ms(x) and us(x) convert durations, ago('5m') is the time 5 minutes ago. Add LIMIT.",
		facts:    []column{{"cut", "why rows were left out", words, false}},
		register: answers((*server).runSQL),
	}
}

// SQL are the arguments of run_sql.
type SQL struct {
	SQL string `json:"sql" jsonschema:"one statement: SELECT ..."`
	Form
}

// sqlRows bounds the rows of an assistant's statement.
const sqlRows = 1000

func (s *server) runSQL(ctx context.Context, in *SQL) (*answer, error) {
	res, err := s.sql(ctx, wire.Statement{SQL: in.SQL, Limit: sqlRows})
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{res.Cut}, columns: []column{}, notes: res.Notes}
	for _, name := range res.Columns[:min(len(res.Columns), 64)] {
		name = printable(name, 60)
		a.columns = append(a.columns, column{quoted(name, 60), name, free, false})
	}
	if len(res.Rows) == 0 {
		a.lead = "no rows"
	}
	for _, row := range res.Rows {
		a.rows = append(a.rows, row)
	}
	return a, nil
}

func fleetTool() *tool {
	return &tool{
		name: "query_fleet", title: "Query several nodes at once", changes: true,
		about:    "Queries the nodes of `ingero mcp --nodes` and merges their answers. what=overview, ops, chains (causes of lost time on all nodes, most severe first) or sql (one read-only statement, run on each node). Also reports nodes that did not answer and nodes with clock skew. Use it for jobs on several nodes, stragglers, 'which node is slow?'.",
		facts:    []column{{"nodes", "number of nodes that answered", count, false}},
		register: answers((*server).fleet),
	}
}

// Fleet are the arguments of query_fleet.
type Fleet struct {
	What  string `json:"what,omitempty" jsonschema:"overview, ops, chains (default) or sql"`
	SQL   string `json:"sql,omitempty" jsonschema:"the statement, for what=sql"`
	Since string `json:"since,omitempty" jsonschema:"length of the time range up to now, such as 5m or 1h"`
	Form
}

func (s *server) fleet(ctx context.Context, in *Fleet) (*answer, error) {
	q := &FleetQuestion{What: in.What, SQL: in.SQL, Since: in.Since}
	switch {
	case q.What == "" && q.SQL != "":
		q.What = "sql"
	case q.What == "":
		q.What = "chains"
	}
	if (q.What == "sql") != (q.SQL != "") {
		return nil, &Refusal{"sql and what=sql must be used together", `{"what": "sql", "sql": "SELECT ..."}`}
	}
	f, err := s.Machine.Fleet(ctx, q)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{f.Nodes}, columns: []column{}, notes: f.Notes, rows: f.Rows}
	for _, name := range f.Columns[:min(len(f.Columns), 64)] {
		name = printable(name, 60)
		k := free
		if strings.HasSuffix(name, "_ns") && q.What != "sql" {
			k = nanos
		}
		a.columns = append(a.columns, column{quoted(name, 60), name, k, false})
	}
	return a, nil
}
