package query

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ingero/internal/store"
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
	file := func(ctx context.Context, to, from string) error {
		err := copyFile(ctx, to, from)
		copied++
		if !strings.HasSuffix(from, "-wal") && checkpoints > 0 {
			checkpoints--
			add()
			exec("PRAGMA wal_checkpoint(RESTART)")
			add()
		}
		return err
	}
	if err := copyFiles(t.Context(), to, from, file); err != nil {
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
	if err := copyFiles(t.Context(), to, from, file); err == nil {
		t.Error("a database that always changes was copied")
	}
}

// old makes a database of the first schema with a large table, and tables whose columns b have the same sum.
func old(t *testing.T) (path string, db *sql.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	few(t, path, 1).close()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(toFirstSchema + "; CREATE TABLE x (b INTEGER); CREATE TABLE y (b INTEGER); CREATE TABLE large AS SELECT zeroblob(20000000)"); err != nil {
		t.Fatal(err)
	}
	return path, db
}

// A database that an older recorder always changes is copied in one pass, as of one moment.
func TestCopyOfOldDatabaseInUse(t *testing.T) {
	path, db := old(t)
	ctx, stop := context.WithCancel(t.Context())
	began := make(chan error, 1)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop()
	writing.Go(func() {
		for ctx.Err() == nil {
			_, err := db.Exec("BEGIN; INSERT INTO x VALUES (1); INSERT INTO y VALUES (1); COMMIT; PRAGMA wal_checkpoint(RESTART)")
			select {
			case began <- err:
			default:
			}
		}
	})
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	const sums = "SELECT (SELECT sum(b) FROM x) = (SELECT sum(b) FROM y)"
	if got := testkit.Rows(t, filepath.Join(r.temp, copyName), sums); got != "1" {
		t.Errorf("the sums are equal: %s", got)
	}
}

// What is intact of a damaged old database can be read.
func TestCopyOfDamagedOldDatabase(t *testing.T) {
	path, db := old(t)
	if _, err := db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 8192), info.Size()/2)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	if err := r.Snapshot(t.Context(), filepath.Join(t.TempDir(), "y.db")); err == nil {
		t.Error("SQLite copies the database: nothing is damaged")
	}
	if got := testkit.Rows(t, filepath.Join(r.temp, copyName), "SELECT count(*) FROM sessions"); got != "1" {
		t.Errorf("%s sessions", got)
	}
}

// The context ends a copy, which leaves nothing behind.
func TestCopyEndsWithContext(t *testing.T) {
	path, _ := old(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Open(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("of an old database: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := copyFiles(ctx, filepath.Join(dir, "copy"), path, copyFile); !errors.Is(err, context.Canceled) {
		t.Errorf("of files: %v", err)
	}
}

// Without room for a copy, the error says where, and the database is not damaged.
func TestNoRoomForCopy(t *testing.T) {
	testkit.NeedRoot(t)
	path, _ := old(t)
	dir := t.TempDir()
	testkit.NeedMount(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1048576"))
	defer func() { _ = syscall.Unmount(dir, 0) }()
	t.Setenv("TMPDIR", dir)
	var room *RoomError
	if _, err := Open(t.Context(), path); !errors.As(err, &room) || room.Dir != dir {
		t.Errorf("opened with %v", err)
	}
	if _, err := Verify(t.Context(), path, VerifyOptions{}); !errors.As(err, &room) {
		t.Errorf("verified with %v", err)
	}
}

// A write that exceeds a quota is reported as no room, also when SQLite makes it. The limit of a file's size
// stands in for a quota.
func TestQuotaTooSmallForCopy(t *testing.T) {
	path, db := old(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	check := func(name string, limit int64) {
		t.Helper()
		var was syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(limit), Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), path)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
		var room *RoomError
		if !errors.As(err, &room) || room.Dir != dir || !strings.HasSuffix(err.Error(), ": "+room.Err.Error()) {
			t.Errorf("%s: opened with %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
	check("copy", 1<<20)
	small := filepath.Join(t.TempDir(), "small.db")
	_, err := db.Exec("DROP TABLE large; VACUUM INTO ?", small)
	if err != nil {
		t.Fatal(err)
	}
	check("migration", fileSize(small)) // its write-ahead log is larger
}

// A damaged database is reported as such, also if the directory of the copy has no room for more.
func TestDamagedOldDatabaseInSmallDirectory(t *testing.T) {
	testkit.NeedRoot(t)
	path, db := old(t)
	var page, size int64
	if err := db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE); SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE name = 'sessions'").Scan(&page, &size); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, int(size)), (page-1)*size)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	testkit.NeedMount(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24M"))
	defer func() { _ = syscall.Unmount(dir, 0) }()
	t.Setenv("TMPDIR", dir)
	var room *RoomError
	if _, err := Open(t.Context(), path); !store.Damaged(err) || errors.As(err, &room) {
		t.Errorf("opened with %v", err)
	}
}
