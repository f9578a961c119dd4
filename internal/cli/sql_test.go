package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/query"
	"ingero/internal/testkit"
)

func TestStatementEnd(t *testing.T) {
	for in, want := range map[string]int{
		"":                                 0,
		"SELECT 1":                         0,
		"SELECT 1;":                        9,
		"SELECT 1; SELECT 2;":              9,
		";":                                1,
		"SELECT ';';":                      11,
		"SELECT 'it''s;' ;":                17,
		`SELECT "a;b", [c;d], ` + "`e;f`;": 27,
		"SELECT 1 -- not; yet\n;":          22,
		"SELECT 1 -- not; yet":             0,
		"SELECT /* no; */ 1;":              19,
		"SELECT /* no;":                    0,
		"SELECT 'open;":                    0,
		"SELECT 1 - -1;":                   14,
	} {
		if got := statementEnd(in); got != want {
			t.Errorf("statementEnd(%q) = %d, want %d", in, got, want)
		}
	}
	for in, want := range map[string]bool{"": true, " \n": true, "-- x\n /* y */": true, "-- x": true, "/* x": true, "SELECT": false, "-- x\nSELECT": false} {
		if got := blank(in); got != want {
			t.Errorf("blank(%q) = %v", in, got)
		}
	}
}

func TestCompletion(t *testing.T) {
	n := sqlNames{tables: []string{"events", "op_stats", "ops"}, words: []string{"count", "event", "op", "oncpu_ns", "pid"}}
	for line, want := range map[string]string{
		"SELECT pi":               "pid",
		"SELECT count(*) FROM ev": "events",
		"SELECT * FROM op":        "op_stats ops", "SELECT op": "op op_stats ops",
		"SELECT events.pi": "pid",
		"sel":              "select",
		"SEL":              "SELECT",
		"SELECT * FROM ":   "events op_stats ops",
		".sc":              ".schema",
		".":                ".tables .schema .mode .help .quit",
		".mode ":           "table json csv",
		".mode j":          "json",
		".schema e":        "events",
		"SELECT zzz":       "",
	} {
		got, length := n.fitting(line)
		if strings.Join(got, " ") != want || !strings.HasSuffix(line, line[len(line)-length:]) {
			t.Errorf("%q may become %q, want %q", line, got, want)
		}
	}
	if got := common([]string{"op_stats", "op", "OPS"}); got != "op" {
		t.Errorf("common = %q", got)
	}
}

// desk is a shell on a terminal, with a database and a home directory.
type desk struct {
	*testkit.Terminal
	home  string
	ended chan int
}

func newDesk(t *testing.T, home string) *desk {
	t.Helper()
	db := filepath.Join(t.TempDir(), "x.db")
	if err := recordFixture(db, "gpu-7-one", "gpu-7", began, 1); err != nil {
		t.Fatal(err)
	}
	d := &desk{Terminal: testkit.NewTerminal(t), home: home, ended: make(chan int, 1)}
	env := map[string]string{"HOME": home, "TERM": "xterm"}
	e := &Env{Lock: testPlace(t), Args: []string{"sql", "--db", db}, Stdin: d.Side, Stdout: d.Side, Stderr: d.Side,
		Getenv: func(k string) string { return env[k] }}
	ctx, stop := context.WithCancel(context.Background())
	go func() { d.ended <- e.run(ctx) }()
	t.Cleanup(stop)
	d.Until("sql> ")
	return d
}

// quit ends the shell and returns its exit code.
func (d *desk) quit(t *testing.T) int {
	t.Helper()
	d.Type(".quit\r")
	return <-d.ended
}

// The shell works on a real terminal.
func TestSQLOnATerminal(t *testing.T) {
	d := newDesk(t, t.TempDir())
	d.Type("SELECT uid,\r")
	d.Until("...> ")
	d.Type("node FROM sess\t;\r") // the Tab key completes the table's name
	if got := d.Until("(1 row, "); !strings.Contains(got, "uid        node\r\ngpu-7-one  gpu-7\r\n") || !strings.Contains(got, "FROM sessions ;") {
		t.Errorf("the terminal shows %q", got)
	}
	d.Until("sql> ")
	d.Type("SELECT 'dropped\x03") // Ctrl-C discards the typed text
	d.Until("sql> ")
	d.Type("SELEC 1;\r") // after an error, the shell continues
	d.Until("ingero: cannot run the statement: ")
	d.Until("sql> ")
	d.Type("\x1b[A") // the last line again, by the arrow key
	d.Until("SELEC 1;")
	d.Type("\x1b[D\x1b[D\x1b[DT\r")
	if got := d.Until("(1 row, "); !strings.Contains(got, "1\r\n1\r\n") {
		t.Errorf("the terminal shows %q", got)
	}
	d.Until("sql> ")
	d.Type(".mode csv\r")
	d.Until("sql> ")
	d.Type("SELECT 1 AS a, 2 AS b; SELECT 3;\r")
	d.Until("a,b\r\n1,2\r\n(1 row, ")
	d.Until("\r\n3\r\n3\r\n(1 row, ")
	if code := d.quit(t); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

// Ctrl-D ends the shell and restores the terminal.
func TestSQLGivesTheTerminalBack(t *testing.T) {
	d := newDesk(t, t.TempDir())
	d.Type("\x04")
	if code := <-d.ended; code != 0 {
		t.Errorf("it ends with %d", code)
	}
	d.Type("echo\n") // echoed by the terminal, as only cooked ones do
	d.Until("echo\r\n")
}

// Ctrl-C stops a statement, and the shell continues.
func TestCtrlCStopsAStatement(t *testing.T) {
	d := newDesk(t, t.TempDir())
	d.Type("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n;\r")
	d.Until("FROM n;\r")
	d.Type("\x03")
	d.Until("ingero: the statement was stopped")
	d.Until("sql> ")
	if code := d.quit(t); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

// The history belongs to the user and persists.
func TestSQLHistory(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".ingero", "sql_history")
	d := newDesk(t, home)
	d.Type("SELECT 11;\r")
	d.Until("(1 row, ")
	d.Until("sql> ")
	d.quit(t)
	d = newDesk(t, home)
	d.Type("\x1b[A\x1b[A") // past .quit
	d.Until("SELECT 11;")
	d.Type("\r")
	d.Until("(1 row, ")
	d.quit(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history is %v (%v), want that others cannot read it", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if diff := cmp.Diff("SELECT 11;\n.quit\nSELECT 11;\n.quit\n", string(text)); err != nil || diff != "" {
		t.Errorf("the history (-want +got): %v\n%s", err, diff)
	}
}

func TestHistoryUnderSudo(t *testing.T) {
	testkit.NeedRoot(t) // to change owners
	home := t.TempDir()
	if err := os.Chown(home, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	who := invoker{UID: 12345, GID: 12345, Home: home, Sudo: true}
	var h history
	if err := h.open(home, who); err != nil {
		t.Fatal(err)
	}
	h.Add("SELECT 1;")
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	path := filepath.Join(home, ".ingero", "sql_history")
	if err := syscall.Stat(path, &st); err != nil || st.Uid != 12345 || st.Mode&0o777 != 0o600 {
		t.Errorf("the history is user %d's, mode %o (%v)", st.Uid, st.Mode, err)
	}
	if err := errors.Join(os.Remove(path), os.Symlink("/etc/hostname", path)); err != nil {
		t.Fatal(err)
	}
	if err := new(history).open(home, who); err == nil {
		t.Error("root follows a symbolic link")
	}
}

// A long history is truncated when it is read.
func TestHistoryIsBounded(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".ingero", "sql_history")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(strings.Repeat("a\nb\n", 3*historyLines)), 0o600)); err != nil {
		t.Fatal(err)
	}
	var h history
	if err := h.open(home, invoker{}); err != nil {
		t.Fatal(err)
	}
	h.Add("c")
	h.Add("c")
	h.Add("  ")
	if h.Len() != historyLines+1 || h.At(0) != "c" || h.At(1) != "b" {
		t.Errorf("%d lines, the last %q", h.Len(), h.At(0))
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != historyLines+1 || !strings.HasSuffix(string(text), "a\nb\nc\n") {
		t.Errorf("the file has %d lines (%v)", strings.Count(string(text), "\n"), err)
	}
}

// The shell ends with its context, even without input.
func TestSQLEndsWithItsContext(t *testing.T) {
	x := testkit.NewTerminal(t)
	ctx, stop := context.WithCancel(context.Background())
	e := &Env{Stdin: x.Side, Stdout: x.Side, Stderr: x.Side, Getenv: func(string) string { return "" }}
	k, err := e.keyboard(ctx, sqlNames{})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Millisecond, stop)
	if line, err := k.next(false); line != "" || err == nil {
		t.Errorf("next = %q, %v, want an end", line, err)
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
}

// The description of a table fits the terminal.
func TestDescribed(t *testing.T) {
	got := described(&query.SQLTable{Name: "op_stats", Args: []query.SQLColumn{{Name: "since", Type: "any", About: strings.Repeat("from when on ", 8) + "on"}},
		Columns: []query.SQLColumn{{Name: "op", Type: "TEXT", About: "operation"}}})
	want := `op_stats(since)
    since            any     from when on from when on from when on from when on
                             from when on from when on from when on from when on
                             on
    op               TEXT    operation
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
