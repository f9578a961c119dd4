package query

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// A copy is of one moment, even if the writer checkpoints between the copies of the two files.
func TestCopyOfDatabaseInUse(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "x.db"), filepath.Join(dir, "copy.db")
	db, err := sql.Open("sqlite", "file:"+from+"?_pragma=journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	exec := func(text string) {
		t.Helper()
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	// Both columns always have the same sum; the rows take several pages.
	exec("CREATE TABLE x (a INTEGER PRIMARY KEY, b INTEGER, text TEXT); CREATE TABLE y (b INTEGER)")
	add := func() { exec("INSERT INTO x (b, text) VALUES (1, hex(zeroblob(3000))); INSERT INTO y VALUES (1)") }
	for range 50 {
		add()
	}
	copied, checkpoints := 0, 3
	file := func(to, from string) error {
		err := copyFile(to, from)
		copied++
		if !strings.HasSuffix(from, "-wal") && checkpoints > 0 {
			checkpoints--
			add()
			exec("PRAGMA wal_checkpoint(RESTART)")
			add()
		}
		return err
	}
	if err := copyDatabase(to, from, file); err != nil {
		t.Fatal(err)
	}
	if copied != 8 {
		t.Errorf("%d files were copied, want 8", copied)
	}
	if got := testkit.Rows(t, to, "PRAGMA integrity_check"); got != "ok" {
		t.Errorf("integrity: %s", got)
	}
	const sums = "SELECT (SELECT sum(b) FROM x), (SELECT sum(b) FROM y)"
	if got, want := testkit.Rows(t, to, sums), testkit.Rows(t, from, sums); got != want {
		t.Errorf("sums %s, want %s", got, want)
	}
	checkpoints = copyTries
	if err := copyDatabase(to, from, file); err == nil {
		t.Error("a database that always changes was copied")
	}
}
