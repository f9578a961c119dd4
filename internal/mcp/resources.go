package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ingero/internal/query"
	"ingero/internal/wire"
)

// resource is a row of the table of resources.
type resource struct {
	uri, name, about string
	read             func(*server, context.Context) (string, error)
}

// allResources is the table of resources.
var allResources = []resource{
	{"ingero://schema", "schema", "Tables, columns and functions for run_sql, with worked examples", (*server).schemaText},
	{"ingero://chains", "chains", "Causes of lost time in the latest recording, the gravest first", (*server).chainsText},
	{"ingero://sessions", "sessions", "The recordings: id, node, state, beginning, length", (*server).sessionsText},
}

// chainURI is where the evidence for one cause is.
const chainURI = "ingero://chains/"

func (s *server) resources(m *sdk.Server) {
	for i := range allResources {
		r := &allResources[i]
		m.AddResource(&sdk.Resource{URI: r.uri, Name: r.name, Description: r.about, MIMEType: "text/plain"}, s.reader(r.read))
	}
	m.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: chainURI + "{id}", Name: "chain", Description: "The evidence for one cause of lost time", MIMEType: "text/plain"},
		func(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimPrefix(r.Params.URI, chainURI)
			return s.reader(func(s *server, ctx context.Context) (string, error) {
				in := &ExplainChain{ID: id, Form: Form{MaxTokens: mostTokens}}
				text, _, err := explainChainTool().call(s, ctx, in, in.form(), func(ctx context.Context) (*answer, error) { return s.explainChain(ctx, in) })
				return text, err
			})(ctx, r)
		})
}

// reader makes a handler of a function that returns the text.
func (s *server) reader(read func(*server, context.Context) (string, error)) sdk.ResourceHandler {
	return func(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		ctx, stop := context.WithTimeout(ctx, callTime)
		defer stop()
		text, err := read(s, ctx)
		if err != nil {
			return nil, s.tell(err)
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "text/plain", Text: text}}}, nil
	}
}

func (s *server) chainsText(ctx context.Context) (string, error) {
	in := &Chains{Limit: 100, Form: Form{MaxTokens: mostTokens}}
	text, _, err := chainsTool().call(s, ctx, in, in.form(), func(ctx context.Context) (*answer, error) { return s.chains(ctx, in) })
	return text, err
}

func (s *server) sessionsText(ctx context.Context) (string, error) {
	in := &SQL{SQL: `SELECT uid AS id, node, state, iso(started_ns) AS began, s(max(coalesce(ended_ns, 0), updated_ns) - started_ns) AS seconds, records
		FROM sessions ORDER BY started_ns DESC LIMIT 200`, Form: Form{MaxTokens: mostTokens}}
	text, _, err := sqlTool().call(s, ctx, in, in.form(), func(ctx context.Context) (*answer, error) { return s.runSQL(ctx, in) })
	return text, err
}

// schemaText is what a statement can name: of what is explained with its explanation.
func (s *server) schemaText(ctx context.Context) (string, error) {
	var b strings.Builder
	b.WriteString("One statement, SQLite. Durations are ns, sizes bytes, times ns since 1970; NULL is not known.\n\n")
	for _, t := range query.SQLSchema() {
		var args []string
		for _, a := range t.Args {
			args = append(args, a.Name)
		}
		name := t.Name
		if len(args) > 0 {
			name += "(" + strings.Join(args, ", ") + ")"
		}
		fmt.Fprintf(&b, "%s: %s\n", name, t.About)
		for _, c := range slices.Concat(t.Args, t.Columns) {
			fmt.Fprintf(&b, "  %s %s: %s\n", c.Name, c.Type, c.About)
		}
	}
	res, err := s.sql(ctx, wire.Statement{SQL: `SELECT m.name, group_concat(p.name, ', ') FROM sqlite_schema m, pragma_table_info(m.name) p
		WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite%' GROUP BY m.name ORDER BY m.name`})
	if err != nil {
		if res, err = s.sql(ctx, wire.Statement{SQL: "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' ORDER BY name"}); err != nil {
			return "", err
		}
	}
	b.WriteString("\nTables of the file:\n")
	for _, row := range res.Rows {
		fmt.Fprintf(&b, "%v: %v\n", row[0], strings.Join(strings.Fields(fmt.Sprint(row[1])), " "))
	}
	own, _ := query.SQLFunctions()
	b.WriteString("\nFunctions beside SQLite's:\n")
	for _, f := range own {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.About)
	}
	b.WriteString("\nExamples:\n")
	for _, e := range query.SQLExamples {
		fmt.Fprintf(&b, "-- %s\n%s;\n", e.Question, e.SQL)
	}
	return b.String(), nil
}
