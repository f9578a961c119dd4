package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/causal"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// The matrix has a line for each function that go test runs, and no others.
func TestMatrix(t *testing.T) {
	files := map[string]string{
		"b/b_test.go": `package b

// A word is read. More follows.
func TestRead(t *testing.T) {}

func TestReadsPIDOnce(t *testing.T) {}
func Testing() {}
func TestMain(m *testing.M) {}
func (x x) TestMethod(t *testing.T) {}
func helper(t *testing.T) {}
`,
		"a/a_test.go":          "package a\n\nfunc FuzzParse(f *testing.F) {}\n",
		"a/a.go":               "package a\n\nfunc TestNot(t *testing.T) {}\n",
		"a/testdata/c_test.go": "package c\n\nfunc TestNot(t *testing.T) {}\n",
	}
	root := testkit.Tree(t, files)
	got, err := testMatrix(root)
	if err != nil {
		t.Fatal(err)
	}
	want := testMatrixHead +
		"| 1 | FuzzParse | parse | a/a_test.go |\n" +
		"| 1 | TestRead | A word is read. | b/b_test.go |\n" +
		"| 2 | TestReadsPIDOnce | reads PID once | b/b_test.go |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Every operation of the catalog has its line, and a bar does not end its table cell.
func TestOperations(t *testing.T) {
	text := operations()
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if n := strings.Count(text, fmt.Sprintf("| %#04x | `%s` | ", uint16(r.Op), r.Name)); n != 1 {
			t.Errorf("%s has %d lines, want 1", r.Name, n)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| 0x") {
			continue
		}
		if n := strings.Count(line, "|") - strings.Count(line, `\|`); n != 10 {
			t.Errorf("%d cells in %q, want 9", n-1, line)
		}
	}
}

// The documented tables and columns, read from the migrations' text, equal those that SQLite
// creates.
func TestSchemaIsThatOfTheFile(t *testing.T) {
	tables, err := fileTables("../../internal/store/migrations")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{ID: "s", Started: time.Unix(1, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	made, err := r.SQL(t.Context(), "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid", query.SQLLimits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Rows) != len(tables) {
		t.Errorf("%d tables are explained, the file has %v", len(tables), made.Rows)
	}
	for _, table := range tables {
		res, err := r.SQL(t.Context(), "SELECT * FROM main."+table.name, query.SQLLimits{})
		if err != nil {
			t.Error(err)
			continue
		}
		var names []string
		for _, c := range table.columns {
			names = append(names, c.Name)
		}
		if !slices.Equal(res.Columns, names) {
			t.Errorf("%s: %v are explained, it has %v", table.name, names, res.Columns)
		}
	}
}

// A migration's comments become the descriptions of a table and its columns.
func TestSchemaOfMigrations(t *testing.T) {
	dir := testkit.Tree(t, map[string]string{
		"0001_a.sql": "-- Of the whole.\n\n-- One\n-- thing.\nCREATE TABLE a (\n\tid INTEGER PRIMARY KEY,\n\tx TEXT NOT NULL DEFAULT '', -- the name,\n\t                            -- in words\n\tPRIMARY KEY (id)\n) WITHOUT ROWID;\nCREATE TABLE b (\n\ty REAL\n);\nCREATE INDEX i ON a (x);\n",
		"0002_b.sql": "-- New.\nALTER TABLE a ADD COLUMN z INTEGER;\nALTER TABLE a ADD COLUMN w BLOB; -- bytes\nDROP TABLE b;\nALTER TABLE a ADD COLUMN v TEXT;\nALTER TABLE a DROP COLUMN v;\n",
	})
	got, err := fileTables(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []tableDoc{{"a", "One thing.", []query.SQLColumn{{Name: "id", Type: "INTEGER"}, {Name: "x", Type: "TEXT", About: "the name, in words"},
		{Name: "z", Type: "INTEGER", About: "New."}, {Name: "w", Type: "BLOB", About: "bytes"}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for name, text := range map[string]string{"a column": "CREATE TABLE a (\n\tx NUMBER,\n);\n", "a table": "ALTER TABLE a ADD COLUMN z INTEGER;\n"} {
		if _, err := fileTables(testkit.Tree(t, map[string]string{"0001.sql": text})); err == nil {
			t.Errorf("%s that cannot be read is passed over", name)
		}
	}
	if _, err := fileTables(t.TempDir()); err == nil {
		t.Error("no migrations are no error")
	}
}

// Each rule and each problem has its description.
func TestDetections(t *testing.T) {
	text := detections()
	for i := range causal.Rules {
		r := &causal.Rules[i]
		_, section, found := strings.Cut(text, "\n### "+r.Name+"\n\n"+r.Doc+"\n\n    Looks like  ")
		section, _, _ = strings.Cut(section, "\n### ")
		if !found || r.Doc == "" || !strings.Contains(section, "\n    Fix ") || !strings.Contains(section, "\nNeeds ") {
			t.Errorf("%s: it is %q", r.Name, section)
		}
	}
	for i := range causal.Problems {
		p := &causal.Problems[i]
		if n := strings.Count(text, fmt.Sprintf("\n| %s | %s | ", p.Number, p.Name)); n != 1 {
			t.Errorf("%s has %d lines, want 1", p.Number, n)
		}
	}
	all := causal.Needs(0)
	for _, w := range needWords {
		all |= w.need
	}
	for i := range causal.Rules {
		if causal.Rules[i].Needs&^all != 0 {
			t.Errorf("%s needs what has no words: %b", causal.Rules[i].Name, causal.Rules[i].Needs)
		}
	}
}
