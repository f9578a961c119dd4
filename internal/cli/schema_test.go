package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// published is docs/reference/schema.json.
type published struct{ jsonschema.Schema }

func readSchema(t *testing.T) *published {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	p := &published{}
	if err := json.Unmarshal(text, &p.Schema); err != nil {
		t.Fatal(err)
	}
	return p
}

// check returns an error if a document does not have the form in the schema, or has a member that is
// not in the schema.
func (p *published) check(document string, text []byte) error {
	i := slices.IndexFunc(p.AnyOf, func(s *jsonschema.Schema) bool { return strings.TrimPrefix(s.Title, "ingero ") == document })
	if i < 0 {
		return os.ErrNotExist
	}
	s := p.CloneSchemas()
	s.AnyOf, s.Ref = nil, p.AnyOf[i].Ref
	for _, d := range s.Defs {
		d.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return r.Validate(v)
}

// What commands print with --json fits the published schema.
func TestJSONFitsSchema(t *testing.T) {
	db, schema := testDB(t), readSchema(t)
	for _, tt := range []struct {
		document string
		args     []string
	}{
		{"explain --json", []string{"explain", "--db", db}},
		{"explain --json", []string{"demo", "incident", "--recorded"}},
		{"query --json", []string{"query", "--db", db, "--per-process"}},
		{"query STATEMENT --json", []string{"query", "--db", db, "SELECT op, x'00ff' AS b FROM events LIMIT 3"}},
		{"summary --json", []string{"summary", "--db", db}},
		{"diff --json", []string{"diff", db, db}},
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
