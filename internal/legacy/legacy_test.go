package legacy_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/legacy"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// schema creates the tables of 0.9 that matter here.
const schema = `
CREATE TABLE events (id TEXT PRIMARY KEY, timestamp INTEGER NOT NULL, pid INTEGER NOT NULL, tid INTEGER NOT NULL, source INTEGER NOT NULL,
	op INTEGER NOT NULL, duration INTEGER NOT NULL, gpu_id INTEGER NOT NULL DEFAULT 0, arg0 INTEGER NOT NULL DEFAULT 0, arg1 INTEGER NOT NULL DEFAULT 0,
	ret_code INTEGER NOT NULL DEFAULT 0, stack_hash INTEGER NOT NULL DEFAULT 0, node TEXT NOT NULL DEFAULT '', rank INTEGER, cgroup_id INTEGER NOT NULL DEFAULT 0);
CREATE TABLE sessions (id INTEGER PRIMARY KEY, started_at INTEGER NOT NULL, stopped_at INTEGER NOT NULL DEFAULT 0, gpu_model TEXT NOT NULL DEFAULT '',
	cpu_cores INTEGER NOT NULL DEFAULT 0, mem_total INTEGER NOT NULL DEFAULT 0, kernel TEXT NOT NULL DEFAULT '', ingero_ver TEXT NOT NULL DEFAULT '',
	pid_filter TEXT NOT NULL DEFAULT '', node TEXT NOT NULL DEFAULT '');
CREATE TABLE stack_traces (hash INTEGER PRIMARY KEY, ips TEXT NOT NULL, frames TEXT NOT NULL DEFAULT '');
CREATE TABLE process_names (pid INTEGER PRIMARY KEY, name TEXT NOT NULL, seen_at INTEGER NOT NULL DEFAULT 0);
CREATE TABLE system_snapshots (id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL UNIQUE, cpu_pct REAL NOT NULL, mem_pct REAL NOT NULL,
	mem_avail INTEGER NOT NULL, swap_mb INTEGER NOT NULL, load_avg REAL NOT NULL);
CREATE TABLE causal_chains (id TEXT PRIMARY KEY, detected_at INTEGER NOT NULL, severity TEXT NOT NULL, summary TEXT NOT NULL, root_cause TEXT NOT NULL,
	explanation TEXT NOT NULL, recommendations TEXT NOT NULL DEFAULT '', cuda_op TEXT NOT NULL DEFAULT '', cuda_p99_us INTEGER NOT NULL DEFAULT 0,
	cuda_p50_us INTEGER NOT NULL DEFAULT 0, tail_ratio REAL NOT NULL DEFAULT 0, timeline TEXT NOT NULL DEFAULT '', node TEXT NOT NULL DEFAULT '');
CREATE TABLE event_aggregates (bucket INTEGER NOT NULL, source INTEGER NOT NULL, op INTEGER NOT NULL, pid INTEGER NOT NULL DEFAULT 0, count INTEGER NOT NULL DEFAULT 0,
	stored INTEGER NOT NULL DEFAULT 0, sum_dur INTEGER NOT NULL DEFAULT 0, min_dur INTEGER NOT NULL DEFAULT 0, max_dur INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (bucket, source, op, pid));
CREATE TABLE ops (source_id INTEGER, op_id INTEGER, name TEXT, description TEXT);
CREATE TABLE schema_info (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO ops VALUES (3, 1, 'sched_switch', '');
`

// content is a recording: a launch with the driver's inside, a copy, a failing synchronize, in two
// processes, and the other data of 0.9. $AT is its start.
const content = `
INSERT INTO sessions VALUES (1, $AT, $AT + 10000000000, 'H100', 16, 64, '6.8.0', 'v0.9.1', '4821', '');
INSERT INTO events VALUES
	(':1', $AT + 1000, 4821, 4822, 1, 3, 900, 0, 77, 0, 0, -9000000000000000001, '', NULL, 5),
	(':2', $AT + 1200, 4821, 4822, 4, 1, 500, 0, 77, 0, 0, 0, '', 3, 0),
	(':3', $AT + 1900, 4821, 4822, 1, 7, 50, 0, 4096, 1, 0, -9000000000000000001, '', NULL, 0),
	(':4', $AT + 1300, 4830, 4830, 1, 5, 2000000000, 0, 12, 0, 999, 0, '', NULL, 0),
	(':5', $AT + 1400, 4821, 4821, 3, 1, 77, 0, 1, 2, 0, 0, '', NULL, 0),
	(':6', $AT + 1500, 4821, 4821, 8, 1, 77, 0, 1, 2, 0, 0, '', NULL, 0),
	(':7', $AT + 3000000000, 4830, 4830, 3, 6, 0, 0, 0, 0, 0, 0, '', NULL, 0);
INSERT INTO stack_traces VALUES (-9000000000000000001, '', '[{"s":"main"}]');
INSERT INTO process_names VALUES (4821, 'python3', 0), (9999, 'another', 0);
INSERT INTO system_snapshots VALUES (1, $AT + 1000000000, 50.0, 40.0, 32, 2, 3.5), (2, $AT + 2500000000, 100.0, 40.0, 32, 2, 4.5);
INSERT INTO causal_chains VALUES ('gpu:x', $AT + 2000000000, 'HIGH', 'a slow sync', 'cron ran', 'it preempted', '["nice cron"]', 'cudaStreamSync', 900, 100, 9.0,
	'[{"layer":"host","op":"sched_switch","detail":"x"}]', '');
INSERT INTO event_aggregates VALUES ($AT, 1, 3, 4821, 101, 1, 50900, 10, 900), ($AT, 3, 1, 4821, 9, 1, 9, 1, 1);
`

// old makes a database of 0.9.
func old(t *testing.T, path string, more ...string) string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(schema); err != nil {
		t.Fatal(err)
	}
	for _, text := range append([]string{content}, more...) {
		if _, err := db.Exec(strings.ReplaceAll(text, "$AT", fmt.Sprint(began.UnixNano()))); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func convert(t *testing.T, from, node string) (*legacy.Report, *query.Reader) {
	t.Helper()
	d, err := legacy.Open(context.Background(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	to := filepath.Join(t.TempDir(), "new.db")
	r, err := d.Convert(context.Background(), legacy.Options{Path: to, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := query.Open(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	return r, reader
}

// The converted recording has everything that it can hold, and the report names the rest.
func TestConvert(t *testing.T) {
	ctx := context.Background()
	report, r := convert(t, old(t, filepath.Join(t.TempDir(), "old.db")), "gpu-7")
	if report.Calls != 4 || report.Summed != 100 || !slices.Equal(report.Nodes, []string{"gpu-7"}) {
		t.Errorf("%+v", report)
	}
	want := []legacy.Passed{{"column causal_chains.tail_ratio", 1}, {"column sessions.gpu_model", 1},
		{"column system_snapshots.mem_pct", 2}, {"events of operation 1 of source 8", 1}, {"events of sched_switch", 1}, {"table stack_traces", 1}}
	if d := cmp.Diff(want, report.Passed); d != "" {
		t.Error(d)
	}
	at := began.UnixNano()
	const none = events.CallNoLedger | events.CallLedgerPartial
	stack := uint32(0)
	calls, err := r.Calls(ctx, query.Filter{}, 0)
	if err != nil || len(calls) != 4 {
		t.Fatal(calls, err)
	}
	if stack = calls[1].Stack; stack == 0 {
		t.Error("the stack is gone")
	}
	wantCalls := []events.Call{
		{Start: at + 1200, Duration: 500, OnCPU: 500, PID: 4821, TID: 4822, Weight: 1, Op: testkit.Op("cuLaunchKernel"), Parent: testkit.Op("cudaLaunchKernel"),
			Args: [4]uint64{77}, Flags: none | events.CallNested | events.CallArgsPartial},
		{Start: at + 1000, Duration: 900, OnCPU: 900, PID: 4821, TID: 4822, Weight: 1, Stack: stack, Op: testkit.Op("cudaLaunchKernel"), Args: [4]uint64{77}, Flags: none | events.CallArgsPartial},
		{Start: at + 1900, Duration: 50, OnCPU: 50, PID: 4821, TID: 4822, Weight: 1, Stack: stack, Op: testkit.Op("cudaMemcpyAsync"), Args: [4]uint64{4096}, Tag: 1, Flags: none | events.CallArgsPartial},
		{Start: at + 1300, Duration: 2e9, OnCPU: 2e9, PID: 4830, TID: 4830, Weight: 1, Op: testkit.Op("cudaStreamSynchronize"), Args: [4]uint64{12}, Result: 999, Flags: none | events.CallFailed},
	}
	if d := cmp.Diff(wantCalls, calls); d != "" {
		t.Errorf("calls: %s", d)
	}
	s, err := r.Session(ctx, "")
	if err != nil || s.Node != "gpu-7" || s.Mode != "import" || s.State != "ended" || !s.Started.Equal(began) || !s.Ended.Equal(began.Add(10*time.Second)) ||
		s.Kernel != "6.8.0" || s.Version != "v0.9.1" || s.Target != "pid 4821" {
		t.Errorf("%+v, %v", s, err)
	}
	sum, err := r.Summary(ctx, query.Filter{})
	if err != nil || len(sum.Ops) != 4 || len(sum.Processes) != 2 || sum.Processes[0].Comm != "python3" || !sum.Processes[1].Ended.Equal(began.Add(3*time.Second)) {
		t.Fatalf("%+v, %v", sum, err)
	}
	launch := sum.Ops[0]
	wantSum := tick.Counts{Calls: 101, Done: 101, Total: 50900, Partial: 101, PartialNS: 50900, Inner: 500}
	if d := cmp.Diff(wantSum, launch.Sum); d != "" || !launch.Thinned {
		t.Errorf("launches with those that were summed: %s", d)
	}
	chains, err := r.Chains(ctx, query.Filter{})
	if err != nil || len(chains) != 1 {
		t.Fatal(chains, err)
	}
	c := chains[0]
	if c.Rule != "a slow sync" || c.Severity != tick.High || c.Op != testkit.Op("cudaStreamSynchronize") || c.OpP99 != 900*time.Microsecond || c.Culprits[0].What != "cron ran" ||
		len(c.Timeline) != 3 || c.Timeline[0].Text != "sched_switch x" || c.Timeline[2].Text != "nice cron" || !c.From.Equal(began.Add(2*time.Second)) {
		t.Errorf("%+v", c)
	}
	hosts := hosts(t, r, &s)
	if d := cmp.Diff([]float64{0.5, 1, 1}, hosts); d != "" { // the last tick repeats the previous one
		t.Errorf("states of the machine: %s", d)
	}
}

func hosts(t *testing.T, r *query.Reader, s *query.Session) (cpu []float64) {
	t.Helper()
	log, err := r.OpenLog(s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	var e segment.Entry
	for log.Next(&e) == nil {
		if e.Tick != nil {
			cpu = append(cpu, e.Tick.Host.CPU)
		}
	}
	return cpu
}

// A recording gets the same ID each time, whatever was added to the database; another recording
// gets another.
func TestSameAgain(t *testing.T) {
	dir := t.TempDir()
	a := old(t, filepath.Join(dir, "a.db"))
	b := old(t, filepath.Join(dir, "b.db"), "INSERT INTO events SELECT 'x' || id, timestamp + 100, pid, tid, source, op, duration, 0, 0, 0, 0, 0, '', NULL, 0 FROM events")
	ids := func(path, node string) []string {
		r, _ := convert(t, path, node)
		return r.Sessions
	}
	one := ids(a, "gpu-7")
	if again := ids(a, "gpu-7"); !slices.Equal(one, again) {
		t.Errorf("%v and then %v", one, again)
	}
	if longer := ids(b, "gpu-7"); !slices.Equal(one, longer) {
		t.Errorf("%v, and with more events %v", one, longer)
	}
	if other := ids(a, "gpu-8"); slices.Equal(one, other) {
		t.Errorf("two machines have the same recording %v", one)
	}
}

// Several machines and recordings in one database stay separate; events before the first recording,
// or without one, are kept.
func TestNodes(t *testing.T) {
	path := old(t, filepath.Join(t.TempDir(), "old.db"), `UPDATE events SET node = 'n1'; UPDATE sessions SET node = 'n1';
		INSERT INTO sessions (started_at, node) VALUES ($AT + 2000000000, 'n1');
		INSERT INTO events (id, timestamp, pid, tid, source, op, duration, node) SELECT 'n2' || id, timestamp, pid, tid, source, op, duration, 'n2' FROM events;
		INSERT INTO events (id, timestamp, pid, tid, source, op, duration, node) VALUES ('late', 1772366403000000000, 1, 1, 1, 1, 5, 'n1'), ('early', 5, 1, 1, 1, 1, 5, 'n1')`)
	report, r := convert(t, path, "")
	sessions, err := r.Sessions(context.Background())
	if err != nil || len(sessions) != 3 || report.Calls != 10 {
		t.Fatalf("%+v, %+v, %v", sessions, report, err)
	}
	got := map[string]int{}
	for _, s := range sessions {
		calls, err := r.Calls(context.Background(), query.Filter{Session: s.ID}, 0)
		if err != nil {
			t.Fatal(err)
		}
		got[s.Node+" "+s.Started.UTC().Format(time.TimeOnly)] = len(calls)
	}
	if d := cmp.Diff(map[string]int{"n1 12:00:00": 5, "n1 12:00:02": 1, "n2 12:00:00": 4}, got); d != "" {
		t.Error(d)
	}
}

// Other databases, and those that do not name their machine, are rejected.
func TestRefused(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	d, err := legacy.Open(ctx, old(t, filepath.Join(dir, "old.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if _, err := d.Convert(ctx, legacy.Options{Path: filepath.Join(dir, "new.db")}); !errors.Is(err, legacy.ErrNoNode) {
		t.Errorf("no node: %v", err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no database, but long enough for the head of one, which has one hundred bytes: so this has some more"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE events (timestamp, op)"); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	for _, path := range []string{text, other} {
		if _, err := legacy.Open(ctx, path); err == nil {
			t.Errorf("%s was opened", path)
		}
	}
	if _, err := legacy.Open(ctx, other); !errors.Is(err, store.ErrNotDatabase) {
		t.Errorf("another program's: %v", err)
	}
	if _, err := legacy.Open(ctx, filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Cgroups and ranks known to 0.9 are converted, with what the cgroup's path implies.
func TestConvertPlaces(t *testing.T) {
	const id = "3f2b8c1d9e7a6f5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b"
	_, r := convert(t, old(t, filepath.Join(t.TempDir(), "old.db"), "CREATE TABLE cgroup_metadata (cgroup_id INTEGER, cgroup_path TEXT);"+
		"INSERT INTO cgroup_metadata VALUES (5, '/docker/"+id+"'); UPDATE events SET rank = -1 WHERE pid = 4830"), "gpu-7")
	sum, err := r.Summary(context.Background(), query.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint32]tick.Where{}
	for i := range sum.Processes {
		got[sum.Processes[i].PID] = sum.Processes[i].Where
	}
	want := map[uint32]tick.Where{4821: {Runtime: "docker", Container: id, Rank: tick.Numbered(3)}, 4830: {}}
	if d := cmp.Diff(want, got); d != "" || sum.Processes[0].Cgroup != "/docker/"+id {
		t.Errorf("cgroup %s (-want +got):\n%s", sum.Processes[0].Cgroup, d)
	}
}
