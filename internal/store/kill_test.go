package store_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// lateFrom is how long before the kill a call must have been handed over to be kept.
const lateFrom = 250 * time.Millisecond

// A writer that is killed under load loses no call that it got more than 250 ms before, by its own
// clock. The rest is readable, and the next writer continues.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	torn := 0
	for round := range 5 {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.db")
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), loadEnv+"="+path, loadClockEnv+"=its own")
		c := testkit.Start(t, cmd)
		for range 1 + rand.IntN(80) {
			c.Line("given ")
		}
		c.Signal(syscall.SIGKILL)
		_ = c.Wait() // the error is the kill
		given := parseGivings(t, c.Stdout())
		kept, cut := checkKilled(t, path)
		last := given[len(given)-1].at
		for _, g := range given {
			if age := last - g.at; g.calls > kept && age > lateFrom {
				t.Fatalf("round %d: %d calls are kept, but %d were given %v before the writer's last word", round, kept, g.calls, age)
			}
		}
		if cut > 0 {
			torn++
		}
		nextWriter(t, path, cut > 0)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d logs end in a torn frame", torn)
}

// giving is a writer's report: the number of calls that it got, and its clock.
type giving struct {
	calls int
	at    time.Duration
}

// parseGivings parses a writer's reports. A line without a final period was truncated.
func parseGivings(t *testing.T, text string) (given []giving) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasSuffix(line, ".\n") {
			given = append(given, parseGiving(t, line))
		}
	}
	return given
}

func parseGiving(t *testing.T, line string) (g giving) {
	t.Helper()
	if _, err := fmt.Sscanf(line, "given %d at %d.", &g.calls, &g.at); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return g
}

// checkKilled reads a killed writer's files without repair. It returns the number of calls, and the
// bytes of an incomplete frame.
func checkKilled(t *testing.T, path string) (kept int, torn int64) {
	t.Helper()
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	if ok, err := r.SQL(context.Background(), "SELECT 1", query.SQLLimits{}); err != nil || len(ok.Rows) != 1 {
		t.Errorf("SQL: %v, %v", ok, err)
	}
	type key struct {
		pid uint32
		op  events.Op
	}
	read := map[key]*store.Sum{}
	cover, err := r.Each(context.Background(), query.Filter{}, func(_ *query.Session, c *events.Call, number uint64) bool {
		if number != uint64(kept) {
			t.Errorf("call %d has number %d", kept, number)
		}
		kept++
		k := key{c.PID, c.Op}
		if read[k] == nil {
			read[k] = &store.Sum{}
		}
		read[k].Add(c)
		return number == uint64(kept)-1
	})
	if err != nil || len(cover.Damage) > 0 || len(cover.Missing) > 0 {
		t.Errorf("calls: %+v, %v", cover, err)
	}
	stats, _, err := r.OpStats(context.Background(), query.Filter{}, query.Group{PID: true})
	if err != nil || len(stats) != len(read) {
		t.Errorf("%d sums, want %d (%v)", len(stats), len(read), err)
	}
	for i := range stats {
		s := &stats[i]
		want := read[key{s.PID, s.Op}]
		if want == nil || s.Sum != want.Counts || s.Dur.Sum() != want.Dur.Sum() || s.Dur.Quantile(0.99) != want.Dur.Quantile(0.99) {
			t.Errorf("%v of %d: %+v, the calls sum to %+v", s.Op, s.PID, s.Sum, want)
		}
	}
	return kept, cover.Torn
}

// nextWriter records to a killed writer's database, and checks it.
func nextWriter(t *testing.T, path string, torn bool) {
	t.Helper()
	db, err := store.Open(store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	const state = "SELECT (SELECT group_concat(integrity_check) FROM pragma_integrity_check), group_concat(state) FROM (SELECT state FROM sessions ORDER BY id)"
	if got := testkit.Rows(t, path, state); got != "ok interrupted,ended" {
		t.Errorf("integrity and states: %s", got)
	}
	segments, err := segment.List(log.Dir(store.LogDir(path)))
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, s := range segments {
		if !s.Sealed {
			open++
		}
	}
	if open > 0 && !(torn && open == 1) {
		t.Errorf("%d segments are not sealed of %+v, torn: %v", open, segments, torn)
	}
	left, err := fs.Glob(os.DirFS(store.LogDir(path)), "*.tmp")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// loadEnv makes the test binary a writer under load. With loadClockEnv, its clock advances by its
// activity instead of real time.
const loadEnv, loadClockEnv = "INGERO_TEST_LOAD", "INGERO_TEST_LOAD_CLOCK"

func init() {
	if path := os.Getenv(loadEnv); path != "" {
		fmt.Fprintln(os.Stderr, recordUntilKilled(path, os.Getenv(loadClockEnv) != ""))
		os.Exit(1)
	}
}

// loadClock is the clock of a writer under load. The zero value is the machine's.
type loadClock struct {
	own   bool
	now   time.Time
	due   time.Time
	later func()
}

func (c *loadClock) Now() time.Time {
	if c.own {
		return c.now
	}
	return time.Now()
}

// monotonic returns a time that all processes share, or the clock's own.
func (c *loadClock) monotonic() time.Duration {
	if c.own {
		return time.Duration(c.now.UnixNano())
	}
	return monotonic()
}

// options returns a database's options with this clock, which runs one timer at a time.
func (c *loadClock) options(path string) store.Options {
	if !c.own {
		return store.Options{Path: path}
	}
	return store.Options{Path: path, Now: c.Now, AfterFunc: func(d time.Duration, f func()) func() bool {
		c.due, c.later = c.now.Add(d), f
		return func() bool { c.later = nil; return true }
	}}
}

// advance moves the clock's own time by up to 120 ms.
func (c *loadClock) advance(r *rand.Rand) {
	if !c.own {
		return
	}
	c.now = c.now.Add(time.Duration(r.IntN(120)) * time.Millisecond)
	if f := c.later; f != nil && !c.due.After(c.now) {
		c.later = nil
		f()
	}
}

// recordUntilKilled records at full speed, and reports how many calls it has handed over.
func recordUntilKilled(path string, own bool) error {
	clock := &loadClock{own: own, now: time.Unix(1_795_000_000, 0)}
	db, err := store.Open(clock.options(path))
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	launch, _ := events.OpByName("cudaLaunchKernel")
	sync, _ := events.OpByName("cudaStreamSynchronize")
	given, seq, ticked := 0, uint64(0), clock.Now()
	line := make([]byte, 0, 64)
	for {
		calls := make([]events.Call, 1000+r.IntN(3000))
		now := clock.Now().UnixNano()
		for i := range calls {
			d := 1000 + r.Int64N(9000)
			calls[i] = events.Call{Start: now + int64(i)*100, Duration: d, OnCPU: d, PID: 7 + uint32(i%2), TID: 7 + uint32(i%2), Op: launch, Weight: 1,
				Args: [events.MaxArgs]uint64{r.Uint64()}}
			if i%50 == 0 {
				calls[i].Op = sync
			}
		}
		waits := []events.Wait{{Start: now, Duration: 100, PID: 7, TID: 7, State: events.WaitBlocked, Reason: events.ReasonLock}}
		if err := db.Batch(&tick.Batch{Calls: calls, Waits: waits}); err != nil {
			return err
		}
		given += len(calls)
		// A single write, so that no line is split; the final period marks it as complete.
		line = fmt.Appendf(line[:0], "given %d at %d.\n", given, clock.monotonic())
		if _, err := os.Stdout.Write(line); err != nil {
			return err
		}
		if at := clock.Now(); at.Sub(ticked) >= time.Second/2 {
			seq, ticked = seq+1, at
			if err := db.Tick(&tick.Tick{Time: at, Seq: seq, Window: time.Second / 2, Records: uint64(given)}); err != nil {
				return err
			}
		}
		clock.advance(r)
	}
}

// monotonic returns a time that all processes share.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}
