package cli

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// servedDB records two seconds of a server: process 4821 is in epoch 1, then in epoch 2, and
// requests arrive in both.
func servedDB(t *testing.T) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(db, "gpu-7-one", "gpu-7", began)
	if err != nil {
		t.Fatal(err)
	}
	x.place = tick.Where{Cmdline: "vllm serve Qwen/Qwen2.5-7B --port 8000"}
	at := began.UnixNano()
	set := func(ns int64, pid uint32, key, value string) tick.Label {
		return tick.Label{Time: at + ns, PID: pid, Key: key, Value: value}
	}
	ms := time.Millisecond
	request := func(arrived time.Duration, first time.Duration) tick.Request {
		return tick.Request{PID: 4821, TID: 4821, Port: 8000, Peer: netip.MustParseAddrPort("10.0.0.7:51234"), Arrived: at + int64(arrived), Read: ms, Whole: ms,
			Head: first, First: first, Last: first + 90*ms, Events: 10, Status: 200, Post: true, End: tick.ResponseChunk, Split: true,
			ToFirst: tick.RequestTime{Prompts: (first - ms) / 2, Tokens: (first - ms) / 4, Own: first - ms - (first-ms)/2 - (first-ms)/4}}
	}
	err = x.db.Batch(&tick.Batch{Labels: []tick.Label{set(0, 4821, "epoch", "1"), set(0, 5032, "tenant", "a"), set(1e9, 4821, "epoch", "2"),
		set(0, 4821, "odd", "yes"), set(25e7, 4821, "odd", ""), set(15e8, 4821, "odd", "yes"), set(17e8, 4821, "odd", "")}})
	x.reads = []tick.Inference{{Time: began.Add(900 * ms), PID: 4821, Engine: "vLLM", Model: "Qwen/Qwen2.5-7B", URL: "http://localhost:8000/metrics", Running: new(3.0), Waiting: new(1.0), KVCache: new(0.5)}}
	x.asked = []tick.Request{request(100*ms, 20*ms), request(200*ms, 40*ms), request(900*ms, 50*ms)}
	if err == nil {
		err = x.second()
	}
	x.asked = []tick.Request{request(1200*ms, 80*ms)}
	if err == nil {
		err = x.second()
	}
	if err == nil {
		err = x.end()
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// explained returns explain's report.
func explained(t *testing.T, args ...string) *wire.Report {
	t.Helper()
	code, text, stderr := command(t, later, nil, append([]string{"explain", "--json"}, args...)...)
	var r wire.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil || code != 0 {
		t.Fatalf("%v: code %d, %v, %s", args, code, err, stderr)
	}
	return &r
}

// With a label, the report has the calls with the label, the time of the ranges, and the requests
// that arrived in them.
func TestExplainLabel(t *testing.T) {
	db := servedDB(t)
	for _, c := range []struct {
		labels          string
		ranges          int
		total, known    time.Duration
		launches        uint64
		requests        uint64
		firstP50, slack time.Duration
	}{
		{"epoch=1", 1, time.Second, time.Second, 200, 3, 40 * time.Millisecond, time.Millisecond},
		{"epoch=2", 1, time.Second, time.Second, 200, 1, 80 * time.Millisecond, time.Millisecond},
		{"odd=yes", 2, 450 * time.Millisecond, 0, 88 + 4, 2, 0, time.Second},
		{"odd=yes epoch=2", 1, 200 * time.Millisecond, 0, 40, 0, 0, 0},
	} {
		t.Run(c.labels, func(t *testing.T) {
			args := []string{"--db", db}
			for label := range strings.FieldsSeq(c.labels) {
				args = append(args, "--label", label)
			}
			r := explained(t, args...)
			if strings.Join(r.Labels, " ") != c.labels || len(r.Processes) != 1 || r.Processes[0].PID != 4821 || r.Processes[0].Labelled == nil {
				t.Fatalf("labels %v, processes %+v", r.Labels, r.Processes)
			}
			p := &r.Processes[0]
			if got, want := *p.Labelled, (wire.LabelTime{Ranges: c.ranges, TotalNS: int64(c.total), KnownNS: int64(c.known)}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if (p.Breakdown != nil) != (c.known > 0) || p.Breakdown != nil && p.Breakdown.ElapsedNS != uint64(c.known) {
				t.Errorf("the breakdown is %+v", p.Breakdown)
			}
			for i := range p.Ops {
				if o := &p.Ops[i]; o.Op == "cudaLaunchKernel" && o.Calls != c.launches {
					t.Errorf("%d launches, want %d", o.Calls, c.launches)
				}
			}
			if (len(r.Inference) > 0) != (c.labels == "epoch=1") {
				t.Errorf("metrics of servers: %+v", r.Inference)
			}
			if c.requests == 0 {
				if len(r.Servers) > 0 {
					t.Errorf("requests: %+v", r.Servers)
				}
				return
			}
			if len(r.Servers) != 1 || r.Servers[0].Requests != c.requests {
				t.Fatalf("requests: %+v, want %d", r.Servers, c.requests)
			}
			if off := time.Duration(*r.Servers[0].FirstByte.P50NS) - c.firstP50; off < -c.slack || off > c.slack {
				t.Errorf("the median time to the first byte is %d ns, want %s", *r.Servers[0].FirstByte.P50NS, c.firstP50)
			}
		})
	}
	if r := explained(t, "--db", db, "--label", "tenant=a"); len(r.Processes) != 1 || r.Processes[0].PID != 5032 || r.Processes[0].Calls != 2 {
		t.Errorf("tenant=a: %+v", r.Processes)
	}
	if r := explained(t, "--db", db, "--label", "epoch=1", "--last", "10"); len(r.Processes) != 1 || r.Processes[0].Calls != 10 {
		t.Errorf("the last 10 calls: %+v", r.Processes)
	}
	if r := explained(t, "--db", db); r.Labels != nil || r.Processes[0].Labelled != nil || r.Servers[0].Requests != 4 {
		t.Errorf("without labels: %+v", r)
	}
}

// The text says in how many ranges processes had the label, and how long.
func TestExplainLabelText(t *testing.T) {
	db := servedDB(t)
	for label, want := range map[string]string{
		"epoch=1": "Only the time with epoch=1:\n  train.py (4821): 1 time range, 1.00 s, 2026-11-20 14:41:00.000-14:41:01.000\n    UTC\n",
		"odd=yes": "Only the time with odd=yes:\n  train.py (4821): 2 time ranges, 450 ms in all, 2026-11-20\n    14:41:00.000-14:41:01.700 UTC; too short to say where all of it went\n",
	} {
		if _, text, stderr := command(t, later, nil, "explain", "--db", db, "--label", label); !strings.HasPrefix(text, want) {
			t.Errorf("got\n%s\n%s\nwant\n%s", text, stderr, want)
		}
	}
	for args, want := range map[string]string{
		"--label epoch=9":                  "no selected process had the label epoch=9 in that time\n        recorded labels: epoch=1, epoch=2, odd=yes, tenant=a",
		"--label epoch=1 --pid 5032":       "choose another time range or other processes",
		"--label epoch":                    `--label: "epoch" is not a label: write key=value`,
		"--label epoch=1 --nodes gpu:8080": "--label",
	} {
		code, text, stderr := command(t, later, nil, append([]string{"explain", "--db", db}, strings.Fields(args)...)...)
		if code == 0 || text != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s%s", args, code, text, stderr)
		}
	}
}

// labelledIncident is the recording of an incident: phase=hog is the time of the cause, phase=well
// the rest; half=first ends in the middle of the cause.
func labelledIncident(t *testing.T) (db string, plain *wire.Report) {
	t.Helper()
	plain = explained(t, "--db", incidentDB(t))
	if len(plain.Chains) != 1 {
		t.Fatalf("%d causes", len(plain.Chains))
	}
	c := &plain.Chains[0]
	from, to := c.From.Add(-100*time.Millisecond).UnixNano(), c.To.Add(100*time.Millisecond).UnixNano()
	start, pid := plain.From.UnixNano(), c.PID
	db = filepath.Join(t.TempDir(), "x.db")
	if err := recordScenario(db, &scenarios[0], tick.Label{Time: start, PID: pid, Key: "phase", Value: "well"}, tick.Label{Time: start, PID: pid, Key: "half", Value: "first"},
		tick.Label{Time: from, PID: pid, Key: "phase", Value: "hog"}, tick.Label{Time: from + (to-from)/2, PID: pid, Key: "half"},
		tick.Label{Time: to, PID: pid, Key: "phase", Value: "well"}); err != nil {
		t.Fatal(err)
	}
	return db, plain
}

// A cause is in the report if it lies in the ranges of the label. One that lies only partly in them is
// counted. The same holds for causes that were found while recording.
func TestExplainLabelCauses(t *testing.T) {
	db, plain := labelledIncident(t)
	s := serve(t, db, later, nil, "--addr", ":0")
	for _, c := range []struct {
		label  string
		chains int
		note   string
	}{
		{"phase=hog", 1, ""},
		{"phase=well", 0, ""},
		{"half=first", 0, "1 cause lies only partly in these time ranges, and is left out: the report without labels has all causes."},
	} {
		reports := map[string]*wire.Report{"explain": explained(t, "--db", db, "--label", c.label), "--chains": explained(t, "--db", db, "--label", c.label, "--chains")}
		status, text := s.ask("GET", "/api/v1/explain?label="+strings.Replace(c.label, "=", "%3D", 1)+"&from="+plain.From.Format(time.RFC3339Nano), "", nil)
		var api wire.Explained[wire.Report]
		if err := json.Unmarshal([]byte(text), &api); err != nil || status != 200 {
			t.Fatalf("%s: %d, %v, %s", c.label, status, err, text)
		}
		reports["api"] = &api.Report
		for name, r := range reports {
			if len(r.Chains) != c.chains {
				t.Errorf("%s: %s has %d causes, want %d", c.label, name, len(r.Chains), c.chains)
				continue
			}
			if all := strings.Join(r.Notes, "\n"); strings.Contains(all, "only partly") != (c.note != "") || !strings.Contains(all, c.note) {
				t.Errorf("%s: the notes of %s are %q", c.label, name, r.Notes)
			}
			for i := range r.Chains {
				if got, want := &r.Chains[i], &plain.Chains[0]; got.Rule != want.Rule || got.LostNS < want.LostNS*9/10 || got.LostNS > want.LostNS*11/10 {
					t.Errorf("%s: %s has %s, %d ns lost; want %s, %d ns", c.label, name, got.Rule, got.LostNS, want.Rule, want.LostNS)
				}
			}
		}
	}
	hog, well := explained(t, "--db", db, "--label", "phase=hog"), explained(t, "--db", db, "--label", "phase=well")
	share := func(r *wire.Report) float64 {
		b := r.Processes[0].Breakdown
		for _, p := range b.Parts {
			if p.Name == "runnable" {
				return float64(p.NS) / float64(b.ElapsedNS)
			}
		}
		return 0
	}
	if share(hog) < 0.5 || share(well) > 0.05 {
		t.Errorf("waiting for a CPU: %.2f with the hog, %.2f without", share(hog), share(well))
	}
	if _, text, _ := command(t, later, nil, "explain", "--db", db, "--label", "phase=well"); !strings.Contains(text, "2 time ranges, ") || !strings.Contains(text, "Nothing slowed train") {
		t.Errorf("phase=well:\n%s", text)
	}
	if _, text, _ := command(t, later, nil, "explain", "--db", db, "--label", "half=first"); strings.Contains(text, "slowed") || !strings.Contains(text, "WHERE THE TIME WENT") || strings.Contains(text, "\n\n\n") {
		t.Errorf("half=first:\n%s", text)
	}
	for label, want := range map[string]string{"phase=well": "phase=well.\n", "half=first": "half=first. 1 cause lies only partly in these time ranges, "} {
		if _, text, _ := command(t, later, nil, "explain", "--db", db, "--label", label, "--chains"); !strings.HasPrefix(text, "No cause of lost time lies in the time ranges of "+want) {
			t.Errorf("%s: %s", label, text)
		}
	}
	if status, text := s.ask("GET", "/api/v1/explain?since=4w&label=phase%3Dx", "", nil); status != 404 || !strings.Contains(text, "recorded labels: phase=hog, phase=well, half=first") {
		t.Errorf("phase=x: %d %s", status, text)
	}
}

// An assistant asks about the time with a label.
func TestDiagnoseLabel(t *testing.T) {
	db, _ := labelledIncident(t)
	a := pipes(t, db, "2025-06-18")
	for label, want := range map[string]string{"phase=hog": "hog", "phase=well": "no cause of lost time was found"} {
		if r := a.call("diagnose", map[string]any{"label": []string{label}}); r.refused || !strings.Contains(r.text, want) {
			t.Errorf("%s: %s", label, r.text)
		}
		if r := a.call("where_did_time_go", map[string]any{"label": label}); r.refused || len(r.rows) == 0 {
			t.Errorf("%s: %s", label, r.text)
		}
	}
	if r := a.call("diagnose", map[string]any{"label": []string{"phase=x"}}); !r.refused || !strings.Contains(r.text, "recorded labels: phase=hog, phase=well") {
		t.Errorf("phase=x: %s", r.text)
	}
}

// An assistant asks what slow requests waited for.
func TestAssistantAsksAboutRequests(t *testing.T) {
	a := pipes(t, servedDB(t), "")
	column := func(r reply, name string) any {
		t.Helper()
		at := slices.Index(r.columns, name)
		if r.refused || at < 0 || len(r.rows) != 1 {
			t.Fatalf("%s is not in %+v", name, r)
		}
		return r.rows[0][at]
	}
	all := a.call("get_requests", nil)
	for name, want := range map[string]any{"server": "train.py", "port": 8000.0, "engine": "vLLM Qwen/Qwen2.5-7B", "requests": 4.0, "errors": 0.0, "slow": 4.0,
		"waited_for": "prompts 49%, tokens 24%, own-prompt 24%, unread 2%", "state": "3 running, 1 waiting, KV cache 50%"} {
		if got := column(all, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for args, want := range map[string]float64{"ttft=45ms": 2, "ttft=79ms": 1, "total=10ms": 4} {
		if got := column(a.call("get_requests", map[string]any{"slo": args}), "slow"); got != want {
			t.Errorf("%s: %v requests miss it, want %v", args, got, want)
		}
	}
	if got := column(a.call("get_requests", map[string]any{"slo": "tpot=30ms"}), "slow"); got != nil {
		t.Errorf("tpot=30ms: %v requests miss it, want none", got)
	}
	if got := column(a.call("get_requests", map[string]any{"label": []string{"epoch=2"}}), "requests"); got != 1.0 {
		t.Errorf("epoch=2: %v requests", got)
	}
	if r := a.call("get_requests", map[string]any{"slo": "fast"}); !r.refused || !strings.Contains(r.text, "ttft=200ms") {
		t.Errorf("slo=fast: %s", r.text)
	}
	if r := pipes(t, incidentDB(t), "").call("get_requests", nil); r.refused || !strings.HasPrefix(r.text, "no request to a server was recorded") {
		t.Errorf("without a server: %s", r.text)
	}
}

// top has a line for the server: the requests of the last ten seconds, with a label those that
// arrived meanwhile.
func TestTopShowsRequests(t *testing.T) {
	db := servedDB(t)
	for args, want := range map[string]string{
		"":                "  train.py (4821)     2.0  40.1 ms  80.0 ms  10.0 ms  unknown 56 %, steps 39 %\n",
		"--label epoch=2": "  train.py (4821)     0.5  80.0 ms  80.0 ms  10.0 ms  steps 93 %, deliver 6 %\n",
		"--pid 5032":      "",
	} {
		code, text, stderr := command(t, atTheEnd, nil, append([]string{"top", "--once", "--db", db}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(text, want) || strings.Contains(text, "ttft went to") != (want != "") {
			t.Errorf("%s: code %d\n%s%s", args, code, text, stderr)
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%s: %d columns: %s", args, n, line)
			}
		}
	}
}

// The API has the requests of a window, by server.
func TestRequestsInTheAPI(t *testing.T) {
	s := serve(t, servedDB(t), atTheEnd, nil, "--addr", ":0", "--node", "gpu-7")
	schema := readSchema(t)
	for path, want := range map[string]string{"requests?slo=fast": "slo cannot be", "ops?slo=total%3D5s": "ask /api/v1/requests"} {
		if status, text := s.ask("GET", "/api/v1/"+path, "", nil); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for query, want := range map[string]uint64{"": 4, "?slo=ttft%3D1ms": 4, "?label=epoch%3D1": 3, "?pid=5032": 0, "?since=1s": 0} {
		status, text := s.ask("GET", "/api/v1/requests"+query, "", nil)
		var r wire.Requests
		if query == "?since=1s" {
			if status != 404 {
				t.Errorf("%s: %d %s", query, status, text)
			}
			continue
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil || status != 200 {
			t.Fatalf("%s: %d, %v, %s", query, status, err, text)
		}
		if err := schema.check("GET /api/v1/requests", []byte(text)); err != nil {
			t.Errorf("%s does not fit the schema: %v", query, err)
		}
		if want == 0 {
			if len(r.Servers) > 0 {
				t.Errorf("%s: %s", query, text)
			}
			continue
		}
		if len(r.Servers) != 1 || r.Servers[0].Requests != want || r.Servers[0].Engine == nil || r.Servers[0].Waits == nil || r.Servers[0].Waits.Requests != want || len(r.Inference) != 1 || *r.Inference[0].KVCache != 0.5 {
			t.Errorf("%s: %s", query, text)
		}
	}
}
