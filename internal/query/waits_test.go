package query

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// ledgerSecond records a second of two threads that wait, of one that ends in it, and of a growing
// chain.
func (x *session) ledgerSecond() (waits []events.Wait, t *tick.Tick) {
	x.t.Helper()
	var calls []events.Call
	n, at := x.seq+1, x.now.UnixNano()
	for i := range int64(100) {
		pid := uint32(4821 + 9*(i%2))
		w := events.Wait{PID: pid, TID: pid, Start: at + i*9e6, Duration: 4e6, State: events.WaitBlocked, Reason: events.ReasonLock, Op: opSync}
		if i%3 == 0 {
			w.Op, w.State, w.Reason, w.Taken = 0, events.WaitRunnable, events.ReasonUnknown, 1e6
			w.Who = events.Thread{PID: 1, TID: 2, Name: events.NameOf("hog")}
		}
		waits = append(waits, w)
		calls = append(calls, events.Call{PID: pid, TID: pid, Op: opSync, Start: w.Start, Duration: 5e6, Throttled: 2e6, OnCPU: 3e6, Weight: 1})
	}
	for i := range calls {
		x.ops.See(calls[i])
		x.ops.Op(calls[i].PID, calls[i].Op).Sum.Throttled += 2e6
	}
	x.calls = append(x.calls, calls...)
	x.now = x.now.Add(time.Second)
	t = x.tick(false)
	end := x.now.UnixNano()
	short := uint32(7000 + n)
	t.Threads = []tick.Thread{
		{PID: 4821, TID: 4821, Comm: "python3", Since: began.UnixNano(), Until: end, InCalls: tick.Times{Blocked: n * 1e9}},
		{PID: 4821, TID: short, Comm: "short", Ended: true, Since: end - 9e8, Until: end - 5e8, Between: tick.Times{OnCPU: 4e8}},
		{PID: 4830, TID: 4830, Comm: "python3", Since: began.UnixNano(), Until: end, Between: tick.Times{Throttled: n * 1e9},
			Open: []tick.OpenCall{{Op: opSync, Start: end - 5, Args: [4]uint64{n}}}},
	}
	t.Breakdowns = []tick.Breakdown{{PID: 4821, Threads: 1, Elapsed: n * 1e9, Blocked: n * 1e9}}
	t.Chains = []tick.Chain{chain("cpu/4821", 4821, tick.Medium, n), chain("disk/4830", 4830, tick.High, n),
		{ID: "once", Rule: "lock-wait", Severity: tick.Low, PID: 4821, From: began, To: began.Add(time.Second / 2)}}
	if err := errors.Join(x.db.Batch(&tick.Batch{Calls: calls, Waits: waits}), x.db.Tick(t)); err != nil {
		x.t.Fatal(err)
	}
	return waits, t
}

func chain(id string, pid uint32, severity tick.Severity, n uint64) tick.Chain {
	d := time.Duration(n) * time.Millisecond
	return tick.Chain{ID: id, Rule: "cpu-taken", Severity: severity, PID: pid, TID: pid + 1, Op: opSync,
		From: began.Add(time.Second), To: began.Add(time.Second + d), Lost: d, LostMin: d / 2, LostMax: 2 * d, Window: 9 * d, Excess: 3 * d,
		Steps: 40, Slow: 4, Confidence: 0.75, Baseline: "0, always", StepP50: 5 * d, StepP99: 7 * d, Without: 6 * d, OpP99: 4 * d,
		Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 10, Parent: 1, Cgroup: 1 << 60, Name: events.NameOf("stress")}, Cgroup: "/a", Parent: "bash 1", Lost: d, CPUs: []uint16{1, 63}},
			{What: "CPU quota", Own: true, Agent: true, Cmdline: "x --y", Lost: d}},
		Timeline: []tick.Moment{{Time: began.Add(d), Source: "HOST", Text: "stress \"9\" had the CPU for 3 ms"}},
		NotIt:    []string{"no disk", "no lock"}}
}

// ledgerDB is a database with 5 such seconds.
func ledgerDB(t *testing.T) (x *session, r *Reader, waits []events.Wait, ticks []*tick.Tick) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	x = record(t, path, segment.Session{ID: "s"})
	for range 5 {
		w, tk := x.ledgerSecond()
		waits, ticks = append(waits, w...), append(ticks, tk)
	}
	return x, openReader(t, path), waits, ticks
}

func TestWaits(t *testing.T) {
	_, r, waits, _ := ledgerDB(t)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	for _, tt := range []struct {
		name string
		f    Filter
		want func(*events.Wait) bool
		n    int
	}{
		{"all", Filter{}, func(*events.Wait) bool { return true }, 500},
		{"a process", Filter{PIDs: []uint32{4830}}, func(w *events.Wait) bool { return w.PID == 4830 }, 250},
		{"in calls", Filter{Ops: []events.Op{opSync}}, func(w *events.Wait) bool { return w.Op == opSync }, 330},
		{"that reach into a window", Filter{From: at(2002), To: at(2019)}, func(w *events.Wait) bool {
			return w.Start < at(2019).UnixNano() && w.End() > at(2002).UnixNano()
		}, 3},
		{"of no time", Filter{From: at(6000)}, func(*events.Wait) bool { return false }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want, got []events.Wait
			for i := range waits {
				if tt.want(&waits[i]) {
					want = append(want, waits[i])
				}
			}
			_, err := r.Waits(t.Context(), tt.f, func(w *events.Wait) bool {
				got = append(got, *w)
				return true
			})
			if err != nil || !slices.Equal(got, want) || len(got) != tt.n {
				t.Errorf("%d waits, want %d, %d; %v", len(got), len(want), tt.n, err)
			}
		})
	}
	n := 0
	count := func(*events.Wait) bool { n++; return false }
	if _, err := r.Waits(t.Context(), Filter{}, count); err != nil || n != 1 {
		t.Errorf("%d waits after the first, %v", n-1, err)
	}
	if _, err := r.Waits(t.Context(), Filter{Session: "none"}, count); !errors.Is(err, ErrNoSession) || n != 1 {
		t.Errorf("no session: %d waits, %v", n-1, err)
	}
}

func TestThreads(t *testing.T) {
	_, r, _, ticks := ledgerDB(t)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	ended := func(n int) tick.Thread { return ticks[n-1].Threads[1] }
	for _, tt := range []struct {
		name string
		f    Filter
		want []tick.Thread
	}{
		{"to the end", Filter{From: at(4000)}, ticks[4].Threads},
		{"all", Filter{}, []tick.Thread{ticks[4].Threads[0], ended(1), ended(2), ended(3), ended(4), ended(5), ticks[4].Threads[2]}},
		{"to a tick", Filter{From: at(2100), To: at(3000)}, ticks[2].Threads},
		{"to between ticks", Filter{From: at(2100), To: at(3700)}, ticks[2].Threads},
		{"from after an end", Filter{From: at(2600), To: at(3000)}, []tick.Thread{ticks[2].Threads[0], ticks[2].Threads[2]}},
		{"a process", Filter{PIDs: []uint32{4830}}, ticks[4].Threads[2:]},
		{"before the first tick", Filter{To: at(500)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.Threads(context.Background(), tt.f)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestChains(t *testing.T) {
	x, r, _, _ := ledgerDB(t)
	last := []tick.Chain{chain("disk/4830", 4830, tick.High, 5), chain("cpu/4821", 4821, tick.Medium, 5),
		{ID: "once", Rule: "lock-wait", Severity: tick.Low, PID: 4821, From: began, To: began.Add(time.Second / 2)}}
	for name, tt := range map[string]struct {
		f    Filter
		want []tick.Chain
	}{
		"all, the last state of each": {Filter{}, last},
		"a process":                   {Filter{PIDs: []uint32{4830}}, last[:1]},
		"from":                        {Filter{From: began.Add(600 * time.Millisecond)}, last[:2]},
		"to":                          {Filter{To: began.Add(time.Second)}, last[2:]},
	} {
		got, err := r.Chains(context.Background(), tt.f)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, got, cmp.Comparer(time.Time.Equal)); d != "" {
			t.Errorf("%s: -want +got:\n%s", name, d)
		}
	}
	x.now = x.now.Add(tick.ChainStays)
	x.close() // the final tick has none; they stay, even after the calls are gone
	if err := os.RemoveAll(store.LogDir(r.Path())); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Chains(context.Background(), Filter{}); err != nil || len(got) != 3 {
		t.Errorf("afterwards %d chains, %v", len(got), err)
	}
	if _, err := r.Threads(context.Background(), Filter{}); !errors.Is(err, ErrNoCalls) {
		t.Errorf("threads of a log that is gone: %v", err)
	}
}

// Throttled time is separate, both in stored and in rebuilt sums.
func TestSummaryTellsThrottledTime(t *testing.T) {
	x, r, _, _ := ledgerDB(t)
	for _, f := range []Filter{{}, {From: began.Add(time.Nanosecond)}} {
		s := summary(t, r, f)
		var sum uint64
		for i := range s.Ops {
			o := &s.Ops[i]
			sum += o.Sum.Throttled
			if f.From.IsZero() && o.Sum != x.ops[storetest.Key{PID: o.PID, Op: o.Op}].Sum {
				t.Errorf("%d %v: %+v", o.PID, o.Op, o.Sum)
			}
		}
		if missing := uint64(len(x.calls))*2e6 - sum; missing > 2e6 || s.Rebuilt != !f.From.IsZero() {
			t.Errorf("rebuilt %v: throttled %d, %d less than all", s.Rebuilt, sum, missing)
		}
	}
}

// toFirstSchema reverts the migrations.
const toFirstSchema = withoutWhere +
	"DROP TABLE memory; DROP TABLE ledgers; DROP TABLE held; DROP TABLE devices; DROP TABLE streams; DROP TABLE graphs; DROP TABLE comms; DROP TABLE copies; DROP TABLE errors;" +
	"DROP TABLE rollups; DROP TABLE tiers; DROP TABLE snapshots; DROP TABLE notable; DROP TABLE host_sums; ALTER TABLE sessions DROP COLUMN rolled;" +
	"ALTER TABLE sessions ADD COLUMN log; ALTER TABLE sessions ADD COLUMN log_bytes; ALTER TABLE sessions ADD COLUMN capped_ns;" +
	"DROP TABLE labels; DROP TABLE episodes; DROP TABLE silences; DROP TABLE accounts; DROP TABLE counted; DROP INDEX processes_ended;" +
	"DROP TABLE names; DROP TABLE functions; DROP TABLE frames; DROP TABLE stacks; DROP TABLE xids; DROP TABLE gpus; DROP TABLE gpu_states; DROP TABLE inference; DROP TABLE engine_steps; DROP TABLE chains; DROP TABLE losses; ALTER TABLE ops DROP COLUMN throttled_ns; ALTER TABLE gaps DROP COLUMN throttled_ns; PRAGMA user_version = 1"

// A database from before the ledger is readable.
func TestDatabaseOfTheFirstSchema(t *testing.T) {
	x, r, _, _ := ledgerDB(t)
	x.close()
	path := r.Path()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(toFirstSchema); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	old := openReader(t, path)
	if s := summary(t, old, Filter{}); len(s.Ops) != 2 || s.Ops[0].Sum.Calls != 250 || s.Ops[0].Sum.Throttled != 0 {
		t.Errorf("summary: %+v", s.Ops)
	}
	if got, err := old.Chains(context.Background(), Filter{}); len(got) != 0 || err != nil {
		t.Errorf("chains: %v, %v", got, err)
	}
	if got, err := old.Accounts(context.Background(), Filter{}); len(got) != 0 || err != nil {
		t.Errorf("accounts: %v, %v", got, err)
	}
	if n, known, err := old.Called(context.Background(), Filter{}); n != 0 || known || err != nil {
		t.Errorf("called: %d, %v, %v", n, known, err)
	}
	if got, err := old.Xids(context.Background(), Filter{}); len(got) != 0 || err != nil {
		t.Errorf("faults: %v, %v", got, err)
	}
	record(t, path, segment.Session{ID: "later"}).close() // migrates it
	if s := summary(t, old, Filter{Session: "s"}); len(s.Ops) != 2 || s.Ops[0].Sum.Calls != 250 {
		t.Errorf("summary afterwards: %+v", s.Ops)
	}
}
