package store

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/store/log"
	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// seconds records n seconds and ignores errors.
type seconds struct {
	db    *DB
	c     *clock
	k     *storetest.Kernel
	g     *storetest.Generator
	seq   uint64
	calls []events.Call
}

func newSeconds(db *DB, c *clock) *seconds {
	return &seconds{db: db, c: c, k: storetest.NewKernel(), g: storetest.NewGenerator(1)}
}

func (s *seconds) record(n, calls int) error {
	for range n {
		got := s.g.Calls(nil, calls)
		s.calls = append(s.calls, got...)
		s.k.See(got)
		s.c.advance(time.Second)
		s.seq++
		if err := errors.Join(s.db.Batch(&tick.Batch{Calls: got}), s.db.Tick(s.k.Tick(s.seq, s.c.now, false))); err != nil {
			return err
		}
	}
	return nil
}

// Removing the database during a recording is reported at the next tick.
func TestRemovedWhileRecording(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"all":        func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"SQLite":     os.Remove,
		"recordings": func(path string) error { return os.RemoveAll(LogDir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dir", "x.db")
			db, c := open(t, path, Options{})
			s := newSeconds(db, c)
			if err := s.record(2, 10); err != nil {
				t.Fatal(err)
			}
			if err := remove(path); err != nil {
				t.Fatal(err)
			}
			err := s.record(1, 10)
			if !errors.Is(err, errRemoved) || !strings.Contains(err.Error(), path) || !errors.Is(db.Problem(), errRemoved) {
				t.Errorf("%v, problem %v", err, db.Problem())
			}
			_ = db.Close()
			if entries, err := os.ReadDir(filepath.Dir(path)); name == "all" && err == nil {
				t.Errorf("it came back: %v", entries)
			}
		})
	}
}

// A file system that becomes read-only ends the recording; earlier data stays readable.
func TestBecomesReadOnly(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	path := filepath.Join(dir, "x.db")
	db, c := open(t, path, Options{Session: segment.Session{ID: "s"}})
	s := newSeconds(db, c)
	if err := s.record(3, 100); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(LogDir(path), segment.Name("s", 0, false)))
	if err != nil {
		t.Fatal(err)
	}
	// Like a file system that became read-only, a file that is open for reading refuses writes.
	readOnly, err := os.Open(db.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Dup3(int(readOnly.Fd()), int(db.file.Fd()), unix.O_CLOEXEC), readOnly.Close()); err != nil {
		t.Fatal(err)
	}
	err = s.record(1, 100)
	if err == nil || db.Problem() == nil || !strings.Contains(err.Error(), "s-000000.ilog") {
		t.Errorf("%v, problem %v", err, db.Problem())
	}
	_ = db.Close()
	if got := testkit.Rows(t, path, "SELECT state, problem <> '' FROM sessions"); got != "failed 1" {
		t.Errorf("session: %s", got)
	}
	if after, err := readSegments(path); err != nil || !slices.Equal(after.calls, s.calls[:len(after.calls)]) || len(after.calls) < 300 {
		t.Errorf("%d of %d calls (%v), the file had %d bytes", len(after.calls), len(s.calls), err, len(log))
	}
	// No file is open now, so the file system can be remounted; a writer reports it at once.
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path}); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a writer on a read-only disk: %v", err)
	}
	if got, err := readSegments(path); err != nil || len(got.calls) < 300 {
		t.Errorf("a reader on a read-only disk: %d calls (%v)", len(got.calls), err)
	}
}

// readSegments reads all segments of session "s".
func readSegments(path string) (logged, error) {
	l, err := segment.OpenSession(log.Dir(LogDir(path)), "s")
	if err != nil {
		return logged{}, err
	}
	a, _, err := readLogged(l)
	return a, errors.Join(err, l.Close())
}

// When one of two disks is full, the recording pauses until both have room, and then uses as few
// segments as possible.
func TestOneOfTwoDisksFull(t *testing.T) {
	for _, name := range []string{"logs", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, 16<<20)
			path := filepath.Join(dir, "x.db")
			logs := LogDir(path)
			if err := os.Mkdir(logs, 0o700); err != nil {
				t.Fatal(err)
			}
			testkit.NeedMount(t, unix.Mount("tmpfs", logs, "tmpfs", 0, "size=16777216,mode=0700"))
			t.Cleanup(func() { _ = unix.Unmount(logs, 0) })
			db, c := open(t, path, Options{Session: segment.Session{ID: "s"}})
			s := newSeconds(db, c)
			if err := s.record(2, 500); err != nil {
				t.Fatal(err)
			}
			filler := filepath.Join(map[string]string{"logs": logs, "SQLite": dir}[name], "filler")
			if err := fillDisk(filler); err != nil {
				t.Fatal(err)
			}
			for i := 0; db.Problem() == nil; i++ {
				if err := s.record(1, 500); err != nil || i == 1000 {
					t.Fatal(i, err)
				}
			}
			if !errors.Is(db.Problem(), unix.ENOSPC) {
				t.Errorf("problem: %v", db.Problem())
			}
			if err := s.record(10, 500); err != nil || db.Problem() == nil {
				t.Errorf("while it is full: %v, problem %v", err, db.Problem())
			}
			if segs, err := segment.OfSession(log.Dir(logs), "s"); err != nil || len(segs) > 1 {
				t.Errorf("%d segments (%v) while nothing is kept", len(segs), err)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			if err := s.record(2, 500); err != nil || db.Problem() != nil {
				t.Errorf("there is room: %v, problem %v", err, db.Problem())
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			// Calls dropped during the pause were counted, so they are no damage.
			got, err := readSegments(path)
			if err != nil || !got.ended() {
				t.Errorf("%d of %d calls, end %+v (%v)", len(got.calls), len(s.calls), got.end, err)
			}
			if lost := testkit.Rows(t, path, "SELECT count FROM drops WHERE reason = 'disk-full'"); lost != fmt.Sprint(len(s.calls)-len(got.calls)) {
				t.Errorf("%s calls are said not to be kept, of %d there are %d", lost, len(s.calls), len(got.calls))
			}
		})
	}
}

// fillDisk fills a disk, except for less than a page, with a new file.
func fillDisk(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if errors.Is(err, unix.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// A writer removes leftovers of killed writers: incomplete files, and the unsealed form of a sealed
// segment.
func TestLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{Session: segment.Session{ID: "s"}})
	s := newSeconds(db, c)
	if err := s.record(3, 50); err != nil {
		t.Fatal(err)
	}
	hot, err := os.ReadFile(filepath.Join(LogDir(path), "s-000000.ilog"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	left := map[string]string{"s-000000.ilog": string(hot), "s-000007.iseg.tmp": "half", ".t-000000.iseg.part": "half"}
	for name, text := range left {
		if err := os.WriteFile(filepath.Join(LogDir(path), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readSegments(path); err != nil || !slices.Equal(got.calls, s.calls) {
		t.Errorf("beside leftovers: %d of %d calls (%v)", len(got.calls), len(s.calls), err)
	}
	next, _ := open(t, path, Options{Session: segment.Session{ID: "next"}})
	for name := range left {
		if _, err := os.Lstat(filepath.Join(LogDir(path), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", name, err)
		}
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := readSegments(path); err != nil || !slices.Equal(got.calls, s.calls) {
		t.Errorf("afterwards: %d of %d calls (%v)", len(got.calls), len(s.calls), err)
	}
}

// When no more files can be opened, the recording continues in its current segment.
func TestOutOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{MaxBytes: 64 << 20, Session: segment.Session{ID: "s"}})
	s := newSeconds(db, c)
	if err := s.record(1, 100); err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 3 // open files stay open
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err := s.record(5, 20_000)
	_, opened := Open(Options{Path: filepath.Join(t.TempDir(), "y.db")})
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); e != nil {
		t.Fatal(e)
	}
	if err != nil || db.Problem() != nil || db.seq != 0 {
		t.Errorf("%v, problem %v, segment %d", err, db.Problem(), db.seq)
	}
	if !errors.Is(opened, unix.EMFILE) {
		t.Errorf("Open: %v", opened)
	}
	if err := s.record(1, 100); err != nil || db.seq != 1 {
		t.Errorf("then: %v, segment %d", err, db.seq)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := readSegments(path); err != nil || !slices.Equal(got.calls, s.calls) {
		t.Errorf("%d of %d calls (%v)", len(got.calls), len(s.calls), err)
	}
}

// After a clock step of an hour, calls keep their times, rollups have each call once, nothing is
// removed early, and no call lies after the session's end.
func TestClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			db, c := open(t, path, Options{MaxBytes: 64 << 20, MaxAge: 24 * time.Hour, Session: segment.Session{ID: "s", Started: storetest.Began}})
			var wall time.Duration // offset of the machine's clock from the clock of the calls
			made, at := 0, storetest.Began
			for i := range uint64(12) {
				if i == 4 {
					wall = by
				}
				at = at.Add(time.Second)
				c.now = at.Add(wall)
				var calls []events.Call
				for j := range int64(300) { // some are late
					calls = append(calls, events.Call{Start: at.UnixNano() - j*20e6, Duration: 1000, OnCPU: 1000, PID: 1, TID: 1, Weight: 1, Op: storetest.OpLaunch, Args: [4]uint64{uint64(made) * 7919}})
					made++
				}
				if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(storetest.NewKernel().Tick(i+1, c.now, i == 11))); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for _, tier := range retention.Rollups {
				if n := testkit.Rows(t, path, "SELECT sum(calls) FROM rollups WHERE seconds = ?", int64(tier.Length/time.Second)); n != fmt.Sprint(made) {
					t.Errorf("rollups of %v: %s calls, want %d", tier.Length, n, made)
				}
			}
			if n := testkit.Rows(t, path, "SELECT ended_ns >= ? AND updated_ns >= ? FROM sessions", at.UnixNano(), at.UnixNano()); n != "1" {
				t.Error("the session ended before its last call")
			}
			got, err := readSegments(path)
			if err != nil || len(got.calls) != made {
				t.Errorf("%d of %d calls (%v)", len(got.calls), made, err)
			}
		})
	}
}

// A newer ingero's database is left unchanged.
func TestNewerSchemaIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, _ := open(t, path, Options{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	lite, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lite.Exec(fmt.Sprint("PRAGMA user_version = ", Schema()+1))
	if err := errors.Join(err, lite.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path}); !errors.Is(err, ErrNotDatabase) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("error %v", err)
	}
	after, err := os.ReadFile(path)
	if names, _ := filepath.Glob(path + "-*"); err != nil || !bytes.Equal(before, after) || len(names) > 0 {
		t.Errorf("it was written to: %v (%v)", names, err)
	}
}
