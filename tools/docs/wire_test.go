package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"ingero/internal/wire"
)

// The schema accepts each document, empty or with a value in each field, and has all its members.
func TestJSONSchemaFitsDocuments(t *testing.T) {
	text, err := jsonSchema("../..")
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	s.AnyOf, s.Properties = nil, map[string]*jsonschema.Schema{}
	for _, d := range wire.Documents {
		s.Properties[d.Name] = &jsonschema.Schema{Ref: ref(reflect.TypeOf(d.Value))}
	}
	for _, def := range s.Defs {
		def.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range wire.Documents {
		full := reflect.New(reflect.TypeOf(d.Value)).Elem()
		fill(full, 0)
		for _, v := range []any{d.Value, full.Interface()} {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var value any
			if err := json.Unmarshal(b, &value); err != nil {
				t.Fatal(err)
			}
			if err := r.Validate(map[string]any{d.Name: value}); err != nil {
				t.Errorf("%s: %v in %.1000s", d.Name, err, b)
			}
		}
	}
}

// fill puts a value into each field.
func fill(v reflect.Value, depth int) {
	if v.Type() == rawType {
		v.SetBytes([]byte("{}"))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth)
	case reflect.Slice:
		if depth < 20 && v.Type() != rowType {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth+1)
		}
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Struct:
		for f, x := range v.Fields() {
			if f.IsExported() {
				fill(x, depth)
			}
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		switch {
		case v.CanInt():
			v.SetInt(7)
		case v.CanUint():
			v.SetUint(7)
		}
	}
}

// The page's types have the answers that the page reads, and a member is optional only if it may be absent.
func TestTypescript(t *testing.T) {
	text, err := typescript("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nexport interface ReportExplained {\n", "\n  gpu_instance?: number; // MIG instance, if the driver names one\n", "\n  gravest: ChainSummary | null; // ",
		"\n  load: [number, number, number];", "\n  gpu_bytes: (number | null)[];\n", "\n  started_ms: number | null; // null: unknown, or still running\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, name := range []string{"Tick", "Stacks", "CallLine"} {
		if strings.Contains(text, "interface "+name+" ") {
			t.Errorf("the page does not read %s, but its type is there", name)
		}
	}
}
