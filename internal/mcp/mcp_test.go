package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ingero/internal/wire"
)

// Foreign text cannot leave its quotes, hide, or be long.
func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"train.py": "train.py", "train.py:142": "train.py:142", "": `""`, "two words": `"two words"`, `a" then`: `"a' then"`, "line\nbreak": `"line?break"`,
		"\x1b[31mred": `"?[31mred"`, "right\u202eleft": `"right?left"`, "tag\U000e0041s": `"tag?s"`, "größer": `"größer"`, "\xff\xfe": `"?"`, "a=b": `"a=b"`, "-": "-",
		strings.Repeat("x", 400): `"` + strings.Repeat("x", 57) + `..."`,
		strings.Repeat("ß", 40):  `"` + strings.Repeat("ß", 28) + `..."`,
	} {
		if got := quoted(text, 60); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// A cursor belongs to one question, in any form.
func TestCursor(t *testing.T) {
	ask := func(tool string, in *SQL) uint64 {
		of, err := question(tool, in, in.form())
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	one := ask("run_sql", &SQL{SQL: "SELECT 1"})
	if again := ask("run_sql", &SQL{SQL: "SELECT 1", Form: Form{TSC: new(false), MaxTokens: 300, Cursor: "x"}}); again != one {
		t.Error("the form is part of the question")
	}
	if other := ask("run_sql", &SQL{SQL: "SELECT 2"}); other == one {
		t.Error("two questions are one")
	}
	for _, n := range []int{0, 1, 127, 128, 1 << 20} {
		f := Form{Cursor: cursorAt(n, one)}
		if got, err := f.row(one); got != n || err != nil {
			t.Errorf("row %d: %d, %v", n, got, err)
		}
		if _, err := f.row(one + 1); err == nil {
			t.Errorf("row %d: the cursor is taken for another question", n)
		}
	}
	for _, text := range []string{"!", "AA", "AAAAAAAAAAAA", strings.Repeat("_", 12), strings.Repeat("/", 1000)} {
		if _, err := (&Form{Cursor: text}).row(one); err == nil {
			t.Errorf("cursor %.20q is taken", text)
		}
	}
}

// A row that exceeds the budget is truncated, not dropped.
func TestLongRow(t *testing.T) {
	tool := sqlTool()
	a := &answer{facts: []any{nil}}
	var row []any
	for range 64 {
		a.columns = append(a.columns, column{"c", "c", free, false})
		row = append(row, strings.Repeat("word ", 100))
	}
	a.rows = [][]any{row, row}
	for _, tsc := range []bool{true, false} {
		text, out, err := a.write(tool, &Form{TSC: &tsc, MaxTokens: 1000}, 7)
		if err != nil || len(out.Rows) != 1 || out.Next == "" || tokens(text) > 1000 {
			t.Errorf("tsc %v: %d tokens, %d rows, %v", tsc, tokens(text), len(out.Rows), err)
		}
	}
}

// api is a fake read API: answers by path.
type api map[string]string

// ServeHTTP implements [http.Handler].
func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, ok := a[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		text = `{"error": "nothing was recorded in that time", "do": "record with sudo ingero trace"}`
	}
	_, _ = w.Write([]byte(text))
}

func serverOf(a api, m Machine) *server {
	return &server{Options: Options{API: a, Machine: m, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, slots: make(chan struct{}, atOnce)}
}

const session = `{"recordings": [{"id": "one", "from": "2026-11-22T09:22:35Z", "to": "2026-11-22T09:22:45Z", "state": "ended"}]}`

// Open calls, and missing ranks, are rows.
func TestStuck(t *testing.T) {
	s := serverOf(nil, Machine{Stuck: func(_ context.Context, least time.Duration) (*wire.Stuck, error) {
		if least != 10*time.Second {
			t.Errorf("asked for %s", least)
		}
		var out wire.Stuck
		err := json.Unmarshal([]byte(`{"calls": [{"pid": 5117, "tid": 5117, "comm": "python3", "op": "cudaStreamSynchronize", "open_ns": 41200000000, "state": "blocked", "reason": "gpu", "fd": -1}],
			"roll_calls": [{"text": "rank 3 is missing", "op": "ncclAllReduce", "wait_ns": 41200000000, "missing": [{"rank": 3, "does": {"pid": 5120, "comm": "python3", "state": "blocked", "reason": "file", "path": "/mnt/nfs/shard-0191", "open_ns": 0}, "instead": "it reads"}]}]}`), &out)
		return &out, err
	}})
	a, err := s.stuck(t.Context(), &Stuck{Min: "10s"})
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := a.write(stuckTool(), &Form{}, 1)
	for _, want := range []string{"calls=1 collectives=1", `"missing rank 3" python3 5120`, "/mnt/nfs/shard-0191", "call python3 5117 5117 cudaStreamSynchronize 41.2s blocked gpu"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%q is not in %s, %v", want, text, err)
		}
	}
	if _, err := s.stuck(t.Context(), &Stuck{Min: "now"}); err == nil {
		t.Error("any length of time is taken")
	}
}

// A comparison says what it compared, what differs, and which jobs only one run has.
func TestDiff(t *testing.T) {
	const none, short = `"a": {"session": "s1", "node": "n"}, "b": {"session": "s2", "node": "n"}`, `{"role": "eval", "too_short": true}`
	for name, tt := range map[string]struct{ diff, lead, note, row string }{
		"no pairs":     {`"pairs": []`, "nothing was compared", "", ""},
		"a short run":  {`"pairs": [` + short + `]`, "nothing was compared", "eval is too short", ""},
		"no steps":     {`"pairs": [{"role": "train"}]`, "nothing was compared", "train has no steps to compare", ""},
		"no finding":   {`"pairs": [` + short + `, {"role": "train", "step": {"name": "x", "a": 10, "b": 10, "p": 0.5}}]`, "ok, no significant difference", "eval is too short", "train \"a step\" 10 10"},
		"a step":       {`"pairs": [{"role": "train", "step": {"name": "x", "a": 10, "b": 15, "p": 0.001, "found": true}}]`, "", "", "train \"a step\" 10 15"},
		"calls only":   {`"pairs": [{"role": "train", "findings": 1, "calls_by_step": [{"name": "cudaMalloc", "a": 1, "b": 3, "found": true}, {"name": "cudaFree", "a": 1, "b": 1}]}]`, "", "train: 1 calls of cudaMalloc a step, then 3", ""},
		"other jobs":   {`"pairs": [], "only_in_a": ["train", "eval"]`, "nothing was compared", "only in the first run: train, eval", ""},
		"another job":  {`"pairs": [], "only_in_b": ["serve"]`, "nothing was compared", "only in the second run: serve", ""},
		"a part found": {`"pairs": [{"role": "train", "findings": 1, "parts": [{"name": "GPU", "a": 1, "b": 2, "found": true}, {"name": "disk", "a": 1, "b": 1}]}]`, "", "", "train GPU 1 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serverOf(nil, Machine{Diff: func(context.Context, string, string, string) (*wire.Diff, error) {
				var out wire.Diff
				return &out, json.Unmarshal([]byte("{"+none+", "+tt.diff+"}"), &out)
			}})
			a, err := s.diff(t.Context(), &Diff{})
			if err != nil {
				t.Fatal(err)
			}
			text, _, err := a.write(diffTool(), &Form{}, 1)
			if notes := strings.Join(a.notes, "\n"); err != nil || a.lead != tt.lead || !strings.HasPrefix(notes, tt.note) || tt.note == "" && notes != "" ||
				strings.Contains(notes, "cudaFree") || !strings.Contains(text, "\n"+tt.row) || len(a.rows) != min(len(tt.row), 1) {
				t.Errorf("%q, notes %q, %s, %v", a.lead, notes, text, err)
			}
		})
	}
}

// Graphs are classed hot, cold or unused; problems come from causes.
func TestGraphs(t *testing.T) {
	s := serverOf(api{
		"/api/v1/recordings": session,
		"/api/v1/graph-metrics": `{"seconds": 10, "operations": [{"op": "cudaGraphLaunch", "calls": 1000, "p50_ns": 5000, "p99_ns": 9000}, {"op": "cuGraphLaunch", "calls": 998}, {"op": "cudaStreamEndCapture", "calls": 2}],
			"graph_columns": ["pid", "exec", "launches", "captured", "last_launch", "capture_ns", "instantiate_ns", "updates", "destroyed"],
			"graphs": [[1, "0x1", 950, "2026-11-20T14:40:00Z", "2026-11-20T14:41:35Z", 5, 6, 0, null], [1, "0x2", 50, null, "2026-11-20T14:41:35Z", 5, 6, 0, "2026-11-20T14:41:00Z"],
				[1, "0x3", 0, "2026-11-20T14:40:00Z", null, 5, 6, 0, null]]}`,
		"/api/v1/explain": `{"report": {"chains": [{"id": "c-9", "rule": "graph-pool"}, {"id": "c-8", "rule": "cpu-taken"}]}, "text": ""}`,
	}, Machine{})
	a, err := s.graphRate(t.Context(), &Calls{})
	if err != nil {
		t.Fatal(err)
	}
	text, out, err := a.write(graphRateTool(), &Form{}, 1)
	want := "graphs=3 hot=1 cold=1 unused=1 live=2 captures=2 launches=1000 launches_per_s=100 launch_p50=5.00us launch_p99=9.00us pool=saturated causes=\"graph-pool c-9\"\n" +
		"pid exec class launches per_s capture instantiate updates destroyed\n1 0x1 hot 950 10 5ns 6ns 0 false\n1 0x2 cold 50 - 5ns 6ns 0 true\n1 0x3 unused 0 - 5ns 6ns 0 false\n"
	if err != nil || text != want || len(out.Rows) != 3 {
		t.Errorf("got %s, want %s; %v", text, want, err)
	}
}

// A job without lost time is reported as such, and GPU faults are still shown.
func TestWell(t *testing.T) {
	answers := api{"/api/v1/recordings": session, "/api/v1/explain": `{"report": {"chains": []}, "text": "Nothing slowed train.py (4821) in the last\n5 minutes: 19,204 steps.\n\nMore."}`}
	s := serverOf(answers, Machine{})
	ask := func() string {
		a, err := s.diagnose(t.Context(), &Diagnose{})
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := a.write(diagnoseTool(), &Form{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got, want := ask(), "ok, nothing is wrong well=\"Nothing slowed train.py (4821) in the last 5 minutes: 19,204 steps.\"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	answers["/api/v1/explain"] = `{"report": {"chains": []}, "text": "Recorded calls"}`
	if got := ask(); !strings.HasPrefix(got, "no cause of lost time was found, but the performance of the jobs is unknown") {
		t.Errorf("got %s", got)
	}
	answers["/api/v1/explain"] = `{"report": {"chains": [], "processes": [{"unexplained": {"text": "9 of 90 steps of train.py (4821) took 4 s longer."}}]}, "text": "9 of 90 steps"}`
	if got, want := ask(), "no cause of lost time was found, but some steps were slow unexplained=\"9 of 90 steps of train.py (4821) took 4 s longer.\"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	answers["/api/v1/explain"] = `{"report": {"chains": [], "processes": [{"unexplained": {"text": "A."}}, {"unexplained": {"unfinished": true, "text": "B."}}, {"unexplained": {"text": "C."}}]}, "text": "A."}`
	if got, want := ask(), "no cause of lost time was found, but a job finished no step unexplained=\"A. B. And 1 more.\"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	answers["/api/v1/explain"] = `{"report": {"chains": [{"rule": "cpu-taken"}], "processes": [{"unexplained": {"text": "A."}}]}, "text": "A."}`
	if got := ask(); !strings.HasPrefix(got, "bad ") || !strings.Contains(got, "unexplained=A.") {
		t.Errorf("got %s", got)
	}
	answers["/api/v1/explain"] = `{"report": {"chains": [], "xids": [{"code": 79}]}, "text": ""}`
	if got := ask(); !strings.HasPrefix(got, "bad: ") || !strings.Contains(got, "faults=1") {
		t.Errorf("got %s", got)
	}
}

// Each tool argument has one type, as clients for all models need, and may still be null, which
// counts as omitted.
func TestArguments(t *testing.T) {
	answers := api{"/api/v1/recordings": session, "/api/v1/explain": `{"report": {"chains": []}, "text": "Nothing slowed train.py (4821)."}`}
	here, there := sdk.NewInMemoryTransports()
	go func() {
		_ = New(Options{API: answers, Now: time.Now, Log: slog.New(slog.DiscardHandler)}).Run(t.Context(), there) // the client cancels
	}()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	arguments := 0
	for x, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		properties, _ := x.InputSchema.(map[string]any)["properties"].(map[string]any)
		for name, p := range properties {
			if _, ok := p.(map[string]any)["type"].(string); !ok {
				t.Errorf("%s of %s: %v", name, x.Name, p)
			}
			arguments++
		}
	}
	if arguments < 3*len(allTools()) {
		t.Errorf("%d arguments", arguments)
	}
	for given, ok := range map[string]bool{
		`{"pid": null, "since": null, "tsc": null, "max_tokens": null}`: true,
		`null`: true, `{}`: true, `{"pid": [4821], "since": null}`: true,
		`{"pid": 4821}`: true, `{"pid": ["4821"]}`: true, `{"pid": "4821, 4822"}`: true, `{"max_tokens": "500"}`: true, `{"tsc": "false"}`: true,
		`{"since": "5 minutes"}`: true, `{"since": 300}`: false, `{"pid": "all"}`: false, `{"pid": ""}`: false, `{"pid": {}}`: false, `{"tsc": 1}`: false, `{"max_tokens": "many"}`: false,
		`{"pid": "null"}`: false, `{"pid": [null]}`: false, `{"null": 1}`: false, `[null]`: false,
	} {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "diagnose", Arguments: json.RawMessage(given)})
		if got := err == nil && !r.IsError; got != ok {
			t.Errorf("%s: %+v, %v", given, r, err)
		}
	}
}

// Errors contain no paths of the machine.
func TestErrors(t *testing.T) {
	s := serverOf(api{}, Machine{})
	if _, err := s.diagnose(t.Context(), &Diagnose{}); s.publicError(err).Error() != "nothing was recorded in that time: record with sudo ingero trace" {
		t.Error(err)
	}
	if got := s.publicError(errors.New("open /etc/ingero/secret: no")); strings.Contains(got.Error(), "secret") {
		t.Error(got)
	}
	if got := s.publicError(context.DeadlineExceeded); !strings.Contains(got.Error(), "timed out") {
		t.Error(got)
	}
}

// The registry entry names this server; its schema has checked the rest.
func TestServerJSON(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Schema                     string `json:"$schema"`
		Name, Description, Version string
		Packages                   []struct {
			RegistryType, Identifier string
			Transport                struct{ Type string }
			PackageArguments         []struct{ Type, Name, Value string }
		}
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(s.Schema, "/2025-12-11/server.schema.json") || strings.Count(s.Name, "/") != 1 || len(s.Description) > 100 || len(s.Packages) != 1 {
		t.Fatalf("%+v", s)
	}
	p := s.Packages[0]
	if p.RegistryType != "oci" || !strings.HasSuffix(p.Identifier, ":v"+s.Version) || p.Transport.Type != "stdio" || p.PackageArguments[0].Value != "mcp" {
		t.Errorf("%+v", p)
	}
}

// Each figure of an operation is in the column of its name.
func TestStatsColumns(t *testing.T) {
	s := serverOf(api{"/api/v1/recordings": session, "/api/v1/ops": `{"operations": [{"source": "cudart", "op": "cudaMalloc", "comm": "python3", "pid": 7, "calls": 11, "errors": 2,
		"total_ns": 100, "p50_ns": 50, "p95_ns": 95, "p99_ns": 99, "max_ns": 101}]}`}, Machine{})
	a, err := s.stats(t.Context(), &Stats{})
	if err != nil || len(a.rows) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	got := map[string]string{}
	for i, c := range statsTool().columns {
		b, err := json.Marshal(a.rows[0][i])
		if err != nil {
			t.Fatal(err)
		}
		got[c.name] = string(b)
	}
	for name, want := range map[string]string{"op": `"cudaMalloc"`, "pid": "7", "calls": "11", "errors": "2", "total_ns": "100", "p50_ns": "50", "p95_ns": "95", "p99_ns": "99", "max_ns": "101"} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
}

// The latest recording is the read API's first, even if a later one began at a wrong time.
func TestLatestRecording(t *testing.T) {
	s := serverOf(nil, Machine{})
	var statements []string
	s.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/query" {
			var st wire.Statement
			if err := json.NewDecoder(r.Body).Decode(&st); err != nil {
				t.Error(err)
			}
			statements = append(statements, st.SQL)
		}
		api{"/api/v1/query": `{"rows": [["cuda", "cudaFree", null, null, 7, 0, 1, 1, 1, 1, 1]]}`, "/api/v1/recordings": `{"recordings": [
			{"id": "n-it's", "node": "n", "from": "1970-01-01T00:00:30Z", "to": "1970-01-01T00:00:32Z", "state": "running", "calls": 5},
			{"id": "n-old", "node": "n", "from": "2026-11-22T09:22:35Z", "to": "2026-11-22T09:22:45Z", "state": "ended"}]}`}.ServeHTTP(w, r)
	})
	a, err := s.stats(t.Context(), &Stats{})
	if err != nil || len(a.rows) != 1 || len(statements) != 1 || !strings.Contains(statements[0], "uid = 'n-it''s'") {
		t.Errorf("sums %+v, %v: %q", a, err, statements)
	}
	text, err := s.sessionsText(t.Context())
	if first := strings.Index(text, "n-it's"); err != nil || first < 0 || first > strings.Index(text, "n-old") {
		t.Errorf("recordings %q, %v", text, err)
	}
}

// Every row of get_stacks is reached by the cursor, and rows that the read API leaves out are counted.
func TestStacksPages(t *testing.T) {
	for n, note := range map[int]string{150: "", 10_003: "3 rows with less time are left out: set pid or op"} {
		rows, in := 0, &Calls{}
		s := serverOf(nil, Machine{})
		s.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limit := 100
			if v := r.FormValue("limit"); v != "" {
				limit, _ = strconv.Atoi(v)
			}
			if limit > rows+usualTokens/stackTokens {
				t.Errorf("%d stacks for the page after row %d", limit, rows)
			}
			out := wire.Stacks{Stacks: make([]wire.Stack, min(n, limit)), More: max(n-limit, 0)}
			if r.URL.Path != "/api/v1/stacks" {
				api{"/api/v1/recordings": session}.ServeHTTP(w, r)
			} else if err := json.NewEncoder(w).Encode(out); err != nil {
				t.Error(err)
			}
		})
		for {
			_, out, err := stacksTool().call(s, t.Context(), in, in.form(), func(ctx context.Context) (*answer, error) { return s.stacks(ctx, in) })
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(out.Notes, "; "); got != note {
				t.Fatalf("%d rows: note %q, want %q", n, got, note)
			}
			rows += len(out.Rows)
			if in.Cursor = out.Next; in.Cursor == "" {
				break
			}
		}
		if rows != min(n, 10_000) {
			t.Errorf("%d rows, want %d", rows, n)
		}
	}
}
