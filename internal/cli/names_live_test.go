package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ingero/internal/testkit"
)

// oddNames maps what is odd about a program's name to the name, which formats could get wrong.
// The name of FIELD 13 is truncated inside a character.
var oddNames = map[string]string{
	"spaces":          "two  words ",
	"quotes":          `say "hi" 'you'`,
	"a newline":       "line\nbreak",
	"a cut character": "ODS_T - \xe8\xa1",
	"backslashes":     `a\nb\"c`,
	"an escape":       "\x1b[31mred",
	"labels":          `x="1"},y{`,
	"a very long one": strings.Repeat("long-name ", 20),
	"wide characters": "訓練ジョブ",
	"a formula":       "=cmd|'calc'!A1",
}

// oddTitle is the command line title of each of these programs.
var oddTitle = "trainer: \"rank 0\"\n, of 'all' \xff\xfe " + strings.Repeat("é", 3000)

// oddPrograms starts a training loop under each name; the loops wait for a line.
func (b *bench) oddPrograms(args ...string) (pids []string, all map[string]*testkit.Child) {
	b.t.Helper()
	all = map[string]*testkit.Child{}
	for what, name := range oddNames {
		path := filepath.Join(b.t.TempDir(), name)
		testkit.CopyProgram(b.t, path, b.stack.Program("train"))
		cmd := exec.Command(path)
		cmd.Args = append([]string{oddTitle, "--launches", "3", "--hold"}, args...)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+b.stack.Dir)
		all[what] = testkit.Start(b.t, cmd)
		all[what].Line("ready")
		pids = append(pids, pid(all[what]))
	}
	return pids, all
}

// shownName returns a program's displayed name where any text is allowed: 15 bytes, as in the
// kernel, and valid UTF-8.
func shownName(name string) string {
	return strings.ToValidUTF8(name[:min(15, len(name))], "?")
}

// bodies collects the bodies of requests to a server.
type bodies struct {
	mu  sync.Mutex
	all map[string][]byte // by path and query
}

func (x *bodies) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	text := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		text = z
	}
	b, err := io.ReadAll(text)
	if err != nil { // a request that its sender gave up; it is sent again
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if q.Header.Get("Content-Type") == "application/json" && (!json.Valid(b) || !utf8.Valid(b)) {
		b = fmt.Appendf(nil, "NOT JSON: %q", b)
	}
	x.all[q.URL.String()] = append(x.all[q.URL.String()], b...)
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(q.URL.Path, "/v1/") {
		_, _ = io.WriteString(w, "{}")
	}
}

func (x *bodies) text(of string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []byte
	for at, b := range x.all {
		if strings.Contains(at, of) {
			out = append(out, b...)
		}
	}
	return string(out)
}

// All exporters and other outputs handle any program name: they are valid in their format and
// contain the name.
func TestNamesOnAllSurfaces(t *testing.T) {
	b := newBench(t)
	pids, programs := b.oddPrograms("--seconds", "600")
	sent := &bodies{all: map[string][]byte{}}
	server := httptest.NewServer(sent)
	defer server.Close()
	trace := b.ingero("trace", "--prometheus", ":0", "--otlp", strings.TrimPrefix(server.URL, "http://"), "--otlp-protocol", "http/json", "--otlp-traces", "all",
		"--clickhouse", server.URL, "--max-overhead", "0", "--pid", strings.Join(pids, ","))
	address := metricsOf(t, trace)
	b.tracing(len(pids))
	var page string
	for _, c := range programs {
		c.Send("go")
	}
	testkit.Eventually(t, "series of each program", func() bool {
		var code int
		if code, page = get(t, "http://"+address+"/metrics"); code != http.StatusOK {
			return false
		}
		for _, p := range pids {
			if !strings.Contains(page, `pid="`+p+`"`) {
				return false
			}
		}
		return true
	})
	for _, c := range programs { // not before the page is read, so that the trace continues
		c.Signal(syscall.SIGKILL)
	}
	if stdout, stderr, code := finish(t, trace); code != 0 || !utf8.ValidString(stdout+stderr) || strings.Contains(stdout+stderr, "\x1b[31m") {
		t.Errorf("code %d: %q", code, stdout+stderr)
	}
	found := map[string]string{"the page of Prometheus": unlabel(page), "OTLP": sent.text("/v1/"), "ClickHouse": sent.text("INSERT")}
	b.askForNames(found)
	for surface, text := range found {
		if surface != "ClickHouse" && (!utf8.ValidString(text) || strings.Contains(text, "NOT JSON")) {
			t.Errorf("%s is not valid", surface)
		}
		for what, name := range oddNames {
			if !hasName(text, shownName(name)) {
				t.Errorf("%s does not have the name with %s, %q", surface, what, shownName(name))
			}
		}
		if strings.Contains(text, "ODS_T - \xe8") {
			t.Errorf("%s has bytes that are no UTF-8", surface)
		}
	}
}

// unlabel unquotes label values.
func unlabel(page string) string {
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(page)
}

// hasName reports whether text contains a name: raw, or quoted for JSON, CSV, a terminal or an
// assistant.
func hasName(text, name string) bool {
	quoted, _ := json.Marshal(name)
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(name)
	safe := strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, name)
	inJSON, _ := json.Marshal(safe)
	for _, s := range []string{name, strings.Trim(string(quoted), `"`), strings.TrimSpace(plain.String()), safe, strings.ReplaceAll(name, `"`, `""`), strings.ReplaceAll(safe, `"`, "'"), string(inJSON[1 : len(inJSON)-1])} {
		if strings.Contains(text, strings.TrimSpace(s)) || strings.Contains(text, strings.Trim(s, `"`)) {
			return true
		}
	}
	oneLine := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return strings.Contains(oneLine(text), oneLine(safe)) // a report wraps lines at spaces
}

// askForNames runs each command, the API and the MCP tools on the processes.
func (b *bench) askForNames(found map[string]string) {
	b.t.Helper()
	sql := "SELECT pid, comm, cmdline, exe FROM processes ORDER BY pid LIMIT 100"
	for what, args := range map[string][]string{
		"query --json": {"query", "--json", sql}, "query --csv": {"query", "--csv", sql}, "query": {"query", sql},
		"explain --json": {"explain", "--json"}, "explain": {"explain", "--per-process"},
		"export of CSV": {"export", "--format", "csv", "-o", "-"}, "the timeline": {"export", "--format", "chrome-json", "-o", "-"},
	} {
		stdout, stderr, code := b.output(args...)
		if code != 0 {
			b.t.Errorf("%s: code %d: %s", what, code, stderr)
			continue
		}
		found[what] = stdout
		if strings.Contains(what, "json") || what == "the timeline" {
			d := json.NewDecoder(strings.NewReader(stdout))
			for d.More() {
				var x any
				if err := d.Decode(&x); err != nil {
					b.t.Errorf("%s: %v", what, err)
					break
				}
			}
		}
		if strings.Contains(strings.ToLower(what), "csv") {
			rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
			if err != nil {
				b.t.Errorf("%s: %v", what, err)
			}
			found[what] = fmt.Sprintln(rows)
		}
	}
	api := serveBy(b.t, "dashboard", b.db(), time.Now, nil, "--addr", ":0")
	for _, path := range []string{"/api/v1/processes?since=1h", "/api/v1/explain?since=1h"} {
		code, text := api.ask("GET", path, "", nil)
		if code != http.StatusOK || !json.Valid([]byte(text)) {
			b.t.Errorf("%s: %d %.200s", path, code, text)
		}
		found[path] = text
	}
	s := serveBy(b.t, "mcp", b.db(), time.Now, nil, "--http", ":0")
	a := connect(b.t, &sdk.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.client, MaxRetries: -1}, "")
	defer func() { _ = a.Close() }()
	found["run_sql of MCP"] = a.call("run_sql", map[string]any{"sql": "SELECT pid, comm FROM processes LIMIT 100"}).text
	args := map[string]any{"per_process": true, "max_tokens": 8000, "since": "1h"}
	for { // the longest calls come first, so how many pages a name is away depends on their times
		r := a.call("get_trace_stats", args)
		found["get_trace_stats of MCP"] += r.text
		if r.next == "" {
			break
		}
		args["cursor"] = r.next
	}
}
