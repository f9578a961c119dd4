package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/maintain"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

func merge(t *testing.T, out string, from ...string) *maintain.Merged {
	t.Helper()
	var sources []maintain.Source
	for _, path := range from {
		sources = append(sources, openReader(t, path).Source())
	}
	m, err := maintain.Merge(context.Background(), out, nil, sources)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// dump returns a database's content: every row of every table, and every file.
func dump(t *testing.T, path string) string {
	t.Helper()
	var b strings.Builder
	names := testkit.Rows(t, path, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	for name := range strings.SplitSeq(names, "\n") {
		fmt.Fprintln(&b, name, testkit.Rows(t, path, "SELECT * FROM "+name))
	}
	files, err := segment.List(log.Dir(store.LogDir(path)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := f.Name
		text, err := os.ReadFile(filepath.Join(store.LogDir(path), name))
		info, err2 := os.Stat(filepath.Join(store.LogDir(path), name))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x %v\n", name, text, info.ModTime())
	}
	return b.String()
}

func allCalls(t *testing.T, path string) (out []events.Call) {
	t.Helper()
	cover, err := openReader(t, path).Each(context.Background(), Filter{Session: AllSessions}, func(_ *Session, c *events.Call, _ uint64) bool {
		out = append(out, *c)
		return true
	})
	if err != nil || len(cover.Missing)+len(cover.Damage) > 0 {
		t.Errorf("%s: %+v, %v", path, cover, err)
	}
	return out
}

// Databases of several nodes merge into one with everything in them, and merging a copy changes no
// byte.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	a, b, out := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db"), filepath.Join(dir, "out.db")
	var want []events.Call
	for i, s := range []struct{ path, id, node string }{{a, "n1-one", "n1"}, {b, "n2-one", "n2"}, {a, "n1-two", "n1"}} {
		x := record(t, s.path, segment.Session{ID: s.id, Node: s.node, Started: began.Add(time.Duration(i) * time.Hour)})
		x.second()
		x.close()
		want = append(want, x.calls...)
	}
	m := merge(t, out, a, b)
	if d := cmp.Diff([]string{"n1-one", "n1-two", "n2-one"}, m.Added); d != "" || m.Files != 3 || len(m.Same)+len(m.Replaced) != 0 {
		t.Errorf("%+v %s", m, d)
	}
	if got := allCalls(t, out); !slices.Equal(want, got) {
		t.Errorf("%d calls, want %d", len(got), len(want))
	}
	for path, ids := range map[string][]string{a: {"n1-one", "n1-two"}, b: {"n2-one"}} {
		for _, id := range ids {
			sameSummary(t, "merged", openReader(t, path), openReader(t, out), id)
		}
	}
	before := dump(t, out)
	again := merge(t, out, b, a, copyOf(t, out))
	if len(again.Same) != 6 || len(again.Added)+len(again.Replaced)+again.Files != 0 {
		t.Errorf("again: %+v", again)
	}
	if d := cmp.Diff(before, dump(t, out)); d != "" {
		t.Errorf("merging copies changed it: %.2000s", d)
	}
	if left, err := filepath.Glob(out + "*"); err != nil || len(left) != 2 { // no -wal, no -shm
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// copyOf makes a backup as a copy.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	to, _ := backup(t, openReader(t, path))
	return to
}

// Of two states of one session, the later one is kept, in either order.
func TestMergeLonger(t *testing.T) {
	dir := t.TempDir()
	a, out := filepath.Join(dir, "a.db"), filepath.Join(dir, "out.db")
	x := record(t, a, segment.Session{ID: "live"})
	x.second()
	early := copyOf(t, a)
	var held *store.LockedError
	if _, err := maintain.Merge(context.Background(), out, nil, []maintain.Source{openReader(t, a).Source()}); !errors.As(err, &held) || held.Path != a {
		t.Errorf("merged while it is written: %v", err)
	}
	if m := merge(t, out, early); len(m.Added) != 1 {
		t.Errorf("%+v", m)
	}
	x.second()
	x.close()
	if m := merge(t, out, a); len(m.Replaced) != 1 || m.Files != 1 {
		t.Errorf("%+v", m)
	}
	same(t, "later", openReader(t, a), openReader(t, out))
	before := dump(t, out)
	if m := merge(t, out, early); len(m.Same) != 1 || m.Files != 0 {
		t.Errorf("%+v", m)
	}
	if d := cmp.Diff(before, dump(t, out)); d != "" {
		t.Errorf("an older state changed it: %.2000s", d)
	}
}

// Calls that are here stay, even if the source has a later state without them.
func TestMergePruned(t *testing.T) {
	dir := t.TempDir()
	a, out := filepath.Join(dir, "a.db"), filepath.Join(dir, "out.db")
	x := record(t, a, segment.Session{ID: "one"})
	x.second()
	x.close()
	merge(t, out, a)
	change(t, a, "UPDATE sessions SET updated_ns = updated_ns + 1")
	if err := os.Remove(filepath.Join(store.LogDir(a), "one-000000.iseg")); err != nil {
		t.Fatal(err)
	}
	if m := merge(t, out, a); len(m.Replaced) != 1 {
		t.Errorf("%+v", m)
	}
	if got := allCalls(t, out); !slices.Equal(x.calls, got) {
		t.Errorf("%d calls, want %d", len(got), len(x.calls))
	}
}

// A database of an older ingero can be merged, and is not changed.
func TestMergeOlder(t *testing.T) {
	dir := t.TempDir()
	a, out := filepath.Join(dir, "a.db"), filepath.Join(dir, "out.db")
	x := record(t, a, segment.Session{ID: "one"})
	x.second()
	x.close()
	change(t, a, toFirstSchema)
	before := dump(t, a)
	if m := merge(t, out, a); len(m.Added) != 1 {
		t.Errorf("%+v", m)
	}
	if got := allCalls(t, out); !slices.Equal(x.calls, got) {
		t.Errorf("%d calls, want %d", len(got), len(x.calls))
	}
	if d := cmp.Diff(before, dump(t, a)); d != "" {
		t.Errorf("the source was changed: %s", d)
	}
}

// Unknown tables are copied: those of sessions with the session's number here, others by content.
func TestMergeUnknownTables(t *testing.T) {
	dir := t.TempDir()
	a, out := filepath.Join(dir, "a.db"), filepath.Join(dir, "out.db")
	for _, s := range []struct{ path, id string }{{out, "here"}, {a, "one"}} {
		x := record(t, s.path, segment.Session{ID: s.id})
		x.second()
		x.close()
		change(t, s.path, `CREATE TABLE "to come" (session INTEGER REFERENCES sessions (id) ON DELETE CASCADE, "a b" TEXT)`, "CREATE TABLE shared (hash INTEGER PRIMARY KEY, what TEXT)",
			`INSERT INTO "to come" SELECT id, uid FROM sessions`, "INSERT INTO shared VALUES (1, 'both'), (length('"+s.path+"'), '"+s.id+"')")
	}
	merge(t, out, a)
	merge(t, out, a)
	db, err := sql.Open("sqlite", out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var rows int
	var shared string
	if err := db.QueryRow(`SELECT (SELECT count(*) FROM "to come" t JOIN sessions s ON s.id = t.session AND s.uid = t."a b"),
		(SELECT group_concat(what) FROM (SELECT what FROM shared ORDER BY what))`).Scan(&rows, &shared); err != nil || rows != 2 || shared != "both,here,one" {
		t.Errorf("%d rows, shared %s, %v", rows, shared, err)
	}
}

func change(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
