package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// onDisk returns the size of all files of a database.
func onDisk(t *testing.T, path string) (n int64) {
	t.Helper()
	for _, pattern := range []string{path + "*", filepath.Join(LogDir(path), "*")} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && filepath.Base(name) != reserveName {
				n += info.Size()
			}
		}
	}
	return n
}

// The oldest segments are deleted, first of earlier sessions, and the database never exceeds its
// limit.
func TestSizeCap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	const limit = 12 << 20
	made := map[string]int{}
	for _, id := range []string{"one", "two"} {
		db, c := open(t, path, Options{MaxBytes: limit, Session: segment.Session{ID: id}})
		k, calls := storetest.NewKernel(), storetest.NewGenerator(1).Calls(nil, 30_000)
		for j := range uint64(80) {
			for i := range calls {
				calls[i].Start += int64(time.Second)
			}
			made[id] += len(calls)
			c.advance(time.Second)
			if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(k.Tick(j+1, c.now, j == 79))); err != nil {
				t.Fatal(err)
			}
			if n := onDisk(t, path); n > limit*101/100 {
				t.Fatalf("session %s, second %d: %d bytes, of %d", id, j, n, limit)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if n := onDisk(t, path); n > limit || n < limit/4 { // no WAL: a third of it
			t.Errorf("at the end of session %s: %d bytes, of %d", id, n, limit)
		}
		got, _ := readLog(t, db)
		if n := len(got.calls); n == 0 || n >= made[id] || n < made[id]/20 || !got.ended() {
			t.Errorf("session %s: %d of %d calls, end %+v", id, n, made[id], got.end)
		}
		if n := testkit.Rows(t, path, "SELECT sum(calls) FROM rollups JOIN sessions ON id = session WHERE uid = ? AND seconds = 1", id); n != fmt.Sprint(made[id]) {
			t.Errorf("session %s: the rollups have %s calls, want %d", id, n, made[id])
		}
	}
	if segs, err := segment.OfSession(log.Dir(LogDir(path)), "one"); err != nil || len(segs) != 0 {
		t.Errorf("of the first session %v are left (%v)", segs, err)
	}
}

func (a *logged) ended() bool { return a.end != nil && a.end.State == "ended" }

// A segment beyond the maximum age is deleted, even if there is room.
func TestMaxAge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	for i, id := range []string{"one", "two"} {
		db, c := open(t, path, Options{MaxAge: time.Hour, Session: segment.Session{ID: id}})
		c.advance(time.Duration(i) * 2 * time.Hour)
		if err := errors.Join(db.Batch(&tick.Batch{Calls: storetest.NewGenerator(1).Calls(nil, 10)}), db.Tick(storetest.NewKernel().Tick(1, c.now, true)), db.Close()); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(LogDir(path), segment.Name(id, 0, true)), c.now, c.now); err != nil {
			t.Fatal(err)
		}
	}
	segs, err := segment.List(log.Dir(LogDir(path)))
	if err != nil || len(segs) != 1 || segs[0].Session != "two" {
		t.Errorf("segments %+v (%v), want those of the second session alone", segs, err)
	}
}

// Calls keep some room when the limit is lowered below the size of the SQLite file, and the next recording
// meets the limit.
func TestLimitBelowSQLite(t *testing.T) {
	t.Parallel()
	const limit = 12 << 20
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{Session: segment.Session{ID: "one"}})
	from, k, calls, n := c.now, storetest.NewKernel(), storetest.NewGenerator(1).Calls(nil, 10_000), 0
	second := func(processes int) {
		t.Helper()
		c.advance(time.Second)
		for i := range calls {
			calls[i].Start += int64(time.Second)
		}
		x := k.Tick(uint64(n+1), c.now, false)
		comeAndGo(x, from, n, processes)
		if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(x)); err != nil {
			t.Fatal(err)
		}
		if n++; n == 2000 {
			t.Fatal("the rows stay")
		}
	}
	finished := func(session string) {
		t.Helper()
		db.sealing.Wait()
		if segs, err := segment.OfSession(log.Dir(LogDir(path)), session); err != nil || len(segs) < 3 {
			t.Errorf("session %s has segments %+v, %v, want two finished ones", session, segs, err)
		}
	}
	for db.saver.rows.FileSize < 2*limit {
		second(1000)
	}
	db.SetBounds(limit, 0)
	second(0)
	for db.saver.rows.Full() {
		second(0)
	}
	for range 10 {
		second(0)
	}
	finished("one")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	now := c.now
	db, c = open(t, path, Options{MaxBytes: limit, Session: segment.Session{ID: "two", Started: now}})
	c.now, k = now, storetest.NewKernel()
	for range 30 {
		second(0)
		if n := onDisk(t, path); n > limit*101/100 {
			t.Fatalf("%d bytes, of %d", n, limit)
		}
	}
	finished("two")
}

// What each segment repeats does not fill it.
func TestRepeatedStartIsNoReasonForTheNextSegment(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string { return fmt.Sprintf("%016x%016x%016x", r.Uint64(), r.Uint64(), r.Uint64()) }
	functions, processes := make([]events.Function, 5000), make([]tick.Process, 1000)
	for i := range functions {
		functions[i] = events.Function{PID: 1, Handle: uint64(i), Name: text()}
	}
	for i := range processes {
		processes[i] = tick.Process{PID: uint32(i + 1), Exe: text()}
	}
	for name, c := range map[string]struct {
		batch tick.Batch
		tick  tick.Tick
	}{"names": {batch: tick.Batch{Functions: functions}}, "processes": {tick: tick.Tick{Processes: processes}}} {
		t.Run(name, func(t *testing.T) {
			db, clock := open(t, filepath.Join(t.TempDir(), "x.db"), Options{MaxBytes: segmentShare * segmentMin, Session: segment.Session{ID: "s"}})
			for i := range 5 {
				clock.advance(time.Second)
				x := c.tick
				x.Time, x.Seq = clock.now, uint64(i)
				if err := errors.Join(db.Batch(&c.batch), db.Tick(&x)); err != nil {
					t.Fatal(err)
				}
				c.batch = tick.Batch{}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			segs, err := segment.OfSession(log.Dir(LogDir(db.Path())), "s")
			if err != nil || len(segs) > 2 || segs[len(segs)-1].Bytes < segmentMin {
				t.Errorf("segments %+v, %v", segs, err)
			}
		})
	}
}

// A segment that repeats much of earlier ones has as much new content. Otherwise there would be 21 segments.
func TestSegmentIsNotMostlyRepeated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	db, clock := open(t, filepath.Join(t.TempDir(), "x.db"), Options{MaxBytes: segmentShare * segmentMin, Session: segment.Session{ID: "s"}})
	var size, repeated int64
	for i := range 40 {
		clock.advance(time.Second)
		b := tick.Batch{Functions: make([]events.Function, 1000)}
		for j := range b.Functions {
			b.Functions[j] = events.Function{PID: 1, Handle: uint64(1000*i + j), Name: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())}
		}
		seq := db.seq
		if err := errors.Join(db.Batch(&b), db.Tick(&tick.Tick{Time: clock.now, Seq: uint64(i)})); err != nil {
			t.Fatal(err)
		}
		if db.seq == seq {
			size, repeated = db.log.Size(), db.log.Repeated()
		}
	}
	if db.seq < 2 || db.seq > 10 || repeated < segmentMin || size-repeated > repeatMax*segmentMin {
		t.Errorf("%d segments; one has %d bytes, of which it repeats %d", db.seq+1, size, repeated)
	}
}

// Segments are removed in the order in which they were written, and none is kept forever, whatever
// the clock said.
func TestAgesAfterTheClockWasSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{Session: segment.Session{ID: "s"}})
	s := newSeconds(db, c)
	for range 3 {
		if err := s.record(1, 10); err != nil {
			t.Fatal(err)
		}
		db.mu.Lock()
		err := db.rotate()
		db.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for seq, at := range []time.Duration{-time.Hour, 10 * time.Hour, -2 * time.Hour, -30 * time.Minute} {
		name := filepath.Join(LogDir(path), segment.Name("s", seq, true))
		if err := os.Chtimes(name, storetest.Began.Add(at), storetest.Began.Add(at)); err != nil {
			t.Fatal(err)
		}
	}
	next, c := open(t, path, Options{MaxAge: 24 * time.Hour, Session: segment.Session{ID: "next"}})
	var order []int
	next.mu.Lock()
	for _, k := range next.kept.All {
		order = append(order, k.Seq)
	}
	next.mu.Unlock()
	if !slices.Equal(order, []int{0, 1, 2, 3}) {
		t.Errorf("they would be removed in the order %v", order)
	}
	c.advance(25 * time.Hour)
	if err := newSeconds(next, c).record(1, 1); err != nil {
		t.Fatal(err)
	}
	if segs, err := segment.OfSession(log.Dir(LogDir(path)), "s"); err != nil || len(segs) != 0 {
		t.Errorf("a day later %d are there (%v)", len(segs), err)
	}
}

// The size counts segments beside the SQLite file, also as large as a checkpoint will make it.
func TestSizeBeforeCheckpoint(t *testing.T) {
	db := &DB{o: Options{Path: filepath.Join(t.TempDir(), "x.db")}, kept: &retention.Segments{All: []retention.Segment{{Info: segment.Info{Bytes: 100}}}},
		saver: &saver{rows: &retention.Rows{FileSize: 1000}}}
	if got := db.bytes(); got != 1100 {
		t.Errorf("%d bytes, want 1100", got)
	}
}

// smallDisk mounts a file system of the given size.
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

// Whichever file the disk fills up under, the recording stays readable and resumes once there is
// room.
func TestFullDisk(t *testing.T) {
	for size := 768 << 10; size < 1300<<10; size += 104 << 10 {
		t.Run(fmt.Sprint(size>>10, "K"), func(t *testing.T) {
			dir := smallDisk(t, size+4<<20)
			filler := filepath.Join(dir, "filler")
			if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			db, c := open(t, filepath.Join(dir, "x.db"), Options{})
			k, g, made, seq := storetest.NewKernel(), storetest.NewGenerator(1), 0, uint64(0)
			second := func(final bool) {
				t.Helper()
				calls := g.Calls(nil, 500)
				made += len(calls)
				k.See(calls)
				c.advance(time.Second)
				seq++
				if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(k.Tick(seq, c.now, final))); err != nil {
					t.Fatal(err)
				}
			}
			for db.Problem() == nil {
				if second(false); seq == 10_000 {
					t.Fatal("the disk never filled up")
				}
			}
			var full *FullError
			if !errors.As(db.Problem(), &full) || !errors.Is(db.Problem(), unix.ENOSPC) {
				t.Fatalf("problem %v, want a FullError", db.Problem())
			}
			if s := testkit.Rows(t, db.Path(), "SELECT state, problem <> '' FROM sessions"); s != "full 1" {
				t.Errorf("session: %s", s)
			}
			second(false)
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			second(false)
			if db.Problem() != nil {
				t.Fatalf("there is room, and yet %v", db.Problem())
			}
			second(true)
			if err := db.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			got, torn := readLog(t, db)
			lost := made - len(got.calls)
			if torn != 0 || lost < 500 || lost > 2000 || !got.ended() {
				t.Errorf("log: %d of %d calls, %d torn, end %+v", len(got.calls), made, torn, got.end)
			}
			if s := testkit.Rows(t, db.Path(), "PRAGMA integrity_check"); s != "ok" {
				t.Error(s)
			}
			if s := testkit.Rows(t, db.Path(), "SELECT state, problem, (SELECT count FROM drops WHERE reason = 'disk-full') FROM sessions"); s != fmt.Sprint("ended  ", lost) {
				t.Errorf("session: %s, want %d calls not kept", s, lost)
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

// writerEnv makes the test binary a writer for a test to kill.
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

// writeUntilKilled records and reports, after each batch, how many calls must be in the file.
func writeUntilKilled(path string) error {
	c := &clock{now: storetest.Began}
	db, err := Open(Options{Path: path, Now: c.Now, AfterFunc: c.AfterFunc})
	if err != nil {
		return err
	}
	g, k, made := storetest.NewGenerator(2), storetest.NewKernel(), 0
	for i := uint64(1); ; i++ {
		calls := g.Calls(nil, 300)
		k.See(calls)
		if err := db.Batch(&tick.Batch{Calls: calls}); err != nil {
			return err
		}
		c.advance(250 * time.Millisecond)
		made += len(calls)
		fmt.Println("calls", made)
		if i%4 == 0 {
			if err := db.Tick(k.Tick(i/4, c.now, false)); err != nil {
				return err
			}
		}
	}
}
