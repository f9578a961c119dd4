package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"ingero/internal/query"
)

const schemaHead = `# Schema

<!-- Generated from internal/store/migrations and internal/query by make docs. -->

For people who query recordings with SQL: virtual tables of calls, waits and requests, functions that aggregate
them, and the tables of the SQLite file. A statement can join all of them, over all
sessions of the database. Times are in Unix nanoseconds, durations in nanoseconds;
NULL means unknown.

A statement begins with SELECT, WITH, VALUES or EXPLAIN and is read-only: it runs on
its own connection, which permits nothing else. It stops after 10 s, 10,000 rows or
16 MB of rows, and may use less than 256 MB of memory and values of up to 100,000
bytes. An answer reports what it lacks: deleted recordings or damaged logs.

For sums, prefer the functions to ` + "`events`" + `: they do not read single calls and are
many times faster. Conditions on timestamp, session, node, pid and op limit what a
query on ` + "`events`" + ` has to read.

Only ingero has the virtual tables: other SQLite programs see only the tables of the
file.
`

// tableDoc is a table of the SQLite file, from its migrations.
type tableDoc struct {
	name, about string
	columns     []query.SQLColumn
}

// schema renders every table, function and example.
func schema(migrations string) (string, error) {
	tables, err := fileTables(migrations)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(schemaHead)
	b.WriteString("\n## Virtual tables and functions\n")
	for _, t := range query.SQLSchema() {
		args := make([]string, len(t.Args))
		for i, a := range t.Args {
			args[i] = a.Name
		}
		call := t.Name
		if len(args) > 0 {
			call += "(" + strings.Join(args, ", ") + ")"
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", call, t.About)
		if len(t.Args) > 0 {
			b.WriteString("\nTrailing arguments may be omitted; an argument may be NULL.\n")
			columnTable(&b, "argument", t.Args)
		}
		columnTable(&b, "column", t.Columns)
	}
	own, builtin := query.SQLFunctions()
	b.WriteString("\n## Functions\n\n| function | result |\n|---|---|\n")
	for _, f := range own {
		fmt.Fprintf(&b, "| `%s(%s)` | %s |\n", f.Name, f.Args, f.About)
	}
	fmt.Fprintf(&b, "\nSQLite functions that statements can use: %s; and the tables `json_each` and `json_tree`.\n", cell(builtin...))
	b.WriteString("\n## Tables of the file\n")
	for _, t := range tables {
		fmt.Fprintf(&b, "\n### %s\n", t.name)
		if t.about != "" {
			fmt.Fprintf(&b, "\n%s\n", t.about)
		}
		columnTable(&b, "column", t.columns)
	}
	b.WriteString("\n## Examples\n")
	for _, x := range query.SQLExamples {
		fmt.Fprintf(&b, "\n%s\n\n```sql\n%s\n```\n", x.Question, x.SQL)
	}
	return b.String(), nil
}

func columnTable(b *strings.Builder, what string, columns []query.SQLColumn) {
	fmt.Fprintf(b, "\n| %s | type | meaning |\n|---|---|---|\n", what)
	for _, c := range columns {
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.Name, c.Type, strings.ReplaceAll(c.About, "|", `\|`))
	}
}

// Parsed lines of a migration: the beginning and end of a table, a column with type and comment, an
// added column, and a removal.
var (
	createLine = regexp.MustCompile(`^CREATE TABLE (\w+) \($`)
	endLine    = regexp.MustCompile(`^\)[^;]*;$`)
	columnLine = regexp.MustCompile(`^\t(\w+)\s+(TEXT|INTEGER|REAL|BLOB)\b[^-]*(?:-- (.*))?$`)
	addLine    = regexp.MustCompile(`^ALTER TABLE (\w+) ADD COLUMN (\w+) (TEXT|INTEGER|REAL|BLOB)\b[^-]*(?:-- (.*))?$`)
	cutLine    = regexp.MustCompile(`^ALTER TABLE (\w+) DROP COLUMN (\w+);`)
	renameLine = regexp.MustCompile(`^ALTER TABLE (\w+) RENAME TO (\w+);`)
	dropLine   = regexp.MustCompile(`^DROP TABLE (?:IF EXISTS )?(\w+);`)
	keyLine    = regexp.MustCompile(`^\t(PRIMARY KEY|UNIQUE|FOREIGN KEY|CHECK)\b`)
	noteLine   = regexp.MustCompile(`^\s*-- (.*)$`)
)

// fileTables reads the tables and their descriptions from the migrations.
func fileTables(dir string) ([]tableDoc, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.sql"))
	if err == nil && len(paths) == 0 {
		err = errors.New("no migrations in " + dir)
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var m migrated
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m.in, m.notes = nil, nil
		for line := range strings.Lines(string(text)) {
			if err := m.line(strings.TrimRight(line, "\n")); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	out := make([]tableDoc, len(m.tables))
	for i, t := range m.tables {
		out[i] = *t
	}
	return out, nil
}

// migrated is the state after the migrations so far.
type migrated struct {
	tables []*tableDoc
	in     *tableDoc // table of the current columns
	notes  []string  // comments before the current line
}

func (m *migrated) find(name string) *tableDoc {
	for _, t := range m.tables {
		if t.name == name {
			return t
		}
	}
	return nil
}

// line parses one line of a migration.
func (m *migrated) line(s string) error {
	if m.in != nil {
		return m.column(s)
	}
	if f := noteLine.FindStringSubmatch(s); f != nil {
		m.notes = append(m.notes, f[1])
		return nil
	}
	about := strings.Join(m.notes, " ")
	switch create, add := createLine.FindStringSubmatch(s), addLine.FindStringSubmatch(s); {
	case create != nil:
		m.in = &tableDoc{name: create[1], about: about}
		m.tables = append(m.tables, m.in)
	case add != nil:
		t := m.find(add[1])
		if t == nil {
			return fmt.Errorf("no table %s for %q", add[1], s)
		}
		if add[4] != "" {
			about = add[4]
		}
		t.columns = append(t.columns, query.SQLColumn{Name: add[2], Type: add[3], About: about})
		return nil // the comment also covers the next lines
	case cutLine.MatchString(s):
		f := cutLine.FindStringSubmatch(s)
		if t := m.find(f[1]); t != nil {
			t.columns = slices.DeleteFunc(t.columns, func(c query.SQLColumn) bool { return c.Name == f[2] })
		}
	case renameLine.MatchString(s):
		f := renameLine.FindStringSubmatch(s)
		if t := m.find(f[1]); t != nil {
			t.name = f[2]
		}
	case dropLine.MatchString(s):
		name := dropLine.FindStringSubmatch(s)[1]
		m.tables = slices.DeleteFunc(m.tables, func(t *tableDoc) bool { return t.name == name })
	}
	m.notes = nil
	return nil
}

// column parses one line of a table.
func (m *migrated) column(s string) error {
	t := m.in
	switch f := columnLine.FindStringSubmatch(s); {
	case f != nil:
		t.columns = append(t.columns, query.SQLColumn{Name: f[1], Type: f[2], About: f[3]})
	case endLine.MatchString(s):
		m.in, m.notes = nil, nil
	case keyLine.MatchString(s), strings.TrimSpace(s) == "":
	case noteLine.MatchString(s) && len(t.columns) > 0: // continues the previous line
		last := &t.columns[len(t.columns)-1]
		last.About = strings.TrimSpace(last.About + " " + noteLine.FindStringSubmatch(s)[1])
	default:
		return fmt.Errorf("table %s: %q is no column", t.name, s)
	}
	return nil
}
