package cli

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/govern"
	"ingero/internal/query"
	"ingero/internal/testkit"
)

// rounds starts the program that makes rounds of calls and prints its numbers of calls.
func (b *bench) rounds() *testkit.Child {
	b.t.Helper()
	testkit.NeedTool(b.t, "gcc")
	program := filepath.Join(b.dir, "rounds")
	out, err := exec.Command("gcc", "-O1", "-Wall", "-Werror", "-o", program, "testdata/rounds.c", b.stack.Libcudart,
		"-Wl,-rpath,"+b.stack.Dir, "-Wl,--allow-shlib-undefined").CombinedOutput()
	if err != nil {
		b.t.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = append(b.env, "INGERO_SIM_ZERO=1")
	c := testkit.Start(b.t, cmd)
	c.Line("ready")
	return c
}

// makes has the program make further rounds.
func makes(t *testing.T, c *testkit.Child, rounds string) map[string]uint64 {
	t.Helper()
	c.Send(rounds)
	return counts(t, c)
}

// ticks waits until a trace has published its state n more times.
func (b *bench) ticks(n int) {
	b.t.Helper()
	last := b.tracing(1).Updated
	for range n {
		testkit.Eventually(b.t, "the next tick", func() bool {
			now := b.tracing(1).Updated
			later := now.After(last)
			last = now
			return later
		})
	}
}

// opsOf sums the calls of each runtime operation anywhere in a JSON text.
func opsOf(t *testing.T, text string) map[string]uint64 {
	t.Helper()
	var all any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v in %.300q", err, text)
	}
	out := map[string]uint64{}
	var walk func(any)
	walk = func(x any) {
		switch x := x.(type) {
		case []any:
			for _, y := range x {
				walk(y)
			}
		case map[string]any:
			op, _ := x["op"].(string)
			if n, ok := x["calls"].(float64); ok && strings.HasPrefix(op, "cuda") {
				out[op] += uint64(n)
				return
			}
			for _, key := range []string{"operations", "processes", "ops"} {
				walk(x[key])
			}
		}
	}
	walk(all)
	return out
}

// surfaces returns the counts in a part of a recording (bounds in RFC 3339) from query, explain,
// SQL, the API and MCP.
func (b *bench) surfaces(api *served, mcp *assistant, from, to string) map[string]map[string]uint64 {
	b.t.Helper()
	ask := func(args ...string) string {
		out, stderr, code := b.output(append(args, "--from", from, "--to", to)...)
		if code != 0 {
			b.t.Fatalf("%v: %d, %s", args, code, stderr)
		}
		return out
	}
	code, text := api.ask("GET", "/api/v1/ops?"+url.Values{"from": {from}, "to": {to}}.Encode(), "", nil)
	if code != 200 {
		b.t.Fatalf("the API: %d, %s", code, text)
	}
	return map[string]map[string]uint64{
		"query":    opsOf(b.t, ask("query", "--json")),
		"explain":  opsOf(b.t, ask("explain", "--per-process", "--json")),
		"op_stats": b.opStats("('" + from + "', '" + to + "')"),
		"API":      opsOf(b.t, text),
		"MCP":      opsOfMCP(b.t, mcp, from, to),
	}
}

// opStats returns the counts from SQL.
func (b *bench) opStats(args string) map[string]uint64 {
	b.t.Helper()
	r, err := query.Open(b.t.Context(), b.db())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	res, err := r.SQL(b.t.Context(), "SELECT op, sum(count) FROM op_stats"+args+" WHERE op LIKE 'cuda%' GROUP BY op", query.SQLLimits{Rows: 1000})
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, row := range res.Rows {
		out[row[0].(string)] = uint64(row[1].(int64))
	}
	return out
}

// opsOfMCP returns the counts from MCP's tool for operations.
func opsOfMCP(t *testing.T, a *assistant, from, to string) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for cursor := ""; ; {
		args := map[string]any{"from": from, "to": to, "max_tokens": 8000}
		if cursor != "" {
			args["cursor"] = cursor
		}
		r := a.call("get_trace_stats", args)
		if r.refused {
			t.Fatal(r.text)
		}
		op, calls := slices.Index(r.columns, "op"), slices.Index(r.columns, "calls")
		for _, row := range r.rows {
			if name := row[op].(string); strings.HasPrefix(name, "cuda") {
				out[name] += uint64(row[calls].(float64))
			}
		}
		if cursor = r.next; cursor == "" {
			return out
		}
	}
}

// countings are the modes of counting to test: forced steps of the governor, and flags.
func countings() map[string]struct{ steps, flags []string } {
	out := map[string]struct{ steps, flags []string }{
		"every record": {nil, []string{"--sampling-rate", "1"}},
		"one in 10":    {nil, []string{"--sampling-rate", "10"}},
		"one in 64":    {nil, []string{"--sampling-rate", "64"}},
		"a small ring": {nil, []string{"--sampling-rate", "1", "--ringbuf-size", "64k"}},
		"as it comes":  {},
	}
	var all []string
	for i := range govern.Steps {
		if name := govern.Steps[i].Name; name != "python-off" { // the program has no Python
			out[name] = struct{ steps, flags []string }{[]string{name}, nil}
			all = append(all, name)
		}
	}
	out["all steps"] = struct{ steps, flags []string }{all, nil}
	return out
}

// All outputs report the program's own counts, for any sampling rate, with any steps shed, and if
// the ring overflows. Two parts of a recording add up to the whole. Operations without a probe for
// a time have lower counts, the same in all outputs.
func TestCountsOfAllSurfaces(t *testing.T) {
	for name, tt := range countings() {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.env = append(b.env, forcedSteps+"="+strings.Join(tt.steps, " "))
			receiver := newCollected(t)
			target := b.rounds()
			c := b.ingero(append([]string{"trace", "--pid", pid(target), "--prometheus", ":0", "--otlp", receiver.URL, "--otlp-protocol", "http/json"}, tt.flags...)...)
			address := metricsOf(t, c)
			b.tracing(1)
			testkit.Eventually(t, "the steps", func() bool {
				makes(t, target, "50")
				shed := b.tracing(1).Shed
				return !slices.ContainsFunc(tt.steps, func(s string) bool { return !slices.Contains(shed, s) })
			})
			if slices.Contains(tt.steps, "launches-once") { // it learns for two ticks
				for range 4 {
					makes(t, target, "50")
					b.ticks(1)
				}
			}
			less := slices.Contains(tt.steps, "hot-off")
			var made map[string]uint64
			live := map[string]map[string]uint64{}
			testkit.Eventually(t, "calls without a probe", func() bool { // a step is reported before its probes are detached
				made = makes(t, target, "50")
				testkit.Eventually(t, "the metrics of all rounds", func() bool {
					live["Prometheus"] = opsOfPrometheus(t, address)
					return live["Prometheus"]["cudaStreamSynchronize"] == made["cudaStreamSynchronize"]
				})
				return !less || slices.ContainsFunc(slices.Collect(maps.Keys(mayGo)), func(op string) bool { return live["Prometheus"][op] < made[op] })
			})
			b.ticks(2)
			live["Prometheus"] = opsOfPrometheus(t, address)
			target.CloseStdin()
			if _, stderr, code := finish(t, c); code != 0 {
				t.Fatal(code, stderr)
			}
			live["OTLP"], live["ClickHouse"] = receiver.metrics(), b.opsOfClickHouse(receiver)
			b.checkCounts(made, live, less)
		})
	}
}

// checkCounts compares a program's own counts with the reported ones, live and recorded.
func (b *bench) checkCounts(made map[string]uint64, live map[string]map[string]uint64, less bool) {
	t := b.t
	t.Helper()
	r, err := query.Open(t.Context(), b.db())
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Session(t.Context(), "")
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	api, mcp := serve(t, b.db(), nil, nil, "--addr", ":0"), pipes(t, b.db(), "")
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	begin, middle, end := stamp(s.Started.Add(-time.Hour)), stamp(s.Started.Add(s.Ended.Sub(s.Started)*2/3)), stamp(s.Ended.Add(time.Hour))
	whole, first, second := b.surfaces(api, mcp, begin, end), b.surfaces(api, mcp, begin, middle), b.surfaces(api, mcp, middle, end)
	want, fewer := map[string]uint64{}, []string{}
	for op, n := range made {
		want[op] = n
		if got := whole["query"][op]; less && mayGo[op] && got < n {
			want[op], fewer = got, append(fewer, op)
		}
	}
	b.checkLowerBounds(less, fewer)
	of := func(reported map[string]uint64) map[string]uint64 {
		out := map[string]uint64{}
		for op := range made {
			out[op] = reported[op]
		}
		return out
	}
	for surface, reported := range live {
		if d := cmp.Diff(want, of(reported)); d != "" {
			t.Errorf("%s (-program +surface): %s", surface, d)
		}
	}
	for surface := range whole {
		if d := cmp.Diff(want, of(whole[surface])); d != "" {
			t.Errorf("%s (-program +surface): %s", surface, d)
		}
		if d := cmp.Diff(first["query"], first[surface]) + cmp.Diff(second["query"], second[surface]); d != "" {
			t.Errorf("of a part %s says (-query +this): %s", surface, d)
		}
		for op, n := range want {
			if sum := first[surface][op] + second[surface][op]; sum != n {
				t.Errorf("%s: %d and %d calls of %s in two parts, want %d", surface, first[surface][op], second[surface][op], op, n)
			}
		}
	}
}

// checkLowerBounds checks that an answer names the operations whose counts are lower bounds.
func (b *bench) checkLowerBounds(less bool, fewer []string) {
	b.t.Helper()
	_, stderr, code := b.output("query")
	_, note, reported := strings.Cut(stderr, "counts are lower bounds, because probes were detached for some time (hot-off): ")
	if code != 0 || reported != less || less && len(fewer) == 0 {
		b.t.Errorf("of %v calls were not counted; query says %d, %s", fewer, code, stderr)
	}
	for _, op := range fewer {
		if !strings.Contains(note, op) {
			b.t.Errorf("%s is not named in %q", op, note)
		}
	}
}

// mayGo lists the operations whose probes the step hot-off may detach.
var mayGo = map[string]bool{"cudaLaunchKernel": true, "cudaMemcpyAsync": true, "cudaMemsetAsync": true, "cudaEventRecord": true}
