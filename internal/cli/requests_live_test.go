package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/test/serving"
)

// A trace measures each request to an inference server: with as many events as the server sent
// tokens, and with times between those of the server and those of the client. A replay and explain
// have the same requests.
func TestRequestsToServer(t *testing.T) {
	b := newBench(t)
	s := serving.Start(t, b.stack, nil)
	s.Serve()
	trace := b.ingero("trace", "--json", "--max-overhead", "0", "--db", b.db(), "--pid", pid(s.Child))
	testkit.Eventually(t, "the second tick: servers are known", func() bool { return strings.Contains(trace.Stdout(), `"seq":2,`) })
	answers := s.Answers(s.StartLoad("--connections", "3", "--requests", "5"))
	truth := s.Truth()
	s.Signal(syscall.SIGTERM)
	stdout, stderr, code := finish(t, trace)
	if code != 0 {
		t.Fatalf("code %d\n%s", code, stderr)
	}
	got := posts(stdout)
	if len(got) != len(answers) {
		t.Fatalf("%d requests are measured, want %d", len(got), len(answers))
	}
	for _, same := range connections(t, got, truth, answers) {
		checkRequest(t, &same)
	}

	b.checkRecorded(got, truth)
	text, stderr, code := b.output("explain", "--db", b.db(), "--json", "--slo", "ttft=1us")
	var r wire.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil || code != 0 || len(r.Servers) != 1 {
		t.Fatalf("code %d, %v, %d servers\n%s", code, err, len(r.Servers), stderr)
	}
	all := uint64(len(answers))
	if x := &r.Servers[0]; x.Requests != all || x.FirstByte.Count != all || x.Engine == nil || x.Engine.Name != "vLLM" || x.Port != uint16(s.Port) || x.Waits == nil || x.Waits.Requests != all {
		t.Errorf("explain has %+v", x)
	}
	checkEngineSteps(t, r.Engines, truth)
}

// checkEngineSteps checks that each graph has exactly the steps that the engine made with it.
func checkEngineSteps(t *testing.T, engines []wire.EngineSteps, truth serving.Truth) {
	t.Helper()
	bySize := map[int]uint64{}
	for _, x := range truth.Steps {
		if x.Graph {
			bySize[x.Padded]++
		}
	}
	if len(engines) != 1 {
		t.Fatalf("%d engines: %+v", len(engines), engines)
	}
	var got []uint64
	for _, k := range engines[0].Kinds {
		if k.Kind == "tokens" {
			got = append(got, k.Took.Count)
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(maps.Values(bySize)); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("the graphs have %d steps, want %d", got, want)
	}
}

// checkRecorded checks that the recording has the requests, with what the trace divided them into, and the
// steps of the engine.
func (b *bench) checkRecorded(want []wire.Request, truth serving.Truth) {
	t := b.t
	t.Helper()
	r, err := query.Open(t.Context(), b.db())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	sessions, err := r.Sessions(t.Context())
	if err != nil || len(sessions) != 1 {
		t.Fatalf("%d sessions, %v", len(sessions), err)
	}
	var all []tick.Request
	if _, err := r.Requests(t.Context(), &sessions[0], query.Filter{}, time.Time{}, func(_ time.Time, list []tick.Request) bool {
		all = append(all, slices.DeleteFunc(list, func(x tick.Request) bool { return !x.Post })...)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) != len(want) {
		t.Fatalf("the recording has %d requests, want %d", len(all), len(want))
	}
	for i := range all {
		x, w := &all[i], &want[i]
		if x.Arrived != w.Arrived.UnixNano() || x.Split != (w.ToFirst != nil) || x.Split && (int64(x.ToFirst.Own) != w.ToFirst.OwnNS || int64(x.After.GPU) != w.After.GPUNS) {
			t.Errorf("request %d: recorded %+v, traced %+v", i, x, w)
		}
	}
	res, err := r.SQL(t.Context(), "SELECT count(*), count(to_first_server_ns), count(engine_tid) FROM requests WHERE post = 1", query.SQLLimits{})
	if err != nil || res.Rows[0][0] != int64(len(all)) || res.Rows[0][1] != res.Rows[0][2] || res.Rows[0][2] == int64(0) {
		t.Errorf("in SQL, these are the requests, those whose time is divided, and those with a thread: %+v, %v", res, err)
	}
	steps, err := r.EngineSteps(t.Context(), query.Filter{Session: sessions[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	var engines explain.Engines
	engines.Add(&tick.Tick{EngineSteps: steps})
	checkEngineSteps(t, engines.List(), truth)
	slices.SortFunc(all, func(a, b tick.Request) int { return int(a.Arrived - b.Arrived) })
	half, n := len(all)/2, 0
	if _, err := r.Requests(t.Context(), &sessions[0], query.Filter{To: time.Unix(0, all[half].Arrived)}, time.Time{}, func(_ time.Time, list []tick.Request) bool {
		n += len(slices.DeleteFunc(list, func(x tick.Request) bool { return !x.Post }))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if n != half {
		t.Errorf("%d requests arrived before the one of number %d", n, half)
	}
	if _, err := r.Requests(t.Context(), &sessions[0], query.Filter{PIDs: []uint32{1}}, time.Time{}, func(_ time.Time, list []tick.Request) bool {
		t.Errorf("requests to PID 1: %+v", list)
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

// posts returns the requests with a body in the ticks that trace --json printed.
func posts(stdout string) (all []wire.Request) {
	for line := range strings.Lines(stdout) {
		var x wire.Tick
		if err := json.Unmarshal([]byte(line), &x); err != nil || x.Type != "tick" {
			continue
		}
		all = append(all, slices.DeleteFunc(x.Requests, func(r wire.Request) bool { return !r.Post })...)
	}
	return all
}

// measured is a request as ingero, the server and the client saw it.
type measured struct {
	by     wire.Request
	server serving.Request
	client serving.Answer
}

// connections joins the requests of each connection: they are in the same order everywhere, and
// have the numbers of tokens that the client asked for.
func connections(t *testing.T, got []wire.Request, truth serving.Truth, answers []serving.Answer) (out []measured) {
	t.Helper()
	peers := map[string][]wire.Request{}
	for _, x := range got {
		peers[x.Peer] = append(peers[x.Peer], x)
	}
	servers := map[string]serving.Request{}
	for _, x := range truth.Requests {
		servers[x.ID] = x
	}
	names := map[string][]measured{}
	for _, x := range answers {
		name, _, _ := strings.Cut(strings.TrimPrefix(x.ID, "cmpl-"), "-")
		names[name] = append(names[name], measured{server: servers[x.ID], client: x})
	}
	for name, list := range names {
		slices.SortFunc(list, func(a, b measured) int { return int(a.client.Sent - b.client.Sent) })
		for peer, requests := range peers {
			slices.SortFunc(requests, func(a, b wire.Request) int { return a.Arrived.Compare(b.Arrived) })
			if slices.EqualFunc(list, requests, func(m measured, x wire.Request) bool { return isOf(&x, &m.server) }) {
				for i := range list {
					list[i].by = requests[i]
				}
				out = append(out, list...)
				delete(peers, peer)
				break
			}
		}
		if list[0].by.Peer == "" {
			t.Errorf("no connection has the requests of %s: %+v", name, list)
		}
	}
	return out
}

// isOf reports whether a request has an event for each token. Tokens sent within 0.5 ms of the first
// are one event with it. Each was sent between its time here and that of the next one.
func isOf(x *wire.Request, truth *serving.Request) bool {
	n, joined := len(truth.Sent), 0
	for _, at := range truth.Sent[1:] {
		if at-truth.Sent[1] < int64(500*time.Microsecond) {
			joined++
		}
	}
	return int(x.Events) <= n && int(x.Events) >= n-joined
}

func checkRequest(t *testing.T, m *measured) {
	t.Helper()
	x := &m.by
	if x.Status != 200 || x.End != "last chunk" || x.ReadNS == nil || x.FirstNS == nil || x.LastNS == nil {
		t.Errorf("%s: got %+v", m.client.ID, x)
		return
	}
	// The server notes a time before it sends, and the client after it receives. Between events lie
	// the steps of the engine.
	for _, p := range []struct {
		what           string
		got, min, most int64
	}{
		{"to the first byte", *x.FirstNS, m.server.Sent[0] - m.server.Received, m.client.Tokens[0] - m.client.Sent},
		{"to the last byte", *x.LastNS, m.server.Sent[len(m.server.Sent)-1] - m.server.Received, m.client.Done - m.client.Sent},
	} {
		if p.got < p.min || p.got > p.most {
			t.Errorf("%s: %s %s, want %s to %s", m.client.ID, time.Duration(p.got), p.what, time.Duration(p.min), time.Duration(p.most))
		}
	}
	if p := x.ToFirst; p != nil {
		if sum := p.ServerNS + p.PromptsNS + p.OwnNS + p.TokensNS + p.DeliverNS; sum != *x.FirstNS-*x.WholeNS {
			t.Errorf("%s: the parts add up to %d of %d ns", m.client.ID, sum, *x.FirstNS-*x.WholeNS)
		}
	}
}
