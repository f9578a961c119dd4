package query

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// sqlDB is a database of two sessions on two machines, a day apart.
func sqlDB(t testing.TB) *Reader {
	r, _ := sqlRecording(t)
	return r
}

func sqlRecording(t testing.TB) (*Reader, map[string][]events.Call) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	calls := map[string][]events.Call{}
	for i, node := range []string{"gpu-7", "gpu-8"} {
		id := fmt.Sprintf("s%d", i+1)
		x := record(t, path, segment.Session{ID: id, Node: node, Started: began.Add(time.Duration(i) * time.Hour), Mode: "trace"})
		for range 2 {
			x.second()
		}
		x.ledgerSecond()
		x.close()
		calls[id] = x.calls
	}
	return openReader(t, path), calls
}

// ask runs a statement that must succeed.
func ask(t testing.TB, r *Reader, text string) *SQLResult {
	t.Helper()
	res, err := r.SQL(context.Background(), text, SQLLimits{Rows: 100_000})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if res.Cut != "" {
		t.Fatalf("%s: %s", text, res.Cut)
	}
	return res
}

// first returns the only row.
func first(t testing.TB, r *Reader, text string) []any {
	t.Helper()
	res := ask(t, r, text)
	if len(res.Rows) != 1 {
		t.Fatalf("%s: %d rows, want 1", text, len(res.Rows))
	}
	return res.Rows[0]
}

// Every call is a row, with its known fields and NULL for the rest.
func TestEvents(t *testing.T) {
	r, calls := sqlRecording(t)
	res := ask(t, r, `SELECT id, node, session, source, op, pid, tid, timestamp, duration_ns, oncpu_ns, runnable_ns, throttled_ns, blocked_ns,
		gap_ns, gap_oncpu_ns, result, failed, error, weight, stack, nested, parent, arg0, tag, comm FROM events`)
	i := 0
	for _, s := range []struct{ id, node string }{{"s1", "gpu-7"}, {"s2", "gpu-8"}} {
		for n, c := range calls[s.id] {
			want := []any{fmt.Sprintf("%s:%s.%d", s.node, s.id, n), s.node, s.id, c.Op.Source().String(), c.Op.String(), int64(c.PID), int64(c.TID), c.Start,
				c.Duration, c.OnCPU, c.Runnable, c.Throttled, c.Blocked, c.Gap, c.GapOnCPU, int64(c.Result), int64(0), nil, int64(c.Weight), nil, int64(0), nil,
				int64(c.Args[0]), int64(c.Tag), "python3"}
			if c.Flags&events.CallUnmeasured != 0 {
				for _, k := range []int{8, 9, 10, 11, 12, 15} {
					want[k] = nil
				}
			}
			if c.Flags&events.CallFailed != 0 {
				want[16], want[17] = int64(1), "cudaErrorMemoryAllocation"
			}
			if c.Stack != 0 {
				want[19] = int64(c.Stack)
			}
			if c.Parent != 0 {
				want[20], want[21] = int64(1), c.Parent.String()
			}
			if d := cmp.Diff(want, res.Rows[i]); d != "" {
				t.Fatalf("call %d of %s (-want +got):\n%s", n, s.id, d)
			}
			i++
		}
	}
	if i != len(res.Rows) {
		t.Errorf("%d rows, want %d", len(res.Rows), i)
	}
}

// Unmeasured parts are NULL, and so is an argument that an operation does not have.
func TestUnknownParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	c := events.Call{Start: began.UnixNano(), PID: 4821, TID: 4821, Op: opMalloc, Duration: 9, OnCPU: 5, Blocked: 4, Gap: 7, GapOnCPU: 3, GapBlocked: 4, Weight: 3, Stack: 8, GapStack: 9,
		Args: [4]uint64{64, 1 << 63, 1, 1}, Flags: events.CallLedgerPartial | events.CallGapPartial | events.CallArgsPartial}
	if err := x.db.Batch(&tick.Batch{Calls: []events.Call{c}}); err != nil {
		t.Fatal(err)
	}
	x.close()
	r := openReader(t, path)
	got := first(t, r, `SELECT duration_ns, oncpu_ns, blocked_ns, runnable_ns, gap_ns, gap_oncpu_ns, gap_blocked_ns, arg0, arg1, arg2, weight, stack, gap_stack, args_partial FROM events`)
	want := []any{int64(9), nil, nil, int64(0), int64(7), nil, nil, int64(64), int64(-1 << 63), nil, int64(3), int64(8), int64(9), int64(1)}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if cover := ask(t, r, "SELECT count(*) FROM events").Coverage; !cover.Thinned {
		t.Error("a result from records that stand for several calls does not say so")
	}
}

// A pushed-down condition gives the same result as in SQLite alone: + keeps it from the table.
func TestPushedDown(t *testing.T) {
	r := sqlDB(t)
	ns := func(d time.Duration) int64 { return began.Add(d).UnixNano() }
	for _, table := range []string{"events", "waits", "requests"} {
		for _, where := range []string{
			"%[1]stimestamp >= " + fmt.Sprint(ns(time.Second)),
			"%[1]stimestamp > " + fmt.Sprint(ns(time.Second)),
			"%[1]stimestamp < " + fmt.Sprint(ns(time.Second)),
			"%[1]stimestamp <= " + fmt.Sprint(ns(time.Second)),
			"%[1]stimestamp = " + fmt.Sprint(ns(0)),
			"%[1]stimestamp BETWEEN " + fmt.Sprint(ns(time.Second)) + " AND " + fmt.Sprint(ns(24*time.Hour+time.Second)),
			"%[1]stimestamp > " + fmt.Sprint(ns(time.Second)) + ".5", // not an integer
			"%[1]stimestamp > NULL", "%[1]stimestamp > 'text'", "%[1]stimestamp > 9223372036854775807", "%[1]stimestamp >= -9223372036854775808",
			"%[1]spid = 4821", "%[1]spid IN (4821, 4830, -1, 1)", "%[1]spid = 4294971117", "%[1]spid = NULL",
			"%[1]sop = 'cudaStreamSynchronize'", "%[1]sop IN ('cudaMalloc', 'cuStreamSynchronize')", "%[1]sop = 'none'", "%[1]sop = NULL", "%[1]sop = 5",
			"%[1]sop = 'cudaMalloc' AND %[1]sop = 'cudaFree'", "NOT %[1]sop = 'cudaMalloc'", "%[1]sop = 'cudaMalloc' OR %[1]spid = 4830",
			"%[1]ssession = 's2'", "%[1]ssession = ''", "%[1]ssession = '*'", "%[1]ssession = 'none'", "%[1]snode = 'gpu-7'", "%[1]snode = ''", "%[1]snode = 'none'",
			"%[1]snode = 'gpu-7' AND %[1]ssession = 's2'",
			"%[1]stimestamp >= " + fmt.Sprint(ns(time.Second)) + " AND %[1]spid = 4830 AND %[1]sop = 'cudaStreamSynchronize' AND %[1]snode = 'gpu-8'",
			"rowid IN (SELECT rowid FROM " + table + " WHERE %[1]spid = 4821)", "%[1]spid = 4830 OR %[1]sop = 'cudaMalloc' OR %[1]snode = 'gpu-7'",
		} {
			if table == "waits" && strings.Contains(where, "NOT") || table == "requests" && strings.Contains(where, "op ") {
				continue // op may be NULL there, or is no column
			}
			got := ask(t, r, fmt.Sprintf("SELECT * FROM "+table+" WHERE "+where, ""))
			want := ask(t, r, fmt.Sprintf("SELECT * FROM "+table+" WHERE "+where, "+"))
			if d := cmp.Diff(sorted(want), sorted(got)); d != "" {
				t.Errorf("%s: %s: %d rows, want %d", table, where, len(got.Rows), len(want.Rows))
			}
		}
	}
}

func sorted(r *SQLResult) []string {
	out := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		out[i] = fmt.Sprint(row)
	}
	slices.Sort(out)
	return out
}

// A condition on an id excludes other sessions' calls, and finds the call.
func TestEventByID(t *testing.T) {
	r, calls := sqlRecording(t)
	c := calls["s2"][7]
	if old := first(t, r, "SELECT id FROM events WHERE id = 'gpu-8:7' AND session = 's2'")[0]; old != "gpu-8:s2.7" { // as in 0.9
		t.Errorf("gpu-8:7 is %v", old)
	}
	got := first(t, r, "SELECT session, timestamp, op FROM events WHERE id = 'gpu-8:s2.7'")
	if d := cmp.Diff([]any{"s2", c.Start, c.Op.String()}, got); d != "" {
		t.Error(d)
	}
	got = first(t, r, fmt.Sprintf("SELECT id FROM events WHERE op = '%s' AND timestamp = %d AND pid = %d", c.Op, c.Start, c.PID))
	if got[0] != "gpu-8:s2.7" {
		t.Errorf("a call's id is %v when it is looked for by its time", got[0])
	}
	for _, id := range []string{"gpu-8:s1.999", "gpu-8:s2.999", "s2.7", "", ".", ":.", "gpu-8:s2", "gpu-8:none.1", "gpu-8:s2.7' AND id = 'gpu-8:s2.8", "gpu-9:7"} {
		if n := first(t, r, "SELECT count(*) FROM events WHERE id = '"+id+"'")[0]; n != int64(0) {
			t.Errorf("%q is the id of %v calls", id, n)
		}
	}
}

// Operations may be named by their common names.
func TestOperationNames(t *testing.T) {
	r := sqlDB(t)
	want := first(t, r, "SELECT count(*) FROM events WHERE +op = 'cudaStreamSynchronize'")[0]
	if want == int64(0) {
		t.Fatal("there are none")
	}
	for _, q := range []string{
		"SELECT count(*) FROM events WHERE op = 'cudaStreamSync'", "SELECT count(*) FROM events WHERE op = 'CUDASTREAMSYNCHRONIZE'",
		"SELECT count(*) FROM events WHERE op IN ('cudaStreamSync', 'cuMemAlloc')", "SELECT sum(count) FROM op_stats WHERE op = 'cudaStreamSync'",
		"SELECT sum(count) FROM timeline('1h', 'cudaStreamSync')", "SELECT count FROM quantile('cudaStreamSync', 0.5)",
		"WITH w(name) AS (VALUES ('cudaStreamSync')) SELECT count(*) FROM w JOIN events ON op = name",
	} {
		if got := first(t, r, q)[0]; got != want {
			t.Errorf("%s: %v, want %v", q, got, want)
		}
	}
}

// The statements in ingero's first descriptions work.
func TestSeedStatements(t *testing.T) {
	r := sqlDB(t)
	res := ask(t, r, "SELECT node, source, count(*) FROM events GROUP BY node, source")
	want := [][]any{{"gpu-7", "cudart", int64(300)}, {"gpu-7", "driver", int64(184)}, {"gpu-8", "cudart", int64(300)}, {"gpu-8", "driver", int64(184)}}
	if d := cmp.Diff(want, res.Rows); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"node", "source", "count(*)"}, res.Columns); d != "" {
		t.Error(d)
	}
	res = ask(t, r, "SELECT node, count(*) FROM events GROUP BY node")
	if d := cmp.Diff([][]any{{"gpu-7", int64(484)}, {"gpu-8", int64(484)}}, res.Rows); d != "" {
		t.Error(d)
	}
}

// The sums of table-valued functions equal the calls' sums.
func TestNativeSums(t *testing.T) {
	r := sqlDB(t)
	since := began.Add(time.Second)
	for _, tt := range []struct{ native, plain string }{
		{"SELECT op, source, node, pid, count, errors, nested, total_ns, throttled_ns, min_ns, max_ns FROM op_stats",
			"SELECT op, source, node, pid, sum(weight), sum(failed), sum(nested), sum(duration_ns), sum(throttled_ns), min(duration_ns), max(duration_ns) FROM events GROUP BY node, op, pid"},
		{fmt.Sprintf("SELECT op, pid, count FROM op_stats(%d, '%s') WHERE pid = 4830", since.UnixNano(), since.Add(time.Second).Format(time.RFC3339)),
			fmt.Sprintf("SELECT op, pid, count(*) FROM events WHERE pid = 4830 AND timestamp >= %d AND timestamp < %d GROUP BY op", since.UnixNano(), since.Add(time.Second).UnixNano())},
		{"SELECT node, op, count, pid FROM op_stats(NULL, NULL, 'node')", "SELECT node, op, count(*), NULL FROM events GROUP BY node, op"},
		{"SELECT op, count, node FROM op_stats(NULL, NULL, 'op')", "SELECT op, count(*), NULL FROM events GROUP BY op"},
		{"SELECT timestamp, op, count, total_ns, max_ns FROM timeline('1s')",
			"SELECT timestamp / 1000000000 * 1000000000 AS t, op, count(*), sum(duration_ns), max(duration_ns) FROM events GROUP BY t, op"},
		{"SELECT timestamp, count FROM timeline(3600000000000, 'cudaMalloc')",
			"SELECT timestamp / 3600000000000 * 3600000000000 AS t, count(*) FROM events WHERE op = 'cudaMalloc' GROUP BY t"},
		{"SELECT op, duration_ns, count FROM quantile(NULL, 1)", "SELECT op, max(duration_ns), count(*) FROM events GROUP BY op"},
		{"SELECT duration_ns FROM quantile('cudaMalloc', 99)", "SELECT percentile(duration_ns, 0.99) FROM events WHERE op = 'cudaMalloc'"},
		{"SELECT p50_ns, p99_ns FROM op_stats(NULL, NULL, 'op') WHERE op = 'cudaMalloc'", "SELECT percentile(duration_ns, 50), percentile(duration_ns, 99) FROM events WHERE op = 'cudaMalloc'"},
	} {
		got, want := sorted(ask(t, r, tt.native)), sorted(ask(t, r, tt.plain))
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "<nil>", "0") // an empty sum is NULL, a native one is 0
		}
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], "<nil>", "0")
		}
		slices.Sort(got)
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" || len(got) == 0 {
			t.Errorf("%s (-%s +this):\n%s", tt.native, tt.plain, d)
		}
	}
}

// The file's tables can be joined with calls.
func TestJoinWithFile(t *testing.T) {
	r := sqlDB(t)
	res := ask(t, r, `SELECT s.node, p.comm, e.op, count(*) FROM sessions s JOIN processes p ON p.session = s.id
		JOIN events e ON e.session = s.uid AND e.pid = p.pid WHERE e.op = 'cudaMalloc' GROUP BY 1, 2, 3`)
	if d := cmp.Diff([][]any{{"gpu-7", "python3", "cudaMalloc", int64(16)}, {"gpu-8", "python3", "cudaMalloc", int64(16)}}, res.Rows); d != "" {
		t.Error(d)
	}
	for _, table := range []string{"sessions", "processes", "libraries", "ops", "gaps", "drops", "reports", "chains", "rollups", "notable"} {
		if len(ask(t, r, "SELECT * FROM "+table).Rows) == 0 {
			t.Errorf("%s has no row", table)
		}
	}
}

// Deleted or damaged parts are reported, and the rest is answered.
func TestSQLCoverage(t *testing.T) {
	r := sqlDB(t)
	gone, err := filepath.Glob(filepath.Join(store.LogDir(r.Path()), "s1*"))
	if err != nil || len(gone) == 0 {
		t.Fatal(gone, err)
	}
	for _, path := range gone {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(store.LogDir(r.Path()), "s2*"))
	if err != nil || len(left) == 0 {
		t.Fatal(left, err)
	}
	b, err := os.ReadFile(left[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range b[len(b)/8 : len(b)/2] { // in the calls
		b[len(b)/8+i] ^= 1
	}
	if err := os.WriteFile(left[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"events", "waits"} { // sums may be kept without the calls
		res := ask(t, r, "SELECT count(*) FROM "+table)
		if !slices.Equal(res.Coverage.Missing, []string{"s1"}) || len(res.Coverage.Damage) == 0 {
			t.Errorf("%s: %+v", table, res.Coverage)
		}
	}
	if cover := ask(t, r, "SELECT count(*) FROM requests").Coverage; !slices.Equal(cover.Missing, []string{"s1"}) || len(cover.Damage) == 0 {
		t.Errorf("requests: %+v", cover)
	}
	if cover := ask(t, r, "SELECT count(*) FROM events a, events b").Coverage; len(cover.Missing) != 1 || len(cover.Damage) != 1 {
		t.Errorf("a table that is read again and again is reported more than once: %+v", cover)
	}
}

// A statement ends when its caller cancels, one waits for another, and the caller's time limit
// includes that wait. A caller that sets no limit has one of 10 s.
func TestSQLCancelled(t *testing.T) {
	if l := (SQLLimits{}).orDefaults(); l.Time != 10*time.Second {
		t.Errorf("the default limit is %v", l.Time)
	}
	r := sqlDB(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.SQL(ctx, "SELECT 1", SQLLimits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	r.slot <- struct{}{} // as if one were running
	if _, err := r.SQL(context.Background(), "SELECT 1", SQLLimits{Time: time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another runs: %v", err)
	}
	if rows, err := r.Select(context.Background(), "SELECT ?1, uid FROM sessions ORDER BY uid", 7); err != nil || len(rows) != 2 || rows[1][0] != int64(7) || rows[1][1] != "s2" {
		t.Errorf("the program's own statement, while another runs: %v, %v", rows, err)
	}
	<-r.slot
	ctx, cancel = context.WithCancel(context.Background())
	go cancel()
	if _, err := r.SQL(ctx, endless+"SELECT count(*) FROM c", SQLLimits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Concurrent callers get their answers, one after the other.
func TestSQLConcurrent(t *testing.T) {
	r := sqlDB(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			res, err := r.SQL(context.Background(), fmt.Sprintf("SELECT %d, count(*) FROM events", i), SQLLimits{})
			if err != nil || res.Rows[0][0] != int64(i) || res.Rows[0][1] != int64(968) {
				t.Errorf("%d: %+v, %v", i, res, err)
			}
		})
	}
	all.Wait()
	left := 0
	statements.Range(func(any, any) bool { left++; return true })
	if left != 0 {
		t.Errorf("%d statements are still known", left)
	}
}

// A live recording, and a copy of a database, can be queried.
func TestSQLWhileRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "s"})
	r := openReader(t, path)
	for i := range 3 {
		x.second()
		if n := first(t, r, "SELECT count(*) FROM events")[0]; n != int64(len(x.calls)) {
			t.Errorf("after %d s there are %v calls, want %d", i+1, n, len(x.calls))
		}
	}
}
