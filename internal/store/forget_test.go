package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// comeAndGo adds the last seconds' processes to a tick: each new ones a second, which live equally
// long. Each makes as many calls as its pid says.
func comeAndGo(t *tick.Tick, from time.Time, second, each int) {
	for at := max(second-2, 0); at <= second; at++ {
		for i := range each {
			pid := uint32(10_000 + at*each + i)
			p := tick.Process{PID: pid, PPID: 1, NSPID: pid, Comm: "storm", Exe: "/usr/bin/" + strings.Repeat("storm", 100), Started: from.Add(time.Duration(at) * time.Second)}
			if p.Ended = p.Started.Add(time.Second); p.Ended.After(t.Time) {
				p.Ended = time.Time{}
			}
			t.Processes = append(t.Processes, p)
			t.HostSums = append(t.HostSums, tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostDiskWrite, PID: pid, Object: "vda"}, Comm: "storm", Count: 1})
			t.Ops = append(t.Ops, tick.Op{PID: pid, Op: testkit.Op("cudaMalloc"), Sum: tick.Counts{Calls: uint64(pid), Done: uint64(pid)}, Hist: &stats.Hist{}, Dur: &stats.Sketch{}})
		}
	}
}

// TestForget's database limit, and its new processes per second.
const (
	stormLimit = 12 << 20
	stormEach  = 40
)

// storm records such processes and calls, and checks that the files never exceed the limit.
func storm(t *testing.T, path string, db *DB, c *clock, seconds int) {
	t.Helper()
	from := c.now
	k, calls := storetest.NewKernel(), storetest.NewGenerator(1).Calls(nil, 300)
	k.See(calls)
	for i := range calls {
		calls[i].Start += int64(from.Sub(storetest.Began))
	}
	for j := range seconds {
		c.advance(time.Second)
		for i := range calls {
			calls[i].Start += int64(time.Second)
		}
		x := k.Tick(uint64(j+1), c.now, j == seconds-1)
		comeAndGo(x, from, j, stormEach)
		if err := errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(x)); err != nil {
			t.Fatal(err)
		}
		if n := onDisk(t, path); n > stormLimit*101/100 {
			t.Fatalf("second %d: %d bytes, of %d", j, n, stormLimit)
		}
	}
	if n := len(db.saver.procs); n > rememberedMore+12*stormEach {
		t.Errorf("%d processes are kept in mind", n)
	}
	if n := len(db.saver.ops); n > rememberedMore+12*stormEach+len(k.Ops) {
		t.Errorf("%d operations are kept in mind", n)
	}
}

// The oldest rows of processes are deleted before they crowd out calls, both in earlier recordings
// and in the current one. Recent rows, sessions and losses stay. A year lies between the
// recordings.
func TestForget(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	from := storetest.Began
	for i, lasts := range []int{100, 100, 250} {
		id := strconv.Itoa(i + 1)
		db, c := open(t, path, Options{MaxBytes: stormLimit, Session: segment.Session{ID: id, Started: from}})
		c.now = from
		if _, err := db.held.SQL.Exec("INSERT INTO losses VALUES (?, 60, 0, 'c-1', 'hog', 'cpu-taken', 10000, 5)", db.saver.id); err != nil {
			t.Fatal(err)
		}
		storm(t, path, db, c, lasts)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		from = c.now.Add(365 * 24 * time.Hour)
		if got, _ := readLog(t, db); len(got.calls) == 0 {
			t.Errorf("session %s: no calls are left", id)
		}
		if got := testkit.Rows(t, path, "SELECT count(*) FROM sessions"); got != strconv.Itoa(i+1) {
			t.Errorf("%s sessions, want %d", got, i+1)
		}
		young := 10_000 + stormEach*(lasts-60)
		last := 10_000 + stormEach*lasts
		want := fmt.Sprint(last-young, " ", last-young, " ", (last-young)*(last+young-1)/2)
		if got := testkit.Rows(t, path, `SELECT count(*), count(o.pid), sum(calls) FROM processes p JOIN sessions s ON s.id = p.session LEFT JOIN ops o ON o.session = s.id AND o.pid = p.pid
			WHERE s.uid = ? AND p.pid >= ?`, id, young); got != want {
			t.Errorf("session %s: processes, with operations, calls: %s, want %s", id, got, want)
		}
		if got := testkit.Rows(t, path, "SELECT count(*) FROM ops WHERE session NOT IN (SELECT session FROM processes)"); got != "0" {
			t.Errorf("%s rows of operations of processes that are not there", got)
		}
		if got := testkit.Rows(t, path, "SELECT count(*) FROM rollups r JOIN tiers USING (session, seconds) WHERE start_ns + seconds * 1000000000 < kept_ns"); got != "0" {
			t.Errorf("%s rollups are said not to be there", got)
		}
		if got := testkit.Rows(t, path, "SELECT count(*) FROM host_sums JOIN tiers USING (session) WHERE seconds = 3600 AND time_ns < kept_ns"); got != "0" {
			t.Errorf("%s sums of the host stay", got)
		}
	}
	if got := testkit.Rows(t, path, `SELECT min(id), min(max(started_ns, kept_ns)) > ? FROM sessions JOIN tiers ON session = id AND seconds = 3600 WHERE kept_ns <= updated_ns`, from.Add(-365*24*time.Hour-250*time.Second).UnixNano()); got != "3 1" {
		t.Errorf("in another life it begins with %s, want what the third session has", got)
	}
	if got := testkit.Rows(t, path, "SELECT pid FROM processes WHERE session = 1"); got != "10000" {
		t.Errorf("the first session has process %s, want only the process that lost time", got)
	}
	if got := testkit.Rows(t, path, "SELECT min(pid) > 10001 FROM processes WHERE session = 3 AND comm = 'storm' AND pid > 10000"); got != "1" {
		t.Error("nothing of the last session was forgotten")
	}
	if used := testkit.Rows(t, path, "SELECT (page_count - freelist_count) * page_size <= ? FROM pragma_page_count, pragma_freelist_count, pragma_page_size", stormLimit/2*101/100); used != "1" {
		t.Error("the rows take more than their part")
	}
}

// A tick with more rows than the room reserved for it makes room at once.
func TestLargeTick(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{MaxBytes: stormLimit})
	k, calls := storetest.NewKernel(), storetest.NewGenerator(1).Calls(nil, 20_000)
	k.See(calls)
	most := int64(0)
	for j := range 200 {
		c.advance(time.Second)
		for i := range calls {
			calls[i].Start += int64(time.Second)
		}
		if err := db.Batch(&tick.Batch{Calls: calls}); err != nil {
			t.Fatal(err)
		}
		x := k.Tick(uint64(j+1), c.now, false)
		if j == 190 {
			comeAndGo(x, c.now, 0, 5000)
		}
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
		db.sealing.Wait() // files that wait for sealing count twice
		n := onDisk(t, path)
		most = max(most, n)
		if n > stormLimit*101/100 {
			t.Errorf("second %d: %d bytes, of %d", j, n, stormLimit)
		}
	}
	if most < stormLimit*9/10 {
		t.Errorf("it was never full: %d bytes of %d at the most", most, stormLimit)
	}
}
