package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// lenient converts unambiguous arguments that models send: one number for a list, "500" for 500,
// "false" for false, null and missing arguments for omitted ones. Other mismatches are rejected
// with an example. schemas are the tools' argument schemas, by name.
func lenient(schemas map[string]*jsonschema.Schema) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			call, ok := r.(*sdk.CallToolRequest)
			if !ok || call.Params == nil || schemas[call.Params.Name] == nil {
				return next(ctx, method, r)
			}
			args, err := fit(call.Params.Name, schemas[call.Params.Name], call.Params.Arguments)
			if err != nil {
				return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: err.Error()}}}, nil
			}
			call.Params.Arguments = args
			return next(ctx, method, r)
		}
	}
}

// fit converts arguments to a tool's schema. It leaves invalid JSON to others.
func fit(tool string, s *jsonschema.Schema, given json.RawMessage) (json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if len(given) > 0 && json.Unmarshal(given, &args) != nil {
		return given, nil
	}
	for name, v := range args {
		p := s.Properties[name]
		fits, ok := json.RawMessage(nil), false
		switch {
		case string(v) == "null":
			delete(args, name)
			continue
		case p == nil:
			return nil, &Refusal{fmt.Sprintf("%s has no argument %.40q", tool, name), "use one of " + strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")}
		default:
			fits, ok = fitted(p, v)
		}
		if !ok {
			return nil, &Refusal{fmt.Sprintf("%s cannot be %.60s", name, v), "write " + example(name, p)}
		}
		args[name] = fits
	}
	return json.Marshal(args)
}

// fitted converts a value to its schema, if it is unambiguous.
func fitted(p *jsonschema.Schema, v json.RawMessage) (_ json.RawMessage, ok bool) {
	v = bytes.TrimSpace(v)
	text := ""
	quoted := json.Unmarshal(v, &text) == nil
	if !quoted {
		text = string(v)
	}
	switch p.Type {
	case "array":
		return fittedList(p, v, quoted, text)
	case "integer", "number":
		_, err := strconv.ParseFloat(text, 64)
		return json.RawMessage(text), err == nil && json.Valid([]byte(text))
	case "boolean":
		return json.RawMessage(text), text == "true" || text == "false"
	case "string":
		return v, quoted
	}
	return v, true
}

// fittedList makes a list of one value, or of several separated by commas.
func fittedList(p *jsonschema.Schema, v json.RawMessage, quoted bool, text string) (json.RawMessage, bool) {
	var list []json.RawMessage
	switch {
	case v[0] == '[':
		if json.Unmarshal(v, &list) != nil {
			return nil, false
		}
	case quoted && p.Items != nil && p.Items.Type != "string":
		for one := range strings.SplitSeq(text, ",") {
			list = append(list, json.RawMessage(strings.TrimSpace(one)))
		}
	default:
		list = append(list, v)
	}
	for i := range list {
		fits, ok := list[i], len(list[i]) > 0
		if ok && p.Items != nil {
			fits, ok = fitted(p.Items, list[i])
		}
		if !ok {
			return nil, false
		}
		list[i] = fits
	}
	out, err := json.Marshal(list)
	return out, err == nil
}

// examples are values of arguments, by name.
var examples = map[string]string{
	"since": `a duration with its unit, such as "5m", "90s", "2 hours"`, "min": `a duration with its unit, such as "10s"`, "pid": "a list of process IDs, such as [4821]",
}

// example describes what an argument accepts.
func example(name string, p *jsonschema.Schema) string {
	if x := examples[name]; x != "" {
		return x
	}
	kinds := map[string]string{"array": "a list", "integer": "a number, such as 500", "number": "a number, such as 0.5", "boolean": "true or false", "string": "text in quotes"}
	if x := kinds[p.Type]; x != "" {
		return x
	}
	return "a value that its schema allows"
}
