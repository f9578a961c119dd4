package store

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Calls are in the file 250 ms after they came, whether others follow or not.
func TestCallsAreWrittenInTime(t *testing.T) {
	db, c := open(t, filepath.Join(t.TempDir(), "x.db"), Options{})
	g := storetest.NewGenerator(7)
	written := func() int { a, _ := readLog(t, db); return len(a.calls) }
	batch := func() {
		t.Helper()
		if err := db.Batch(&tick.Batch{Calls: g.Calls(nil, 10)[:10]}); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for _, step := range []func(){
		batch,
		func() { c.advance(199 * time.Millisecond) },
		func() { c.advance(time.Millisecond) }, // the timer
		func() { c.advance(time.Second) },
		batch, // at once: long after the last flush
		func() { c.advance(80 * time.Millisecond); batch() },
		func() { c.advance(80 * time.Millisecond); batch() },
		func() { c.advance(40 * time.Millisecond) },
	} {
		step()
		got = append(got, written())
	}
	if want := []int{0, 0, 10, 10, 20, 20, 20, 40}; !slices.Equal(got, want) {
		t.Errorf("calls in the file: %v, want %v", got, want)
	}
}

func TestOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if Recording(path) {
		t.Error("a database that does not exist is being written")
	}
	db, _ := open(t, path, Options{})
	_, err := Open(Options{Path: path})
	var held *LockedError
	if !errors.As(err, &held) || held.PID != os.Getpid() || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid(), " records to ")) {
		t.Errorf("second writer: %v", err)
	}
	if !Recording(path) {
		t.Error("Recording says no while it is held")
	}
	// As in a child between fork and exec.
	forked, err := unix.FcntlInt(db.held.lock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(forked) }()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if Recording(path) {
		t.Error("Recording says yes after Close")
	}
	again, _ := open(t, path, Options{})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Rows(t, path, "SELECT count(*), count(DISTINCT uid) FROM sessions"); n != "2 2" {
		t.Errorf("sessions: %s, want 2 2", n)
	}
}

func TestReadersDoNotStopTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	reader, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	tx, err := reader.Begin()
	if err != nil {
		t.Fatal(err)
	}
	n := -1
	if err := tx.QueryRow("SELECT records FROM sessions").Scan(&n); err != nil || n != 0 {
		t.Fatal(n, err)
	}
	k := storetest.NewKernel()
	for i := range uint64(20) {
		c.advance(time.Second)
		k.See(storetest.NewGenerator(i).Calls(nil, 100))
		if err := db.Tick(k.Tick(i+1, c.now, false)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.QueryRow("SELECT records FROM sessions").Scan(&n); err != nil || n != 0 {
		t.Errorf("the reader's view moved to %d (%v)", n, err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("Close beside a reader: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	if err := reader.QueryRow("SELECT records FROM sessions").Scan(&n); err != nil || n != 2000 {
		t.Errorf("afterwards: %d records, want 2000 (%v)", n, err)
	}
}

// Another program's transaction skips ticks, but does not end the recording.
func TestOthersTransactionDoesNotEndTheRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{})
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	k := storetest.NewKernel()
	step := func(seq uint64) {
		t.Helper()
		calls := storetest.NewGenerator(seq).Calls(nil, 100)
		k.See(calls)
		c.advance(time.Second)
		if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(k.Tick(seq, c.now, false))); err != nil {
			t.Fatal(err)
		}
	}
	step(1)
	if n := testkit.Rows(t, path, "SELECT records FROM sessions"); n != "0" {
		t.Errorf("records = %s while another has the database", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	step(2)
	var calls uint64
	for _, o := range k.Ops {
		calls += o.Sum.Calls
	}
	if n := testkit.Rows(t, path, "SELECT records, sum(calls) FROM sessions, ops"); n != fmt.Sprint("200 ", calls) {
		t.Errorf("afterwards: %s, want 200 %d", n, calls)
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 400)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, newer := filepath.Join(dir, "foreign.db"), filepath.Join(dir, "newer.db")
	for path, query := range map[string]string{
		foreign: "CREATE TABLE events (id)",
		newer:   fmt.Sprint("CREATE TABLE x (y); PRAGMA user_version = 99; PRAGMA application_id = ", applicationID),
	} {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{text: "not a SQLite file", foreign: "another program", newer: "newer"} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Path: path}); !errors.Is(err, ErrNotDatabase) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", filepath.Base(path), err, want)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s was changed (%v)", filepath.Base(path), err)
		}
	}
	if _, err := Open(Options{Path: dir}); err == nil {
		t.Error("a directory was opened as a database")
	}
}

func TestFailedOpenLeavesNothingOpen(t *testing.T) {
	testkit.LeakCheck(t)
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, []byte("not a database, and long enough to be taken for one: "+strings.Repeat(".", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := Open(Options{Path: path}); err == nil {
			t.Fatal("opened")
		}
	}
	if Recording(path) {
		t.Error("the lock is still held")
	}
}

func TestKilledWriterLosesNothingWritten(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		path := filepath.Join(t.TempDir(), "x.db")
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), writerEnv+"="+path)
		child := testkit.Start(t, cmd)
		said := 0
		for range 10 + 7*round {
			if _, err := fmt.Sscanf(child.Line("calls"), "calls %d", &said); err != nil {
				t.Fatal(err)
			}
		}
		if !Recording(path) {
			t.Error("Recording says no while the child writes")
		}
		child.Signal(syscall.SIGKILL)
		_ = child.Wait()
		if Recording(path) {
			t.Error("Recording says yes after the kill")
		}
		logs, err := filepath.Glob(filepath.Join(LogDir(path), "*.ilog"))
		if err != nil || len(logs) != 1 {
			t.Fatalf("logs %v, error %v", logs, err)
		}
		b, err := os.ReadFile(logs[0])
		if err != nil {
			t.Fatal(err)
		}
		l, err := segment.OpenLog(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := readLogged(l)
		if err != nil || len(got.calls) < said {
			t.Errorf("%d calls in the log, %d were written (%v)", len(got.calls), said, err)
		}
		db, _ := open(t, path, Options{})
		if s := testkit.Rows(t, path, "PRAGMA integrity_check"); s != "ok" {
			t.Error(s)
		}
		if s := testkit.Rows(t, path, "SELECT state, count(*) FROM sessions GROUP BY 1"); s != "interrupted 1\nrunning 1" {
			t.Errorf("sessions: %s", s)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	db, err := Open(Options{Path: filepath.Join(b.TempDir(), "x.db")})
	if err != nil {
		b.Fatal(err)
	}
	const n = 8192
	batch := tick.Batch{Calls: storetest.NewGenerator(1).Calls(nil, n)[:n]}
	b.ReportAllocs()
	for b.Loop() {
		if err := db.Batch(&batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds()/1e6, "Mcalls/s")
	b.ReportMetric(0, "ns/op")
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTick is a second of a session with 256 operations, all changed.
func BenchmarkTick(b *testing.B) {
	db, err := Open(Options{Path: filepath.Join(b.TempDir(), "x.db")})
	if err != nil {
		b.Fatal(err)
	}
	k := storetest.NewKernel()
	for pid := range uint32(64) {
		for _, o := range []events.Op{storetest.OpLaunch, storetest.OpCuLaunch, storetest.OpCopy, storetest.OpSync} {
			for i := range int64(1000) {
				k.Op(pid, o).Dur.Add(1000+i*i, 1)
				k.Op(pid, o).Hist.Record(1000+i*i, 1)
			}
		}
	}
	t := k.Tick(1, storetest.Began, false)
	for b.Loop() {
		t.Seq++
		for i := range t.Ops {
			t.Ops[i].Sum.Calls++
		}
		if err := db.Tick(t); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
