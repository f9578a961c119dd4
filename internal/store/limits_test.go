package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func TestMaxBytesPrunesOldSessionsThenCaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	const limit = 400 << 10
	var names []string
	for i := range 3 {
		db, c := open(t, path, Options{MaxBytes: limit, Session: Session{ID: fmt.Sprint("s", i)}})
		names = append(names, db.file.Name())
		k := newKernel()
		for j := range uint64(12) {
			calls := newGenerator(j).calls(nil, 2000)
			k.see(calls)
			c.advance(time.Second)
			if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(k.tick(j+1, c.now, j == 11))); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		at := began.Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(names[i], at, at); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(t, path, "SELECT uid, log FROM sessions ORDER BY uid"); got != "s0 \ns1 s1.ilog\ns2 s2.ilog" {
		t.Errorf("sessions and logs:\n%s", got)
	}
	if _, err := os.Stat(names[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the oldest log: %v, want it gone", err)
	}
	testCapped(t)
}

func testCapped(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "y.db")
	db, c := open(t, path, Options{MaxBytes: 150 << 10})
	k, made := newKernel(), 0
	for j := range uint64(40) {
		calls := newGenerator(j).calls(nil, 2000)
		k.see(calls)
		made += len(calls)
		c.advance(time.Second)
		if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(k.tick(j+1, c.now, j == 39))); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	got, _ := readLog(t, db)
	if len(got.calls) == 0 || len(got.calls) >= made || len(got.ticks) != 40 {
		t.Errorf("%d of %d calls, %d ticks", len(got.calls), made, len(got.ticks))
	}
	if n := ask(t, path, "SELECT sum(calls), capped_ns > 0 FROM ops, sessions"); n != fmt.Sprint(made, " 1") {
		t.Errorf("counted %s, want %d and capped", n, made)
	}
}

// smallDisk mounts a file system of so many bytes.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	testkit.NeedRoot(t)
	dir := t.TempDir()
	testkit.NeedMount(t, unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Whichever file the disk fills up under, what was recorded can be read.
func TestFullDisk(t *testing.T) {
	for size := 640 << 10; size < 1200<<10; size += 52 << 10 {
		t.Run(fmt.Sprint(size>>10, "K"), func(t *testing.T) {
			db, c := open(t, filepath.Join(smallDisk(t, size), "x.db"), Options{})
			k, g, made, at := newKernel(), newGenerator(1), 0, ""
			var err error
			for i := uint64(1); err == nil && i < 10_000; i++ {
				calls := g.calls(nil, 500)
				k.see(calls)
				c.advance(time.Second)
				if err, at = db.Batch(&tick.Batch{Calls: calls}), "batch"; err == nil {
					made += len(calls)
					err, at = db.Tick(k.tick(i, c.now, false)), "tick"
				}
			}
			var full *FullError
			if !errors.As(err, &full) || !errors.Is(err, unix.ENOSPC) || db.Problem() == nil {
				t.Fatalf("error %v, problem %v, want a FullError", err, db.Problem())
			}
			if again := db.Batch(&tick.Batch{Calls: make([]events.Call, 1)}); !errors.Is(again, unix.ENOSPC) {
				t.Errorf("after it: %v", again)
			}
			if err := db.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			got, torn := readLog(t, db)
			if torn != 0 || len(got.calls) < made-1000 || got.end == nil || got.end.State != "full" {
				t.Errorf("log: %d of %d calls, %d torn, end %+v", len(got.calls), made, torn, got.end)
			}
			if s := ask(t, db.Path(), "PRAGMA integrity_check"); s != "ok" {
				t.Error(s)
			}
			if s := ask(t, db.Path(), "SELECT state, ended_ns, problem <> '' FROM sessions"); s != fmt.Sprint("full ", c.now.UnixNano(), " 1") {
				t.Errorf("session: %s (failed in a %s with %v)", s, at, err)
			}
		})
	}
}

func TestFullDiskFromTheStart(t *testing.T) {
	dir := smallDisk(t, 128<<10)
	_, err := Open(Options{Path: filepath.Join(dir, "x.db")})
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v, want no space", err)
	}
}

// writerEnv makes the test binary a writer that is to be killed.
const writerEnv = "INGERO_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		if err := writeUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeUntilKilled records and says, after each batch, how many calls are due
// to be in the file.
func writeUntilKilled(path string) error {
	c := &clock{now: began}
	db, err := Open(Options{Path: path, Now: c.Now, AfterFunc: c.AfterFunc})
	if err != nil {
		return err
	}
	g, k, made := newGenerator(2), newKernel(), 0
	for i := uint64(1); ; i++ {
		calls := g.calls(nil, 300)
		k.see(calls)
		if err := db.Batch(&tick.Batch{Calls: calls}); err != nil {
			return err
		}
		c.advance(250 * time.Millisecond)
		made += len(calls)
		fmt.Println("calls", made)
		if i%4 == 0 {
			if err := db.Tick(k.tick(i/4, c.now, false)); err != nil {
				return err
			}
		}
	}
}
