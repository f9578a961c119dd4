package mcp

import (
	"context"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ingero/internal/wire"
)

// tool is a row of the table of tools.
type tool struct {
	name, title, about string
	tokens             int // default budget; 0: the usual
	facts, columns     []column
	quiet              bool // its times are those of the requested window
	changes            bool // its result changes between calls, or comes from outside recordings

	register func(*server, *sdk.Server, *tool)
}

func (t *tool) budget() int {
	if t.tokens > 0 {
		return t.tokens
	}
	return usualTokens
}

// tools adds all tools, diagnose first.
func (s *server) tools(m *sdk.Server) {
	for _, t := range allTools() {
		t.register(s, m, t)
	}
}

// allTools is the table of tools.
func allTools() []*tool {
	return []*tool{
		diagnoseTool(), explainChainTool(), chainsTool(), whereTool(), stuckTool(), diffTool(), requestsTool(), memoryTool(), xidsTool(),
		statsTool(), stacksTool(), graphLifeTool(), graphRateTool(), checkTool(), demoTool(), testReportTool(), sqlTool(), fleetTool(),
	}
}

// argsPtr is a pointer to a tool's arguments.
type argsPtr[In any] interface {
	*In
	form() *Form
}

// answers returns the registration of a tool with the function that answers it.
func answers[In any, P argsPtr[In]](find func(*server, context.Context, P) (*answer, error)) func(*server, *sdk.Server, *tool) {
	return func(s *server, m *sdk.Server, t *tool) {
		no, in := false, inputs[In]()
		s.schemas[t.name] = in
		d := &sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: in, OutputSchema: t.schema(),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: !t.changes, DestructiveHint: &no, OpenWorldHint: &no}}
		sdk.AddTool(m, d, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, *wire.Reply, error) {
			text, out, err := t.call(s, ctx, &in, P(&in).form(), func(ctx context.Context) (*answer, error) { return find(s, ctx, &in) })
			if err != nil {
				return nil, nil, s.publicError(err)
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, out, nil
		})
	}
}

// inputs returns the schema of a tool's arguments. Each has one type: clients for models of other
// makers reject or drop a list of types. lenient accepts null as well.
func inputs[In any]() *jsonschema.Schema {
	s, err := jsonschema.For[In](nil)
	if err != nil {
		panic(err) // In is a type of this package
	}
	for _, p := range s.Properties {
		p.Types = slices.DeleteFunc(p.Types, func(t string) bool { return t == "null" })
		if len(p.Types) == 1 {
			p.Type, p.Types = p.Types[0], nil
		}
	}
	return s
}

// call answers one call, once there is room for it.
func (t *tool) call(s *server, ctx context.Context, in any, f *Form, find func(context.Context) (*answer, error)) (string, *wire.Reply, error) {
	ctx, stop := context.WithTimeout(ctx, callTime)
	defer stop()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-time.After(callTime / 4):
		return "", nil, &Refusal{"the server is busy", "retry later"}
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
	of, err := question(t.name, in, f)
	if err != nil {
		return "", nil, err
	}
	a, err := find(ctx)
	if err != nil {
		return "", nil, err
	}
	return a.write(t, f, of)
}

// schema returns the schema of the tool's structured content.
func (t *tool) schema() *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}, Properties: map[string]*jsonschema.Schema{
		"notes": {Type: "array", Items: &jsonschema.Schema{Type: "string"}},
		"next":  &jsonschema.Schema{Type: "string"},
	}}
	if len(t.facts) > 0 {
		f := &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}, Properties: map[string]*jsonschema.Schema{}}
		for i := range t.facts {
			c := &t.facts[i]
			f.Properties[c.name] = c.schema(false)
		}
		out.Properties["facts"] = f
	}
	columns := &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}}
	row := &jsonschema.Schema{Type: "array"}
	for i := range t.columns {
		c := &t.columns[i]
		row.PrefixItems = append(row.PrefixItems, c.schema(true))
		columns.PrefixItems = append(columns.PrefixItems, &jsonschema.Schema{Type: "string", Enum: []any{c.name}})
	}
	if len(t.columns) > 0 {
		row.MaxItems, row.MinItems = new(len(t.columns)), new(len(t.columns))
	}
	out.Properties["columns"] = columns
	out.Properties["rows"] = &jsonschema.Schema{Type: "array", Items: row}
	return out
}

// schema returns the schema of a value, which may be null if unknown.
func (c *column) schema(null bool) *jsonschema.Schema {
	kinds := map[kind]string{words: "string", moment: "string", count: "integer", nanos: "integer", size: "integer", share: "number", number: "number", flag: "boolean"}
	units := map[kind]string{nanos: ", ns", size: ", bytes", share: ", 0 to 1", moment: ", RFC 3339 in UTC"}
	s := &jsonschema.Schema{Description: c.about + units[c.kind]}
	switch name, ok := kinds[c.kind]; {
	case ok && null:
		s.Types = []string{name, "null"}
	case ok:
		s.Type = name
	}
	return s
}
