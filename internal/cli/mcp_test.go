package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ingero/internal/testkit"
)

// incidentDB creates a database with the recording of demo incident.
func incidentDB(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "incident.db")
	if err := recordIncident(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// later is a time long after the end of that recording.
func later() time.Time { return time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC) }

// assistant is a client of ingero mcp.
type assistant struct {
	*sdk.ClientSession
	t *testing.T
}

// pipes starts ingero mcp on pipes, as clients do, and a client.
func pipes(t *testing.T, db, version string, args ...string) *assistant {
	t.Helper()
	stdin, stdout, write, read := testkit.Pipes(t)
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{Args: append([]string{"mcp", "--db", db}, args...), Stdin: stdin, Stdout: stdout, Stderr: nowhere, Now: later, Getenv: func(string) string { return "" }, Lock: testPlace(t)}
	ended := make(chan int, 1)
	go func() { ended <- e.run(context.Background()); _ = stdout.Close() }()
	c := connect(t, &sdk.IOTransport{Reader: read, Writer: write}, version)
	t.Cleanup(func() {
		_ = c.Close()
		if code := <-ended; code != 0 {
			t.Errorf("ingero mcp ends with %d", code)
		}
		_ = nowhere.Close()
	})
	return c
}

// overHTTP starts ingero mcp --http and a client.
func overHTTP(t *testing.T, db, version string, args ...string) (*assistant, *served) {
	t.Helper()
	s := serveBy(t, "mcp", db, later, nil, append([]string{"--http", ":0"}, args...)...)
	c := connect(t, &sdk.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.client, MaxRetries: -1}, version)
	t.Cleanup(func() { _ = c.Close() })
	return c, s
}

func connect(t *testing.T, by sdk.Transport, version string) *assistant {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), by, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	return &assistant{session, t}
}

// reply is the answer of a tool.
type reply struct {
	text    string
	refused bool
	facts   map[string]any
	columns []string
	rows    [][]any
	next    string
}

func (a *assistant) call(name string, args map[string]any) reply {
	a.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	res, err := a.CallTool(a.t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s: %v", name, err)
	}
	if len(res.Content) != 1 {
		a.t.Fatalf("%s: %d contents", name, len(res.Content))
	}
	r := reply{text: res.Content[0].(*sdk.TextContent).Text, refused: res.IsError}
	b, err := json.Marshal(res.StructuredContent)
	if err != nil {
		a.t.Fatal(err)
	}
	var out struct {
		Facts   map[string]any
		Columns []string
		Rows    [][]any
		Next    string
	}
	if err := json.Unmarshal(b, &out); err != nil {
		a.t.Fatal(err)
	}
	r.facts, r.columns, r.rows, r.next = out.Facts, out.Columns, out.Rows, out.Next
	return r
}

// mcpCalls has calls of every tool. Those with words are rejected with these words. Those marked
// live report on this machine and have no golden reply.
var mcpCalls = []struct {
	name  string
	args  map[string]any
	words string
	live  bool
}{
	{name: "diagnose"},
	{name: "explain_chain", args: map[string]any{"id": "CHAIN"}},
	{name: "get_causal_chains"},
	{name: "where_did_time_go"},
	{name: "get_requests"},
	{name: "get_memory"},
	{name: "get_xids"},
	{name: "get_trace_stats"},
	{name: "get_stacks"},
	{name: "graph_lifecycle", args: map[string]any{"pid": []int{16811}}},
	{name: "graph_frequency"},
	{name: "run_demo", args: map[string]any{"scenario": "memcpy-bottleneck"}},
	{name: "get_test_report"},
	{name: "run_sql", args: map[string]any{"sql": "SELECT op, count, ms(total_ns) AS total_ms, us(p99_ns) AS p99_us FROM op_stats(NULL, NULL, 'op') ORDER BY total_ns DESC LIMIT 10"}},
	{name: "diff_runs", args: map[string]any{"a": "2026-11-22T09:10:19Z..2026-11-22T09:10:23Z", "b": "2026-11-22T09:10:23Z..2026-11-22T09:10:31Z"}},
	{name: "get_check", live: true},
	{name: "get_stuck", words: "no trace is running"},
	{name: "query_fleet", words: "no other nodes are configured"},
}

// testReportFile creates a report as make test-gpu may write it.
func testReportFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	text := `{"time": "2026-11-20T10:00:00Z", "simulated": false, "failures": ["trace cudaMalloc: 3 calls, want 4"], "traces": [{"name": "torch", "ok": true}], "suite": [{"name": "probes", "failed": 0}], "overhead": []}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// chainID returns the ID of the first cause.
func (a *assistant) chainID() string {
	a.t.Helper()
	id, _ := a.call("diagnose", nil).facts["chain"].(string)
	if id == "" {
		a.t.Fatal("diagnose names no cause")
	}
	return id
}

// withChain replaces the placeholder by the ID.
func withChain(args map[string]any, id string) map[string]any {
	if args["id"] == "CHAIN" {
		return map[string]any{"id": id}
	}
	return args
}

// Every tool, prompt and resource works over both transports with each protocol version.
// (Rows 89, 91, 92.)
func TestMCPEverywhere(t *testing.T) {
	db, report := incidentDB(t), testReportFile(t)
	for _, version := range sdk.SupportedProtocolVersions() {
		for name, open := range map[string]func(*testing.T) *assistant{
			"stdio": func(t *testing.T) *assistant { return pipes(t, db, version, "--test-report", report) },
			"http": func(t *testing.T) *assistant {
				c, _ := overHTTP(t, db, version, "--test-report", report)
				return c
			},
		} {
			t.Run(name+" "+version, func(t *testing.T) { open(t).tryAll(version) })
		}
	}
}

func (a *assistant) tryAll(version string) {
	t := a.t
	t.Helper()
	if got := a.InitializeResult().ProtocolVersion; got != version {
		t.Errorf("it speaks %s, want %s", got, version)
	}
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := tools.Tools[0].Name; got != "diagnose" {
		t.Errorf("the first tool is %s", got)
	}
	id := a.chainID()
	for _, name := range []string{"diagnose", "get_causal_chains", "where_did_time_go", "get_trace_stats"} {
		if r := a.call(name, map[string]any{"pid": []int{999}}); !r.refused || !strings.Contains(r.text, "process 999 is not in any recording of that time") {
			t.Errorf("%s of a process that was not recorded: %s", name, r.text)
		}
	}
	called := map[string]bool{}
	for _, c := range mcpCalls {
		called[c.name] = true
		if c.live && version != sdk.SupportedProtocolVersions()[0] {
			continue // a check of the machine takes seconds
		}
		r := a.call(c.name, withChain(c.args, id))
		if r.refused != (c.words != "") || !strings.Contains(r.text, c.words) || r.text == "" {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	for _, x := range tools.Tools {
		if !called[x.Name] || x.Description == "" || x.InputSchema == nil || x.OutputSchema == nil || !x.Annotations.ReadOnlyHint {
			t.Errorf("tool %s: %+v", x.Name, x)
		}
	}
	prompts, err := a.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts.Prompts {
		args := map[string]string{}
		for _, x := range p.Arguments {
			args[x.Name] = "4821"
		}
		got, err := a.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: p.Name, Arguments: args})
		if err != nil || len(got.Messages) != 1 || strings.ContainsAny(got.Messages[0].Content.(*sdk.TextContent).Text, "{}") {
			t.Errorf("prompt %s: %+v, %v", p.Name, got, err)
		}
	}
	if len(prompts.Prompts) < 8 || !slices.ContainsFunc(prompts.Prompts, func(p *sdk.Prompt) bool { return p.Name == "investigate" }) {
		t.Errorf("there are %d prompts", len(prompts.Prompts))
	}
	for _, uri := range []string{"ingero://schema", "ingero://chains", "ingero://sessions", "ingero://chains/" + id, "ingero://schema/chains"} {
		got, err := a.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil || len(got.Contents) != 1 || len(got.Contents[0].Text) < 50 || len(got.Contents[0].Text) > 32_000 {
			t.Errorf("resource %s: %+v, %v", uri, got, err)
		}
	}
}

// The README's curl calls work as written: without handshake, session or protocol headers.
func TestMCPCurl(t *testing.T) {
	_, s := overHTTP(t, incidentDB(t), "")
	for i, tool := range []string{`"get_check","arguments":{}`, `"get_causal_chains","arguments":{}`, `"get_trace_stats","arguments":{"tsc":false}`} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%s}}`, i+1, tool)
		code, text := s.ask("POST", "/mcp", body, func(r *http.Request) { r.Header.Set("Accept", "application/json, text/event-stream") })
		var out struct {
			ID     int
			Result struct {
				Content []struct{ Text string }
				IsError bool
			}
		}
		if err := json.Unmarshal([]byte(text), &out); err != nil || code != 200 || out.ID != i+1 || out.Result.IsError || len(out.Result.Content) != 1 {
			t.Errorf("%s: %d %.300s %v", tool, code, text, err)
		}
	}
}

// The names that tools, prompts and instructions refer to exist.
func TestMCPNames(t *testing.T) {
	testkit.LeakCheck(t)
	a := pipes(t, incidentDB(t), "")
	tools, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"tsc": true, "ingero": true, "nvidia_smi": true}
	text := a.InitializeResult().Instructions
	word := regexp.MustCompile(`[a-z0-9]+(_[a-z0-9]+)+`)
	for _, x := range tools.Tools {
		b, err := json.Marshal([]any{x.InputSchema, x.OutputSchema})
		if err != nil {
			t.Fatal(err)
		}
		known[x.Name] = true
		for _, w := range word.FindAllString(string(b), -1) {
			known[w] = true
		}
		text += " " + x.Description
	}
	schema, err := a.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "ingero://schema"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(schema.Contents[0].Text, "\n") {
		name, _, _ := strings.Cut(line, ":")
		for _, w := range word.FindAllString(name, -1) {
			known[w] = true
		}
	}
	prompts, err := a.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts.Prompts {
		got, err := a.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: p.Name})
		if err != nil {
			t.Fatal(err)
		}
		text += " " + got.Messages[0].Content.(*sdk.TextContent).Text
	}
	for _, w := range word.FindAllString(text, -1) {
		if !known[w] {
			t.Errorf("%s is named, and there is none", w)
		}
	}
	for table := range mentioned(text) {
		if r := a.call("run_sql", map[string]any{"sql": "SELECT * FROM " + table + " LIMIT 1"}); r.refused {
			t.Errorf("table %s: %s", table, r.text)
		}
	}
}

// mentioned returns the tables that the tool for statements names.
func mentioned(text string) map[string]bool {
	out := map[string]bool{}
	_, list, _ := strings.Cut(text, "Virtual tables: ")
	list, _, _ = strings.Cut(list, ";")
	for name := range strings.SplitSeq(list, ", ") {
		out[cmp.Or(name, "none")] = true
	}
	return out
}
