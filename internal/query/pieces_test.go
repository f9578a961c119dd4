package query

import (
	"database/sql"
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// Pieces of seconds add up to the threads' accounts, for any window, and name who and what took the
// time as far as waits show it.
func TestPiecesOfSeconds(t *testing.T) {
	_, r, _, _ := ledgerDB(t)
	for _, tt := range []struct {
		name     string
		f        Filter
		pieces   int
		blocked  uint64 // of 4821, in calls that wait for the GPU
		throttle uint64 // of 4830
		onCPU    uint64 // of threads that ended
	}{
		{"all", Filter{}, 10, 5e9, 5e9, 5 * 4e8},
		{"a process", Filter{PIDs: []uint32{4830}}, 5, 0, 5e9, 0},
		{"two seconds", Filter{From: began.Add(2 * time.Second), To: began.Add(4 * time.Second)}, 4, 2e9, 2e9, 2 * 4e8},
		{"a part of a second", Filter{From: began.Add(2100 * time.Millisecond), To: began.Add(2400 * time.Millisecond)}, 2, 1e9, 1e9, 4e8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, length, err := r.Pieces(t.Context(), tt.f, time.Second)
			if err != nil || length != time.Second || len(got) != tt.pieces {
				t.Fatalf("%d pieces of %s, want %d; %v", len(got), length, tt.pieces, err)
			}
			sums := map[uint32]*tick.Breakdown{4821: {}, 4830: {}}
			for i := range got {
				x := &got[i]
				sum := sums[x.PID].Plus(&x.Breakdown)
				sums[x.PID] = &sum
				if x.To-x.From > int64(time.Second) || x.Elapsed != x.GPUWait+x.CallCPU+x.GapCPU+x.Runnable+x.Throttled+x.Blocked {
					t.Errorf("from %d to %d: %+v", x.From, x.To, x.Breakdown)
				}
			}
			if a, b := sums[4821], sums[4830]; a.Blocked+a.GPUWait != tt.blocked || b.Throttled != tt.throttle || a.GapCPU != tt.onCPU {
				t.Errorf("4821 %+v, 4830 %+v", a, b)
			}
			by := sums[4830].RunnableBy
			if len(by) != 1 || by[0].Who.Name.String() != "hog" {
				t.Errorf("4830 waited for %+v", by)
			}
		})
	}
	for _, f := range []Filter{{From: began.Add(time.Hour)}, {PIDs: []uint32{1}}} {
		if got, _, err := r.Pieces(t.Context(), f, time.Second); len(got) != 0 || err != nil {
			t.Errorf("%+v: %d pieces, %v", f, len(got), err)
		}
	}
}

// Pieces longer than seconds come from the stored accounts, from the coarse ones if the fine are
// gone or if requested.
func TestPiecesOfAccounts(t *testing.T) {
	r := openReader(t, accountsDB(t))
	for _, tt := range []struct {
		name   string
		f      Filter
		least  time.Duration
		length time.Duration
	}{
		{"minutes", Filter{}, time.Minute, 10 * time.Second},
		{"half hours", Filter{}, 30 * time.Minute, 10 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, length, err := r.Pieces(t.Context(), tt.f, tt.least)
			if err != nil || length != tt.length || len(got) == 0 {
				t.Fatalf("%d pieces of %s: %v", len(got), length, err)
			}
			last := int64(math.MinInt64)
			for i := range got {
				if got[i].To < last {
					t.Errorf("piece %d ends before the one before", i)
				}
				last = got[i].To
			}
		})
	}
}

// From skips the part of a log before a time, and nothing else.
func TestLogFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	for range 40 {
		x.ledgerSecond()
	}
	x.close()
	r := openReader(t, path)
	f := Filter{From: began.Add(30 * time.Second), To: began.Add(33 * time.Second)}
	got, _, err := r.Pieces(t.Context(), f, time.Second)
	if err != nil || len(got) != 6 {
		t.Errorf("%d pieces, %v", len(got), err)
	}
}

// The growth of a thread's account adds up to the account, also if a correction made it smaller
// meanwhile.
func TestGrowthOfACorrectedAccount(t *testing.T) {
	const ms = 1_000_000
	var h highest
	var gpu, calls uint64
	for _, x := range []struct{ sync, calls uint64 }{{10, 20}, {30, 60}, {15, 70}, {40, 100}} { // ms on a CPU
		by := h.grow(&tick.Thread{Sync: tick.Times{OnCPU: x.sync * ms}, InCalls: tick.Times{OnCPU: x.calls * ms}})
		gpu, calls = gpu+by[tick.InGPUWaits].OnCPU, calls+by[tick.InCalls].OnCPU
	}
	if gpu != 40*ms || calls != 60*ms {
		t.Errorf("waits for the GPU grew by %d ns, other calls by %d ns, want 40 and 60 ms", gpu, calls)
	}
}

// Where a window begins before the oldest kept segment, its pieces are the stored accounts.
func TestPiecesBeforeTheOldestSegment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := rotatingFrom(t, path)
	for n := 0; n < 3; {
		x.ledgerSecond()
		segs, err := segment.OfSession(log.Dir(store.LogDir(path)), "s")
		if err != nil {
			t.Fatal(err)
		}
		n = len(segs)
	}
	x.close()
	r := openReader(t, path)
	f := Filter{From: began, To: x.now, PIDs: []uint32{4821}}
	whole, length, err := r.Pieces(t.Context(), f, time.Second)
	if err != nil || length != time.Second {
		t.Fatalf("%d pieces of %s, %v", len(whole), length, err)
	}
	delete(intoMemory(t, r), "s-000000.iseg")
	got, length, err := r.Pieces(t.Context(), f, time.Second)
	if err != nil || length != 10*time.Second || len(got) == 0 || got[0].From-began.UnixNano() > int64(10*time.Second) || len(got) >= len(whole) {
		t.Fatalf("%d pieces of %s, %v; without deletion %d", len(got), length, err, len(whole))
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("DELETE FROM accounts WHERE seconds = 600; UPDATE accounts SET seconds = 600 WHERE end_ns <= ?", got[0].To)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if long, length, err := r.Pieces(t.Context(), f, time.Second); err != nil || length != 10*time.Minute || len(long) == 0 || long[0].From != got[0].From {
		t.Errorf("after the first rows of ten seconds were deleted: %d pieces of %s, %v", len(long), length, err)
	}
	for i := 1; i < len(got); i++ {
		if a, b := &got[i-1], &got[i]; b.From < a.To || b.From-a.To > int64(10*time.Second) {
			t.Errorf("piece %d is from %d to %d, the next from %d to %d", i-1, a.From, a.To, b.From, b.To)
		}
	}
}
