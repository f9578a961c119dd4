package clickhouse_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// rollups returns the rows as FINAL of ReplacingMergeTree(calls) does: the last of those with the most calls of each key.
func (k *keeper) rollups() map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, row := range k.rows["rollups"] {
		key := fmt.Sprint(row["session"], row["start"], row["pid"], row["op"])
		if kept := out[key]; kept == nil || row["calls"].(uint64) >= kept["calls"].(uint64) {
			out[key] = row
		}
	}
	return out
}

func bucketCalls(row map[string]any) (sum uint64) {
	counts, _ := row["bucket_calls"].([]any)
	for _, n := range counts {
		sum += n.(uint64)
	}
	return sum
}

// checkRollups checks the sums of calls, returns, errors, nanoseconds and durations.
func (k *keeper) checkRollups(when string, want [5]uint64) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	var got [5]uint64
	for _, row := range k.rollups() {
		for i, name := range []string{"calls", "done", "errors", "total_ns"} {
			got[i] += row[name].(uint64)
		}
		got[4] += bucketCalls(row)
	}
	if got != want {
		k.t.Errorf("%s: calls, done, errors, total_ns and durations are %d, want %d", when, got, want)
	}
}

// longCall records the seconds after some time of a failed call that begins in the first second and takes 30 s.
func longCall(w *recorder, after, seconds int) {
	for i := after + 1; i <= seconds; i++ {
		w.now = began.Add(time.Duration(i) * time.Second)
		w.facts = func(b *tick.Batch, x *tick.Tick) {
			op := tick.Op{PID: 7, Op: events.Catalog[0].Op, Sum: tick.Counts{Calls: 1}}
			if i >= 31 {
				op.Sum.Done, op.Sum.Errors, op.Sum.Total, op.Sum.OnCPU = 1, 1, 30e9, 30e9
			}
			if i == 31 {
				b.Calls = []events.Call{{Start: began.UnixNano() + 5e8, Duration: 30e9, OnCPU: 30e9, PID: 7, TID: 7, Weight: 1, Op: op.Op, Flags: events.CallFailed, Result: -2}}
			}
			x.Ops = []tick.Op{op}
		}
		w.tick(false)
	}
}

// forgetSeconds deletes the kernel's counts of each second.
func (r *recorder) forgetSeconds() {
	r.t.Helper()
	db, err := sql.Open("sqlite", r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = db.Exec("DELETE FROM counted WHERE seconds = 1")
	if err := errors.Join(err, db.Close()); err != nil {
		r.t.Fatal(err)
	}
}

// A rollup that was sent during its 10 seconds is completed, also if the counts of each second are gone.
func TestPartOfARollup(t *testing.T) {
	testkit.LeakCheck(t)
	for _, forget := range []bool{false, true} {
		k, address := newKeeper(t)
		w := newRecorder(t, "s")
		for i := range uint64(10) {
			w.now = began.Add(time.Duration(i+1) * time.Second)
			w.facts = func(b *tick.Batch, x *tick.Tick) {
				op := events.Catalog[0].Op
				b.Calls = []events.Call{{Start: w.now.UnixNano() - 5e8, Duration: 1e6, OnCPU: 1e6, PID: 7, TID: 7, Weight: 1, Op: op}}
				x.Ops = []tick.Op{{PID: 7, Op: op, Sum: tick.Counts{Calls: i + 1, Done: i + 1, Total: (i + 1) * 1e6, OnCPU: (i + 1) * 1e6}}}
			}
			w.tick(false)
			if i != 4 {
				continue
			}
			r, err := query.Open(t.Context(), w.path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = clickhouse.Copy(t.Context(), open(t, address), r, query.Filter{Session: "s"}, nil)
			if err := errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			k.checkRollups("a copy of five seconds", [5]uint64{5, 5, 0, 5e6, 5})
		}
		w.facts = nil
		r := w.whole()
		if forget {
			w.forgetSeconds()
		}
		if _, err := clickhouse.Copy(t.Context(), open(t, address), r, query.Filter{Session: "s"}, nil); err != nil {
			t.Fatal(err)
		}
		k.checkRollups(fmt.Sprintf("a copy of ten seconds, forgotten: %t", forget), [5]uint64{10, 10, 0, 10e6, 10})
	}
}

// The return and the duration of a call that outlasts its rollup are sent, whether or not the rollup was
// sent before.
func TestLongCalls(t *testing.T) {
	testkit.LeakCheck(t)
	want := [5]uint64{1, 1, 1, 30e9, 1}
	w := newRecorder(t, "whole")
	longCall(w, 0, 32)
	k, address := newKeeper(t)
	if _, err := clickhouse.Copy(t.Context(), open(t, address), w.whole(), query.Filter{Session: "whole"}, nil); err != nil {
		t.Fatal(err)
	}
	k.checkRollups("a copy", want)

	k, address = newKeeper(t)
	cl, err := clickhouse.Open(address, hurried)
	if err != nil {
		t.Fatal(err)
	}
	w = newRecorder(t, "live")
	x := clickhouse.Follow(cl, clickhouse.FollowOptions{Path: w.path, Every: time.Millisecond, Grace: time.Minute,
		Mine: func(s *query.Session) bool { return s.ID == "live" }})
	longCall(w, 0, 25)
	testkit.Eventually(t, "the rollup without its return", func() bool { return x.State().Rollups == 1 })
	k.checkRollups("during the call", [5]uint64{1, 0, 0, 0, 0})
	longCall(w, 25, 32)
	r := w.whole()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	k.checkRollups("after the trace", want)

	// Once the kernel's counts of each second are gone, returns count where their calls began.
	w.forgetSeconds()
	if _, err := clickhouse.Copy(t.Context(), open(t, address), r, query.Filter{Session: "live"}, nil); err != nil {
		t.Fatal(err)
	}
	k.checkRollups("a copy of an old recording", want)
}
