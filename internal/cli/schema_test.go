package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// published is docs/reference/schema.json, as the schema of an object with a member for each document.
// It refuses members that it does not have.
type published struct{ *jsonschema.Resolved }

func readSchema(t *testing.T) published {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	none := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	s.Properties = map[string]*jsonschema.Schema{}
	for _, d := range s.AnyOf {
		s.Properties[d.Title] = &jsonschema.Schema{Ref: d.Ref}
	}
	for _, d := range s.Defs {
		d.AdditionalProperties = none.CloneSchemas()
	}
	s.AnyOf, s.AdditionalProperties = nil, none
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return published{r}
}

// check returns an error if a document does not have the form in the schema.
func (p published) check(document string, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return p.Validate(map[string]any{document: v})
}

// What commands print with --json fits the published schema.
func TestJSONFitsSchema(t *testing.T) {
	db, schema := testDB(t), readSchema(t)
	for _, tt := range []struct {
		document string
		args     []string
	}{
		{"ingero explain --json", []string{"explain", "--db", db}},
		{"ingero explain --json", []string{"demo", "incident", "--recorded"}},
		{"ingero query --json", []string{"query", "--db", db, "--per-process"}},
		{"ingero query STATEMENT --json", []string{"query", "--db", db, "SELECT op, x'00ff' AS b FROM events LIMIT 3"}},
		{"ingero summary --json", []string{"summary", "--db", db}},
		{"ingero diff --json", []string{"diff", db, db}},
	} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		e := &Env{Args: append(tt.args, "--json"), Stdin: os.Stdin, Stdout: out, Stderr: os.Stderr, Now: atTheEnd, Getenv: func(string) string { return "" }, Lock: testPlace(t)}
		if code := e.run(t.Context()); code != 0 {
			t.Errorf("%v: exit code %d", tt.args, code)
		}
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.check(tt.document, text); err != nil {
			t.Errorf("%v: %v in %.500s", tt.args, err, text)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
