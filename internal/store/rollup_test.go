package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Processes that call and end, and one that calls again after a rest, are correct in the sums of
// each length, and leave memory soon.
func TestRollupRests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{Session: segment.Session{ID: "one", Started: storetest.Began}})
	c.now = storetest.Began
	k := storetest.NewKernel()
	const (
		steps = 150 // steps of
		step  = 30 * time.Second
		each  = 10 // new processes per step
		rests = 7  // number of the process that calls again in each 50th step
	)
	most, calls, again := 0, 0, 0
	for m := range steps {
		var batch []events.Call
		for i := range each {
			batch = append(batch, events.Call{PID: uint32(1000 + m*each + i), TID: 1, Op: testkit.Op("cudaMalloc"), Weight: 1, Start: c.now.UnixNano(), Duration: int64(time.Microsecond)})
		}
		if m%50 <= 1 || m%50 == 8 { // 1: in the same minute; 8: in the same ten minutes and hour
			batch = append(batch, events.Call{PID: rests, TID: 1, Op: testkit.Op("cudaMalloc"), Weight: 1, Start: c.now.UnixNano(), Duration: int64(time.Millisecond)})
			again++
		}
		calls += len(batch)
		c.advance(step)
		x := k.Tick(uint64(m+1), c.now, m == steps-1)
		if err := db.Batch(&tick.Batch{Calls: batch}); err != nil {
			t.Fatal(err)
		}
		if err := db.Tick(x); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(db.saver.rollup.open))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if most > 4*each {
		t.Errorf("at most %d sums are in memory, of %d processes", most, each*steps)
	}
	for _, x := range retention.Rollups {
		want := fmt.Sprint(calls, " ", again, " ", again*int(time.Millisecond))
		got := testkit.Rows(t, path, fmt.Sprintf("SELECT sum(calls), sum(calls) FILTER (WHERE pid = %d), sum(total_ns) FILTER (WHERE pid = %[1]d) FROM rollups WHERE seconds = %d", rests, x.Seconds()))
		if got != want {
			t.Errorf("sums of %s: %s, want %s", x.Length, got, want)
		}
	}
}
