package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/testkit"
)

// command runs a command in this process and returns its exit code and its output.
func command(t *testing.T, now func() time.Time, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	var files [2]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		files[i] = f
	}
	e := &Env{Lock: testPlace(t), Args: args, Stdin: os.Stdin, Stdout: files[0], Stderr: files[1], Now: now, Zone: time.UTC,
		Getenv: func(k string) string { return env[k] }}
	code = e.run(context.Background())
	var text [2]string
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text[i] = string(b)
		_ = f.Close()
	}
	return code, text[0], text[1]
}

// threeNodes starts dashboards for three nodes, with recordings of two, three and four seconds.
func threeNodes(t *testing.T, args ...string) (nodes []*served, flags []string) {
	t.Helper()
	testkit.LeakCheck(t)
	var addresses, pins []string
	for i, name := range []string{"gpu-1", "gpu-2", "gpu-3"} {
		db := filepath.Join(t.TempDir(), "x.db")
		if err := recordFixture(db, name+"-a", name, began, i+2); err != nil {
			t.Fatal(err)
		}
		s := serve(t, db, nil, nil, append([]string{"--addr", ":0", "--node", name}, args...)...)
		nodes, addresses, pins = append(nodes, s), append(addresses, strings.TrimPrefix(s.url, "https://")), append(pins, s.fingerprint)
	}
	return nodes, []string{"--nodes", strings.Join(addresses, ","), "--pin", strings.Join(pins, ",")}
}

// rowsJSON is the result of a statement with --json.
type rowsJSON struct {
	Columns []string
	Rows    []map[string]any
	Cut     string
	Notes   []string
	Nodes   []struct{ Name, Problem string }
}

func rowsOf(t *testing.T, text string) (r rowsJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	return r
}

// Aggregates of several nodes equal those of one database with all of them; other rows name their
// node.
func TestQueryNodes(t *testing.T) {
	_, flags := threeNodes(t)
	for _, tt := range []struct {
		name, statement, want string
		more                  []string
	}{
		{"merged", "SELECT op, count(*) AS n, min(pid) FROM events WHERE nested = 0 GROUP BY op ORDER BY n DESC",
			"op,n,min(pid)\ncudaLaunchKernel,1800,4821\ncudaStreamSynchronize,450,4821\ncudaMalloc,9,5032\n", nil},
		{"all in one", "SELECT count(*), avg(pid * 2 + 0.5) FROM events WHERE pid = 5032", "count(*),avg(pid * 2 + 0.5)\n9,10064.5\n", nil},
		{"by node", "SELECT node, count(*) FROM events GROUP BY node", "node,count(*)\ngpu-1,902\ngpu-2,1353\ngpu-3,1804\n", nil},
		{"other SQL", "SELECT DISTINCT pid FROM events ORDER BY pid", "node,pid\ngpu-1,4821\ngpu-1,5032\ngpu-2,4821\ngpu-2,5032\ngpu-3,4821\ngpu-3,5032\n", nil},
		{"kept apart", "SELECT count(*) AS n FROM events", "node,n\ngpu-1,902\ngpu-2,1353\ngpu-3,1804\n", []string{"--per-node"}},
		{"limit", "SELECT op FROM events ORDER BY timestamp", "node,op\ngpu-1,cudaLaunchKernel\ngpu-1,cuLaunchKernel\n", []string{"--limit", "2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append(append([]string{"query", "--csv"}, flags...), tt.more...)
			code, got, said := command(t, nil, nil, append(args, tt.statement)...)
			if code != 0 || got != tt.want {
				t.Errorf("code %d, got\n%s\nwant\n%s\n%s", code, got, tt.want, said)
			}
		})
	}
	code, got, said := command(t, nil, nil, append([]string{"query", "--json"}, flags...)...)
	var ops struct {
		Operations []struct {
			Op    string
			Calls uint64
			P99   int64 `json:"p99_ns"`
			Node  string
		}
		Nodes []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(got), &ops); err != nil || code != 0 || len(ops.Operations) != 4 || len(ops.Nodes) != 3 {
		t.Fatalf("code %d, %v: %s %s", code, err, got, said)
	}
	var all stats.Sketch
	for range 9 { // seconds
		for step := range int64(50) {
			d := 15e6 + 1000*step
			if step == 20 {
				d = 19e6
			}
			all.Add(d, 1)
		}
	}
	if o := ops.Operations[0]; o.Op != "cudaStreamSynchronize" || o.Calls != 450 || o.P99 != all.Quantile(0.99) || o.Node != "" {
		t.Errorf("got %+v, want 450 calls, p99 %d", o, all.Quantile(0.99))
	}
	if code, got, _ := command(t, nil, nil, append([]string{"query", "--csv", "--per-node", "--op", "cudaMalloc"}, flags...)...); code != 0 || strings.Count(got, "\ngpu-") != 3 {
		t.Errorf("kept apart: %d %s", code, got)
	}
}

// oddNode is a node that does not answer properly, and the expected problem.
type oddNode struct{ node, want string }

// oddNodes starts such nodes. gpu1 is a proper node, over HTTPS. After hang is closed, they stop
// answering.
func oddNodes(t *testing.T, gpu1 string, hang chan struct{}) map[string]oddNode {
	t.Helper()
	odd := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	met := func(then http.HandlerFunc) string { // a node that identifies itself
		return odd(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/time" {
				_, _ = fmt.Fprintf(w, `{"node":"odd","time_ns":%d}`, time.Now().UnixNano())
				return
			}
			then(w, r)
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	_ = l.Close()
	token := serve(t, testDB(t), nil, map[string]string{"INGERO_TOKEN": "0123456789abcdef"}, "--addr", ":0", "--no-tls")
	plain := serve(t, testDB(t), nil, nil, "--addr", ":0", "--no-tls")
	empty := serve(t, filepath.Join(t.TempDir(), "none.db"), nil, nil, "--addr", ":0", "--no-tls", "--node", "gpu-9")
	endless := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"rows":[["`)
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte{'x'}, 1<<20)); err != nil {
				return
			}
		}
	}
	return map[string]oddNode{
		"dead":     {dead, "refused the connection: nothing listens on the port (run there: ingero dashboard"},
		"no TLS":   {strings.TrimPrefix(plain.url, "http://"), "serves without TLS (use http://"},
		"TLS":      {strings.Replace(gpu1, "https://127.0.0.1", "http://localhost", 1), "serves with TLS (use localhost:"},
		"token":    {token.url, "requires a bearer token (set --token-file FILE or INGERO_TOKEN)"},
		"nothing":  {empty.url, "gpu-9 answered: nothing was recorded in that time"},
		"other":    {odd(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }), "sent an answer that is not in ingero's format"},
		"redirect": {odd(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, gpu1, http.StatusFound) }), "answered with status 302"},
		"slow":     {met(func(http.ResponseWriter, *http.Request) { <-hang }), "did not answer within 2s\n        if it is only slow, raise --node-timeout"},
		"endless":  {met(endless), "odd "},
		"no rows": {met(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"columns":["n"],"rows":[[1,2]]}`)
		}),
			"odd sent an answer that is not in ingero's format"},
	}
}

// Nodes that do not answer properly are reported with a remedy, beside the answers of the others.
func TestQueryNodesPartly(t *testing.T) {
	nodes, flags := threeNodes(t)
	hang := make(chan struct{})
	all := oddNodes(t, nodes[0].url, hang)
	for name, tt := range all {
		t.Run(name, func(t *testing.T) {
			if name == "slow" { // alone: others might miss the short timeout too
				code, _, said := command(t, nil, nil, "query", "--node-timeout", "2s", "--nodes", tt.node, "SELECT 1")
				if code != 1 || !strings.Contains(said, tt.want) {
					t.Errorf("code %d, %q, want %q", code, said, tt.want)
				}
				return
			}
			args := append([]string{"query", "--json", "--node-timeout", "1m"}, flags...)
			args[5] += "," + tt.node
			code, got, said := command(t, nil, nil, append(args, "SELECT pid FROM events LIMIT 1")...)
			r := rowsOf(t, got)
			if code != 0 || len(r.Rows) != 3 || len(r.Nodes) != 4 || !strings.Contains(strings.Join(r.Notes, "\n"), tt.want) || !strings.Contains(said, "Note: ") {
				t.Errorf("code %d, %d rows, nodes %+v, notes %q, want %q", code, len(r.Rows), r.Nodes, r.Notes, tt.want)
			}
		})
	}
	close(hang)
	code, _, said := command(t, nil, nil, "query", "--nodes", all["dead"].node+","+all["no TLS"].node)
	if code != 1 || !strings.Contains(said, "none of the nodes answered") || !strings.Contains(said, "serves without TLS") {
		t.Errorf("nobody: %d %s", code, said)
	}
	code, _, said = command(t, nil, nil, append([]string{"query"}, append(flags, "DELETE FROM events")...)...)
	if code != 2 || !strings.Contains(said, "DELETE cannot be used") {
		t.Errorf("a statement that does not read: %d %s", code, said)
	}
}
