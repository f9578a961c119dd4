package dashboard

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

func database(t *testing.T, path, id string) {
	t.Helper()
	now := time.Date(2026, 11, 20, 14, 41, 0, 0, time.UTC)
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now }, Session: segment.Session{ID: id, Node: "gpu-7", Started: now}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Tick(&tick.Tick{Time: now, Started: now, Seq: 1, Final: true}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func idOf(t *testing.T, r *query.Reader) string {
	t.Helper()
	s, err := r.Session(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// A copy is read only until another recording begins.
func TestOpenerDropsCopies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	database(t, path, "one")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	older := fmt.Sprint("DROP INDEX chains_time; DROP INDEX episodes_time; DROP INDEX episodes_open; PRAGMA user_version = ", store.Schema()-1) // so that it is copied
	if _, err := db.Exec(older); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o := newOpener(func() string { return path })
	defer o.end()
	var readers []*query.Reader
	ask := func() string {
		r, done, err := o.reader()
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		readers = append(readers, r)
		return idOf(t, r)
	}
	first, again := ask(), ask()
	database(t, path, "two")
	if then := ask(); first != "one" || again != "one" || readers[1] != readers[0] || then != "two" {
		t.Errorf("sessions %s, %s and %s, one reader for the first two: %v", first, again, then, readers[1] == readers[0])
	}
}

// A database is opened once for consecutive questions, reopened when another file has its name, and
// closed after an idle time.
func TestOpener(t *testing.T) {
	testkit.LeakCheck(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	o := newOpener(func() string { return path })
	if _, _, err := o.reader(); err == nil {
		t.Fatal("there is none, and it was opened")
	}
	database(t, path, "one")
	first, done, err := o.reader()
	if err != nil {
		t.Fatal(err)
	}
	second, doneToo, err := o.reader()
	if err != nil || second != first {
		t.Errorf("it is opened twice: %v", err)
	}
	doneToo()
	database(t, filepath.Join(dir, "y.db"), "two")
	if err := os.Rename(filepath.Join(dir, "y.db"), path); err != nil {
		t.Fatal(err)
	}
	other, doneOther, err := o.reader()
	if err != nil || idOf(t, other) != "two" {
		t.Errorf("the new one: %v", err)
	}
	if idOf(t, first) != "one" {
		t.Error("the first reader now reads the new database")
	}
	done()
	if err := first.Close(); err != nil || o.db == nil || o.db.Reader != other {
		t.Errorf("the first is open still: %v", err)
	}
	doneOther()
	o.idle()
	if o.db != nil {
		t.Error("it stays open")
	}
	again, done, err := o.reader()
	if err != nil || idOf(t, again) != "two" {
		t.Errorf("opened again: %v", err)
	}
	done()
	o.end()
}
