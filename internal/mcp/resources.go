package mcp

import (
	"context"
	"errors"
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
	{"ingero://chains", "chains", "Causes of lost time in the latest recording, most severe first", (*server).chainsText},
	{"ingero://sessions", "sessions", "The recordings: id, node, state, start, duration", (*server).sessionsText},
}

func (s *server) resources(m *sdk.Server) {
	for i := range allResources {
		r := &allResources[i]
		m.AddResource(&sdk.Resource{URI: r.uri, Name: r.name, Description: r.about, MIMEType: "text/plain"}, s.reader(r.read))
	}
	for i := range allTemplates {
		r := &allTemplates[i]
		m.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: r.uri + "{name}", Name: r.name, Description: r.about, MIMEType: "text/plain"},
			func(ctx context.Context, q *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				name := strings.TrimPrefix(q.Params.URI, r.uri)
				return s.reader(func(s *server, ctx context.Context) (string, error) { return r.read(s, ctx, name) })(ctx, q)
			})
	}
}

// template is a row of the table of resource templates.
type template struct {
	uri, name, about string // the prefix of the name in the uri
	read             func(s *server, ctx context.Context, name string) (string, error)
}

const schemaURI = "ingero://schema/"

// allTemplates is the table of resource templates.
var allTemplates = []template{
	{"ingero://chains/", "chain", "The evidence for one cause of lost time, by its id", (*server).chainText},
	{schemaURI, "table", "One table of the file for run_sql, with its columns explained", (*server).tableText},
}

func (s *server) chainText(ctx context.Context, id string) (string, error) {
	in := &ExplainChain{ID: id, Form: Form{MaxTokens: mostTokens}}
	text, _, err := explainChainTool().call(s, ctx, in, in.form(), func(ctx context.Context) (*answer, error) { return s.explainChain(ctx, in) })
	return text, err
}

// tableText returns a table's CREATE statement, which documents it.
func (s *server) tableText(ctx context.Context, name string) (string, error) {
	none := &Refusal{"there is no table " + quoted(name, 40), "read ingero://schema for the list of tables"}
	if strings.ContainsAny(name, `'"\`) {
		return "", none
	}
	res, err := s.sql(ctx, statement("SELECT sql FROM sqlite_schema WHERE type IN ('table', 'view') AND name = '%s'", name))
	if err != nil {
		return "", err
	}
	if len(res.Rows) == 0 {
		return "", none
	}
	return fmt.Sprintf("%v\n", res.Rows[0][0]), nil
}

// reader makes a handler from a function that returns the text.
func (s *server) reader(read func(*server, context.Context) (string, error)) sdk.ResourceHandler {
	return func(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		ctx, stop := context.WithTimeout(ctx, callTime)
		defer stop()
		text, err := read(s, ctx)
		var none *Refusal
		if err = s.publicError(err); errors.As(err, &none) && strings.HasPrefix(none.What, "there is no ") {
			return nil, sdk.ResourceNotFoundError(r.Params.URI)
		}
		if err != nil {
			return nil, err
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
	in := &SQL{Form: Form{MaxTokens: mostTokens}}
	text, _, err := sqlTool().call(s, ctx, in, in.form(), s.listSessions)
	return text, err
}

// listSessions returns the recordings, latest first.
func (s *server) listSessions(ctx context.Context) (*answer, error) {
	list, err := s.recordings(ctx, 200)
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{nil}, columns: []column{{"id", "id", words, false}, {"node", "node", words, false}, {"state", "state", words, false},
		{"began", "began", moment, false}, {"seconds", "seconds", number, false}, {"records", "records", count, false}}}
	for i := range list {
		r := &list[i]
		a.rows = append(a.rows, []any{r.ID, r.Node, r.State, stamp(r.From), r.To.Sub(r.From).Seconds(), r.Calls})
	}
	return a, nil
}

// schemaText returns what a statement can name, with documentation where it exists.
func (s *server) schemaText(ctx context.Context) (string, error) {
	var b strings.Builder
	b.WriteString("Run one SQLite statement. Durations are in ns, sizes in bytes, times in ns since 1970; NULL means unknown.\n\n")
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
	res, err := s.sql(ctx, wire.Statement{SQL: "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' ORDER BY name"})
	if err != nil {
		return "", err
	}
	b.WriteString("\nTables of the file; " + schemaURI + "TABLE describes one:\n")
	for _, row := range res.Rows {
		name := fmt.Sprint(row[0])
		columns, err := s.sql(ctx, wire.Statement{SQL: "SELECT * FROM " + name + " LIMIT 0"})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(columns.Columns, ", "))
	}
	own, _ := query.SQLFunctions()
	b.WriteString("\nFunctions in addition to SQLite's:\n")
	for _, f := range own {
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.About)
	}
	b.WriteString("\nExamples:\n")
	for _, e := range query.SQLExamples {
		fmt.Fprintf(&b, "-- %s\n%s;\n", e.Question, e.SQL)
	}
	return b.String(), nil
}
