package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// rankRecording is a recording of a rank.
type rankRecording struct {
	node        string
	rank        int32
	ranks       uint32
	at          time.Time     // start
	clock       time.Duration // clock skew of the node, ahead
	collectives int
	every       time.Duration             // interval between collectives; 0: 10 ms
	late        func(i int) time.Duration // delay of collective i; nil: none
}

// make creates the recording, which lasts nine seconds.
func (x rankRecording) make(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	at, pid := x.at.Add(x.clock), uint32(5000+x.rank)
	if x.late == nil {
		x.late = func(int) time.Duration { return 0 }
	}
	now, every := at, cmp.Or(x.every, 10*time.Millisecond)
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now },
		Session: segment.Session{ID: x.node + "-r", Node: x.node, Started: at, Mode: "trace"}})
	if err != nil {
		t.Fatal(err)
	}
	op := testkit.Op("ncclAllReduce")
	var calls []events.Call
	handle := uint64(0xc0)
	for i := range x.collectives {
		c := events.Call{Start: at.Add(time.Duration(i+1)*every + x.late(i)).UnixNano(), Duration: 20e3, OnCPU: 20e3, PID: pid, TID: pid, Weight: 1, Op: op}
		withComm(&c, handle)
		calls = append(calls, c)
	}
	ops := storetest.Counts{}
	ops.See(calls...)
	now = at.Add(9 * time.Second)
	last := &tick.Tick{Time: now, Started: at, Seq: 1, Final: true, Ops: ops.List(), Processes: []tick.Process{{PID: pid, Comm: "train.py", Mapped: at, Attached: at}},
		States: []tick.State{{PID: pid, Comms: tick.List[tick.Comm]{First: []tick.Comm{{Number: 1, Handle: handle, ID: 0xfeedbeef12345678, Rank: x.rank, Ranks: x.ranks, State: tick.CommActive,
			Began: at.UnixNano(), Seq: uint64(x.collectives), Collectives: uint64(x.collectives), Last: tick.CommOp{Op: op, Time: calls[len(calls)-1].Start}}}}}}}
	for _, err := range []error{db.Batch(&tick.Batch{Calls: calls}), db.Tick(last), db.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// withComm sets the communicator argument.
func withComm(c *events.Call, handle uint64) {
	for i := range c.Args {
		c.Args[i] = handle
		if v, ok := c.Value(events.RoleComm); ok && v == handle {
			return
		}
		c.Args[i] = 0
	}
	panic("no argument is the communicator")
}

// serveRanks serves the recordings of three ranks on three nodes, changed by a function, and returns
// the nodes' addresses. Rank 1 is late for every other collective, and rank 2 stops after 300 of 400.
func serveRanks(t *testing.T, change func(*rankRecording)) string {
	t.Helper()
	at := time.Now().Add(-10 * time.Second)
	var addresses []string
	for rank, clock := range []time.Duration{0, 0, 80 * time.Millisecond} {
		r := rankRecording{node: fmt.Sprintf("gpu-%d", rank), rank: int32(rank), at: at, clock: clock, collectives: 400}
		switch rank {
		case 1:
			r.late = func(i int) time.Duration { return time.Duration(i%2) * 8 * time.Millisecond }
		case 2:
			r.collectives = 300
		}
		change(&r)
		s := serve(t, r.make(t), func() time.Time { return time.Now().Add(clock) }, nil, "--addr", ":0", "--no-tls", "--node", r.node)
		addresses = append(addresses, s.url)
	}
	return strings.Join(addresses, ",")
}

// Ranks on several nodes are compared after correcting their clocks: which rank is missing, and
// which rank the others waited for.
func TestExplainNodesCollectives(t *testing.T) {
	testkit.LeakCheck(t)
	nodes := serveRanks(t, func(r *rankRecording) { r.ranks = 4 })
	code, got, said := command(t, nil, nil, "explain", "--since", "1m", "--nodes", nodes)
	for _, want := range []string{
		"FLEET REPORT - 0 causal chains found on 0 of 3 machines\nNothing slowed the jobs of gpu-0, gpu-1, gpu-2.\n",
		"COMMUNICATOR feedbeef of 4 ranks · 3 seen on 3 machines\n",
		"No information about rank 3: not on a node that answered, or not traced.",
		"ncclAllReduce #301: ranks 0 1 entered it since ",
		"after 5.99 s, rank 2 has not entered it: train.py (5002) on gpu-2, which has entered 300 collectives",
		"rank 1, train.py (5001) on gpu-1, was the last to enter 150 of 300",
	} {
		if flat := strings.Join(strings.Fields(got), " "); code != 0 || !strings.Contains(flat, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is not in\n%s\n%s", want, got, said)
		}
	}
	if !strings.Contains(said, "the clock of gpu-2 is ") {
		t.Errorf("it says %s", said)
	}
	code, got, _ = command(t, nil, nil, "explain", "--json", "--since", "1m", "--nodes", nodes)
	var j wire.FleetReport
	if err := json.Unmarshal([]byte(got), &j); err != nil || code != 0 || len(j.Reports) != 3 || len(j.Communicators) != 1 {
		t.Fatalf("%d %v %s", code, err, got)
	}
	x := &j.Communicators[0]
	if len(x.Late) != 1 {
		t.Fatalf("late: %+v", x.Late)
	}
	if off := time.Duration(x.Late[0].WaitedNS) - 1200*time.Millisecond; off.Abs() > time.Duration(x.Late[0].WithinNS) {
		t.Errorf("the others waited %s more than 1,200 ms, but it is known to within %s", off, time.Duration(x.Late[0].WithinNS))
	}
	if len(x.Absent) != 1 || x.Absent[0].Rank != 2 || x.Absent[0].Seq != 301 || x.Late[0].Times != 150 || x.Compared != 300 {
		t.Errorf("got %+v", x)
	}
}

// The ranks of a communicator made by ncclCommSplit have no known number.
func TestExplainNodesSplit(t *testing.T) {
	testkit.LeakCheck(t)
	nodes := serveRanks(t, func(r *rankRecording) { r.rank = -1 })
	code, got, said := command(t, nil, nil, "explain", "--since", "1m", "--nodes", nodes)
	for _, want := range []string{
		"COMMUNICATOR feedbeef of ranks · 3 seen on 3 machines",
		"ncclAllReduce #301: 2 ranks entered it since ",
		"after 5.99 s, a rank of unknown number has not entered it: train.py (4999) on gpu-2, which has entered 300 collectives",
		"a rank of unknown number, train.py (4999) on gpu-1, was the last to enter 150 of 300",
	} {
		if flat := strings.Join(strings.Fields(got), " "); code != 0 || !strings.Contains(flat, want) {
			t.Errorf("%q is not in\n%s\n%s", want, got, said)
		}
	}
	for want, all := range map[string][]int32{"1 rank": {-1}, "ranks 3 and 2 more": {-1, -1, 3}, "ranks 0 1 2 3 4 5 6 7 and 1 more": {0, 1, 2, 3, 4, 5, 6, 7, 8}} {
		if got := ranks(all); got != want {
			t.Errorf("ranks %v: %s, want %s", all, got, want)
		}
	}
}

// Causes of several nodes are sorted by severity, and --fail-on sets the exit code.
func TestExplainNodes(t *testing.T) {
	testkit.LeakCheck(t)
	loud := serve(t, testDB(t), nil, nil, "--addr", ":0", "--no-tls", "--node", "gpu-7")
	db := filepath.Join(t.TempDir(), "x.db")
	if err := recordFixture(db, "gpu-8-a", "gpu-8", began, 2); err != nil {
		t.Fatal(err)
	}
	quiet := serve(t, db, nil, nil, "--addr", ":0", "--no-tls", "--node", "gpu-8")
	nodes := quiet.url + "," + loud.url
	code, got, said := command(t, nil, nil, "explain", "--nodes", nodes, "--fail-on", "HIGH")
	for _, want := range []string{"FLEET REPORT - 1 causal chain found on 1 of 2 machines\n  [HIGH] gpu-7 · train.py (4821) lost 300 ms: ",
		"Nothing slowed the jobs of gpu-8.\n", "\n=== gpu-7 (", "\n\nINCIDENT REPORT - 1 causal chain found (1 HIGH)", "stress-ng"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s\n%s", want, got, said)
		}
	}
	if code != exitFound {
		t.Errorf("it ends with %d", code)
	}
	if code, _, said := command(t, nil, nil, "explain", "--nodes", nodes, "--last", "5"); code != 2 || !strings.Contains(said, "--last cannot be combined with --nodes") {
		t.Errorf("%d %s", code, said)
	}
}

// The recordings of several nodes are exported together.
func TestExportNodes(t *testing.T) {
	_, flags := threeNodes(t)
	out := filepath.Join(t.TempDir(), "all.csv")
	code, _, said := command(t, nil, nil, append([]string{"export", "-o", out}, flags...)...)
	text, err := os.ReadFile(out)
	if err != nil || code != 0 {
		t.Fatalf("%d %v %s", code, err, said)
	}
	if n := strings.Count(string(text), "\n"); n != 1+4059 {
		t.Errorf("%d lines, want %d; %s", n, 1+4059, said)
	}
	for _, node := range []string{"gpu-1", "gpu-2", "gpu-3"} {
		if !strings.Contains(string(text), node) {
			t.Errorf("%s is not there", node)
		}
	}
	trace := filepath.Join(t.TempDir(), "trace.json")
	if code, _, said := command(t, nil, nil, append([]string{"export", "--format", "perfetto", "-o", trace}, flags...)...); code != 0 {
		t.Errorf("perfetto: %d %s", code, said)
	}
	if text, err := os.ReadFile(trace); err != nil || !json.Valid(text) || strings.Count(string(text), "gpu-3") == 0 {
		t.Errorf("the timeline: %v", err)
	}
}

// A node that hangs, before or in the middle of its recordings, does not stop an export.
func TestExportNodesThatHang(t *testing.T) {
	var nodes []string
	for _, node := range []struct{ name, sends string }{{"mute", ""}, {"half", "SQLite format 3"}} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/time" {
				_, _ = fmt.Fprintf(w, `{"node":"%s","time_ns":%d}`, node.name, time.Now().UnixNano())
				return
			}
			if node.sends != "" {
				_, _ = io.WriteString(w, node.sends)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}))
		t.Cleanup(s.Close)
		nodes = append(nodes, s.URL)
	}
	code, _, said := command(t, nil, nil, "export", "-o", filepath.Join(t.TempDir(), "all.csv"), "--node-timeout", "1s", "--nodes", strings.Join(nodes, ","))
	for _, name := range []string{"mute", "half"} {
		if !strings.Contains(said, name+" did not answer within 1s") {
			t.Errorf("%s is not reported: %s", name, said)
		}
	}
	if code != 1 {
		t.Errorf("code %d, want 1: %s", code, said)
	}
}

// Configured nodes are queried unless a database is named.
func TestNodesOfSettings(t *testing.T) {
	s := serve(t, testDB(t), nil, nil, "--addr", ":0", "--no-tls", "--node", "gpu-5")
	file := filepath.Join(t.TempDir(), "ingero.yaml")
	if err := os.WriteFile(file, []byte("fleet:\n  nodes:\n    - "+s.url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := testDB(t)
	for _, tt := range []struct {
		name  string
		args  []string
		fleet bool
	}{
		{"settings", nil, true}, {"database", []string{"--db", db}, false}, {"no machine", []string{"--nodes=", "--db", db}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, said := command(t, nil, map[string]string{"INGERO_CONFIG": file}, append([]string{"query", "SELECT 1"}, tt.args...)...)
			if code != 0 || strings.Contains(said, "Asking 1 machine") != tt.fleet {
				t.Errorf("%d %s", code, said)
			}
		})
	}
	if code, _, said := command(t, nil, nil, "query", "--nodes", s.url, "--db", db, "SELECT 1"); code != 2 {
		t.Errorf("both: %d %s", code, said)
	}
}
