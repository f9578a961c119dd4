package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"ingero/internal/wire"
)

// jsonSchema renders the JSON schema of the documents. Readers must accept members that it does not
// have: later versions may add some.
func jsonSchema(root string) (string, error) {
	m, err := wireModel(root, func(string) bool { return true })
	if err != nil {
		return "", err
	}
	all := &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", Title: fmt.Sprintf("JSON output of ingero, version %d", wire.Version),
		Description: "Generated from internal/wire by make docs. $defs has each type. Durations (_ns) are nanoseconds, sizes bytes; unknown values are absent or null.",
		Defs:        map[string]*jsonschema.Schema{},
	}
	for _, d := range wire.Documents {
		all.AnyOf = append(all.AnyOf, &jsonschema.Schema{Title: d.Name, Ref: ref(reflect.TypeOf(d.Value))})
	}
	for _, name := range m.names() {
		t := m.types[name]
		s := &jsonschema.Schema{Type: "object", Description: m.about[key(t)], Properties: map[string]*jsonschema.Schema{}}
		for _, x := range m.members(t) {
			p := schemaOf(x.kind, !x.optional)
			if p.Description == "" {
				p.Description = x.about
			}
			s.Properties[x.name] = p
			s.PropertyOrder = append(s.PropertyOrder, x.name)
			if !x.optional {
				s.Required = append(s.Required, x.name)
			}
		}
		all.Defs[name] = s
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return string(text) + "\n", err
}

func ref(t reflect.Type) string { return "#/$defs/" + typeName(t) }

// nullable returns a schema that also allows null.
func nullable(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Ref != "" {
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "null"}, s}}
	}
	if s.Type != "" {
		s.Types, s.Type = []string{"null", s.Type}, ""
	}
	return s
}

// schemaOf returns the schema of a value. A pointer and a list may be null, unless they are then
// absent.
func schemaOf(t reflect.Type, null bool) *jsonschema.Schema {
	allow := func(s *jsonschema.Schema) *jsonschema.Schema {
		if null {
			return nullable(s)
		}
		return s
	}
	switch t {
	case millisType:
		return &jsonschema.Schema{Type: "number", Description: "milliseconds"}
	case knownType:
		return nullable(&jsonschema.Schema{Type: "integer"})
	case numberType:
		return allow(&jsonschema.Schema{Type: "integer"})
	case rowType:
		return allow(&jsonschema.Schema{Type: "array"})
	case rawType:
		return &jsonschema.Schema{}
	case bytesType:
		return allow(&jsonschema.Schema{Type: "string", ContentEncoding: "base64"})
	case reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	}
	switch t.Kind() {
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.Float32, reflect.Float64:
		return &jsonschema.Schema{Type: "number"}
	case reflect.Pointer:
		return allow(schemaOf(t.Elem(), true))
	case reflect.Slice:
		return allow(&jsonschema.Schema{Type: "array", Items: schemaOf(t.Elem(), t.Elem().Kind() == reflect.Pointer && !object(t.Elem().Elem()))})
	case reflect.Array:
		return &jsonschema.Schema{Type: "array", Items: schemaOf(t.Elem(), true), MinItems: new(t.Len()), MaxItems: new(t.Len())}
	case reflect.Map:
		return allow(&jsonschema.Schema{Type: "object", AdditionalProperties: schemaOf(t.Elem(), true)})
	case reflect.Struct:
		return &jsonschema.Schema{Ref: ref(t)}
	case reflect.Interface:
		return &jsonschema.Schema{}
	}
	return &jsonschema.Schema{Type: "integer"}
}
