package store_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var killRounds = flag.Int("rounds", 5, "writers that are killed")

// lateFrom is how long before the kill a call must have been handed over to be kept.
const lateFrom = 250 * time.Millisecond

// A writer that is killed at any moment under load loses nothing that it was given
// more than 250 ms before, but for the time that a write stands still. What is left is read as it is, and the next writer goes on.
func TestKilledUnderLoad(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var worst, stood time.Duration
	torn, slow := 0, 0
	for round := range *killRounds {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.db")
		given, killed := killWriter(t, exe, path, time.Duration(50+rand.IntN(950))*time.Millisecond)
		kept, cut := checkKilled(t, path)
		// Since its last word the writer was in a call that had not returned, or had no
		// CPU: on a machine whose disk or CPUs are taken, the time that writing takes.
		last := given[len(given)-1].at
		stood = max(stood, killed-last)
		if killed-last > 50*time.Millisecond {
			slow++
		}
		for _, g := range given {
			if g.calls <= kept {
				continue
			}
			if age := last - g.at; age > lateFrom {
				t.Fatalf("round %d: %d calls are kept, but %d were given %v before the writer's last word, %v before the kill", round, kept, g.calls, age, killed-g.at)
			}
			worst = max(worst, last-g.at)
			break
		}
		if cut > 0 {
			torn++
		}
		nextWriter(t, path, cut > 0)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d writers killed: the oldest call that is missing was given %v before the last word; %d were silent for more than 50 ms when killed, at most %v; %d logs end in a torn frame",
		*killRounds, worst, slow, stood, torn)
}

// giving says that so many calls had been given, at a time of the monotonic clock.
type giving struct {
	calls int
	at    time.Duration
}

// killWriter starts a writer and kills it once it has recorded for a time. What it
// said is returned, and when it was killed.
func killWriter(t *testing.T, exe, path string, after time.Duration) (given []giving, killed time.Duration) {
	t.Helper()
	said, err := os.Create(path + ".given")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = said.Close() }()
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), loadEnv+"="+path), said, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, as a rule
	testkit.Eventually(t, "the writer is given calls", func() bool { s, err := said.Stat(); return err == nil && s.Size() > 0 })
	<-time.After(after)
	killed = monotonic()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	b, err := os.ReadFile(said.Name())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasSuffix(line, ".\n") {
			given = append(given, parseGiving(t, line))
		}
	}
	return given, killed
}

func parseGiving(t *testing.T, line string) (g giving) {
	t.Helper()
	if _, err := fmt.Sscanf(line, "given %d at %d.", &g.calls, &g.at); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return g
}

// checkKilled reads what a killed writer left, with nothing repaired: how many calls
// there are, and how many bytes of a frame that was not ended.
func checkKilled(t *testing.T, path string) (kept int, torn int64) {
	t.Helper()
	r, err := query.Open(path)
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

// nextWriter records to what a killed one left, and makes sure that it is in order.
func nextWriter(t *testing.T, path string, torn bool) {
	t.Helper()
	db, err := store.Open(store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	file, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var check, states string
	err = file.QueryRow("SELECT (SELECT group_concat(integrity_check) FROM pragma_integrity_check), group_concat(state) FROM (SELECT state FROM sessions ORDER BY id)").Scan(&check, &states)
	if err != nil || check != "ok" || states != "interrupted,ended" {
		t.Errorf("integrity %q, states %q, %v", check, states, err)
	}
	segments, err := store.Segments(store.Dir(store.LogDir(path)))
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

// loadEnv makes the test binary a writer under load.
const loadEnv = "INGERO_TEST_LOAD"

func init() {
	if path := os.Getenv(loadEnv); path != "" {
		fmt.Fprintln(os.Stderr, recordUntilKilled(path))
		os.Exit(1)
	}
}

// recordUntilKilled records as fast as it can, on the real clock, and says how many
// calls it has handed over.
func recordUntilKilled(path string) error {
	db, err := store.Open(store.Options{Path: path})
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	launch, _ := events.OpByName("cudaLaunchKernel")
	sync, _ := events.OpByName("cudaStreamSynchronize")
	given, seq, ticked := 0, uint64(0), time.Now()
	line := make([]byte, 0, 64)
	for {
		calls := make([]events.Call, 1000+r.IntN(3000))
		now := time.Now().UnixNano()
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
		// One write, so that no line is cut; the period says that it is whole.
		line = fmt.Appendf(line[:0], "given %d at %d.\n", given, monotonic())
		if _, err := os.Stdout.Write(line); err != nil {
			return err
		}
		if at := time.Now(); at.Sub(ticked) >= time.Second/2 {
			seq, ticked = seq+1, at
			if err := db.Tick(&tick.Tick{Time: at, Seq: seq, Window: time.Second / 2, Records: uint64(given)}); err != nil {
				return err
			}
		}
	}
}

// monotonic is a clock that all processes share.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}
