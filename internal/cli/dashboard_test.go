package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ingero/internal/dashboard"
	"ingero/internal/guard"
	"ingero/internal/testkit"
)

// served is a dashboard that runs in this process.
type served struct {
	t           *testing.T
	url         string // with scheme, without a trailing slash
	fingerprint string
	client      *http.Client // trusts the fingerprint
	token       string
}

// serve starts a dashboard for a database and stops it at the end of the test.
func serve(t *testing.T, db string, now func() time.Time, env map[string]string, args ...string) *served {
	t.Helper()
	return serveBy(t, "dashboard", db, now, env, args...)
}

// serveBy starts a command that serves.
func serveBy(t *testing.T, command, db string, now func() time.Time, env map[string]string, args ...string) *served {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{Args: append([]string{command, "--db", db}, args...), Stdin: os.Stdin, Stdout: write, Stderr: write, Now: now,
		Getenv: func(k string) string { return env[k] }, keyFile: filepath.Join(t.TempDir(), "key"), Lock: testPlace(t)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- e.run(ctx); _ = write.Close() }()
	s := &served{t: t, token: env["INGERO_TOKEN"]}
	lines := bufio.NewScanner(read)
	var said strings.Builder
	for s.fingerprint == "" && lines.Scan() {
		fmt.Fprintln(&said, lines.Text())
		if m := regexp.MustCompile(`^Serving .* on (https?://\S+) `).FindStringSubmatch(lines.Text()); m != nil {
			s.url = m[1]
		}
		if m := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(lines.Text()); m != "" {
			s.fingerprint = m
		}
		if strings.HasPrefix(lines.Text(), "Without TLS") {
			s.fingerprint = "none"
		}
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("the dashboard ends with %d: %s", code, said.String())
		}
		_ = read.Close()
	})
	if s.url == "" {
		t.Fatalf("it does not serve: %s", said.String())
	}
	s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			if got := guard.Fingerprint(c.PeerCertificates[0]); got != s.fingerprint {
				return fmt.Errorf("fingerprint %s", got)
			}
			return nil
		}}}}
	return s
}

// ask sends a request, which change may modify first. It returns the status and the body.
func (s *served) ask(method, path, body string, change func(*http.Request)) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	if change != nil {
		change(r)
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func atTheEnd() time.Time { return began.Add(4 * time.Second) }

func testDB(t *testing.T) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(db, "gpu-7-one", "gpu-7", began)
	if err != nil {
		t.Fatal(err)
	}
	x.lost = 300 * time.Millisecond
	for range 3 {
		if err := x.second(); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
	return db
}

// Every path of the API answers over HTTPS with recorded data.
func TestDashboardAnswers(t *testing.T) {
	testkit.LeakCheck(t)
	s := serve(t, testDB(t), atTheEnd, nil, "--addr", ":0", "--node", "gpu-7")
	asked, schema := map[string]bool{}, readSchema(t)
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/", "", "<!doctype html>"},
		{"GET", "/api/v1/time", "", `"node":"gpu-7","version":"dev","time_ns":1795185664000000000,`},
		{"GET", "/api/v1/overview", "", `"calls":1353,"chains":1`},
		{"GET", "/api/v1/overview", "", `"top_chain":{"id":"c-1","rule":"cpu-taken","severity":"HIGH"`},
		{"GET", "/api/v1/ops?since=5m", "", `"op": "cudaStreamSynchronize",`},
		{"GET", "/api/v1/ops?since=5m&op=cudaMalloc&per_process=1", "", `"comm": "embed?[31m"`},
		{"GET", "/api/v1/ops?since=2s&sums=1&pid=5032", "", `{"op":"cudaMalloc","source":1,"counts":{"Calls":1,`},
		{"GET", "/api/v1/ops?cgroup=embed.service&sums=1", "", `"sums":[{"op":"cudaMalloc",`},
		{"GET", "/api/v1/chains?since=1h", "", `"severity":"HIGH"`},
		{"GET", "/api/v1/snapshots?since=60s", "", `"every":1,"snapshots":[{"time":"2026-11-20T14:41:01Z","node":"gpu-7",`},
		{"GET", "/api/v1/capabilities", "", `{"name":"cuda-runtime","about":"calls of the CUDA runtime","available":true,"collected":true,`},
		{"GET", "/api/v1/capabilities", "", `{"name":"nvlink","about":"NVLink and PCIe traffic","available":false,"collected":false,"tool":"DCGM"}`},
		{"GET", "/api/v1/stacks?since=1m", "", `"without":1353,"stacks":[]`},
		{"GET", "/api/v1/graph-metrics?since=1m", "", `"operations":[],"graph_columns":["pid","exec",`},
		{"GET", "/api/v1/graph-events?since=1m&limit=5", "", `"of":0,"events":[]`},
		{"GET", "/api/v1/explain?since=1m&zone=CET:3600", "", "HIGH] "},
		{"GET", "/api/v1/collectives", "", `{"node":"gpu-7","ranks":[]}`},
		{"POST", "/api/v1/query", `{"sql":"SELECT count(*) AS n, 1.0 AS f, x'00ff' AS b, NULL AS u, 'a' AS t FROM events"}`,
			`{"node":"gpu-7","columns":["n","f","b","u","t"],"rows":[[1353,1.0,{"hex":"00ff"},null,"a"]],"cut":"","notes":[],"took_ms":`},
		{"POST", "/api/v1/query", `{"sql":"SELECT pid FROM events","limit":2}`, `"cut":"there are more than 2 rows"`},
		{"GET", "/api/v1/timeline?since=1m", "", `"resolution":"1 s","rows":[{"pid":4821,"tid":0,"comm":"train.py","node":"gpu-7","session":"gpu-7-one","elapsed_ns":3000000000,`},
		{"GET", "/api/v1/heatmap?since=1m&op=cudaMalloc&buckets=10", "", `"op_names":["cudaStreamSynchronize",`},
		{"GET", "/api/v1/heatmap?since=1m&op=cudaMalloc", "", `"ops":[{"op":"cudaMalloc","source":"cudart","calls":3,"total_ns":750000,"p50_ns":250000,`},
		{"GET", "/api/v1/flame?since=1m&what=calls", "", `"unit":"calls","total":0,"without":1353,"sampled":1,"root":{"name":"all",`},
		{"GET", "/api/v1/memory?since=1m", "", `"processes":[],"more":0`},
		{"GET", "/api/v1/gpus?since=1m", "", `"gpus":[],"xids":[],`},
		{"GET", "/api/v1/requests?since=1m", "", `"servers":[],"engines":[],"inference":[],"notes":[]`},
		{"GET", "/api/v1/processes?since=1m", "", `{"node":"gpu-7","session":"gpu-7-one","pid":4821,`},
		{"GET", "/api/v1/recordings", "", `{"id":"gpu-7-one","node":"gpu-7","from":"2026-11-20T14:41:00Z",`},
		{"GET", "/api/v1/communicators", "", `"columns":["id","rank",`},
		{"GET", "/api/v1/fleet", "", `"machines":[],"notes":[]`},
		{"GET", "/api/v1/backup", "", "SQLite format 3\x00"},
	} {
		status, text := s.ask(tt.method, tt.path, tt.body, nil)
		if status != 200 || !strings.Contains(text, tt.want) {
			t.Errorf("%s %s: %d %.1500q, want %q", tt.method, tt.path, status, text, tt.want)
		}
		path, _, _ := strings.Cut(tt.path, "?")
		asked[path] = true
		if tt.method == "GET" && path != "/" && path != "/api/v1/backup" && !json.Valid([]byte(text)) {
			t.Errorf("%s is no JSON", tt.path)
		}
		if document := tt.method + " " + path; path != "/" && path != "/api/v1/backup" {
			if strings.Contains(tt.path, "sums=1") {
				document += "?sums=1"
			}
			if err := schema.check(document, []byte(text)); err != nil {
				t.Errorf("%s does not fit the schema: %v", document, err)
			}
		}
	}
	asked["/api/v1/updates"] = true // tested by TestDashboardUpdates
	for i := range dashboard.Paths {
		if p := dashboard.Paths[i].Path; !asked[p] {
			t.Errorf("%s is not tested", p)
		}
	}
}

// Invalid requests are rejected with a reason and change nothing.
func TestDashboardRefuses(t *testing.T) {
	testkit.LeakCheck(t)
	s := serve(t, testDB(t), atTheEnd, nil, "--addr", ":0")
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/api/v1/ops?since=-5m", "", 400, "since cannot be"},
		{"GET", "/api/v1/ops?sinc=5m", "", 400, "there is no parameter"},
		{"GET", "/api/v1/ops?since=5m&since=6m", "", 400, "given once"},
		{"GET", "/api/v1/ops?op=none", "", 400, "op cannot be"},
		{"GET", "/api/v1/ops?pid=1,x", "", 400, "pid cannot be"},
		{"GET", "/api/v1/ops?from=5&to=4", "", 400, "from must be before to"},
		{"GET", "/api/v1/ops?%zz", "", 400, "cannot be read"},
		{"GET", "/api/v1/ops?from=1&to=2", "", 404, "nothing was recorded in that time"},
		{"GET", "/api/v1/ops?pid=999", "", 404, "process 999 is not in any recording of that time"},
		{"GET", "/api/v1/explain?pid=998,999", "", 404, "processes 998, 999 are not in any recording of that time"},
		{"GET", "/api/v1/chains?since=5m&pid=999", "", 404, "is not in any recording of that time"},
		{"GET", "/api/v1/graph-events?limit=0", "", 400, "limit cannot be"},
		{"GET", "/api/v1/timeline?buckets=301", "", 400, "buckets cannot be"},
		{"GET", "/api/v1/flame?what=cats", "", 400, "time, gpu_wait, runnable, calls, memory"},
		{"GET", "/api/v1/updates?since=5m", "", 400, "no parameters"},
		{"POST", "/api/v1/updates", "{}", 405, "supports only GET"},
		{"POST", "/", "{}", 405, "supports only GET"},
		{"GET", "/assets/none.js", "", 404, "no such path"},
		{"POST", "/api/v1/ops", "{}", 405, "supports only GET"},
		{"GET", "/api/v1/query", "", 405, "supports only POST"},
		{"GET", "/api/v2/ops", "", 404, "no such path"},
		{"GET", "/../../etc/passwd", "", 404, "no such path"},
		{"POST", "/api/v1/query", `{"sql":"DELETE FROM sessions"}`, 400, "DELETE cannot be used"},
		{"POST", "/api/v1/query", `{"sql":"SELECT 1; DROP TABLE ops"}`, 400, "several statements"},
		{"POST", "/api/v1/query", `{"sql":"SELECT * FROM missing"}`, 400, "no such table"},
		{"POST", "/api/v1/query", `{"sql":"SELECT 1","x":1}`, 400, "cannot be read"},
		{"POST", "/api/v1/query", `{"sql":"SELECT 1"}{}`, 400, "data after the JSON value"},
		{"POST", "/api/v1/query", `{"sql":"SELECT 1","limit":10001}`, 400, "limit cannot be"},
		{"POST", "/api/v1/query", `{"sql":"SELECT 1","timeout_ms":-1}`, 400, "timeout_ms cannot be"},
		{"POST", "/api/v1/query", `{"sql":"` + strings.Repeat(" ", 1<<20) + `SELECT 1"}`, 413, "more than 65536 bytes"},
		{"POST", "/api/v1/query", `{"sql":"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n","timeout_ms":50}`, 422, "timed out"},
	} {
		if status, text := s.ask(tt.method, tt.path, tt.body, nil); status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s %s %.60s: %d %.300q, want %d %q", tt.method, tt.path, tt.body, status, text, tt.status, tt.want)
		}
	}
	if status, text := s.ask("POST", "/api/v1/query", `{"sql":"SELECT 1"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }); status != 415 {
		t.Errorf("a form: %d %s", status, text)
	}
}

// Pages of other sites and DNS rebinding get no answers.
func TestDashboardKeepsBrowsersOut(t *testing.T) {
	testkit.LeakCheck(t)
	db := testDB(t)
	open := serve(t, db, atTheEnd, nil, "--addr", ":0", "--allow-host", "gpu-7.example")
	guarded := serve(t, db, atTheEnd, map[string]string{"INGERO_TOKEN": "0123456789abcdef"}, "--addr", "127.0.0.1:0")
	host, _ := os.Hostname()
	for _, tt := range []struct {
		name   string
		s      *served
		change func(*http.Request)
		want   int
	}{
		{"its address", open, nil, 200},
		{"localhost", open, func(r *http.Request) { r.Host = "localhost:8080" }, 200},
		{"rebound name", open, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"rebound name with its port", open, func(r *http.Request) { r.Host = "127.0.0.1.evil.example:" + r.URL.Port() }, 403},
		{"allowed name", open, func(r *http.Request) { r.Host = "GPU-7.example:8080" }, 200},
		{"name of the certificate without a token", open, func(r *http.Request) { r.Host = host }, 403},
		{"name of the certificate with the token", guarded, func(r *http.Request) { r.Host = host }, 200},
		{"another name with the token", guarded, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"without the token", guarded, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"with another token", guarded, func(r *http.Request) { r.Header.Set("Authorization", "Bearer 0123456789abcdeg") }, 401},
		{"token as basic", guarded, func(r *http.Request) { r.SetBasicAuth("", "0123456789abcdef") }, 401},
		{"another site's page", open, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"a page from a file", open, func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"another port's page", open, func(r *http.Request) { r.Header.Set("Origin", "https://127.0.0.1:1") }, 403},
		{"plain HTTP's page", open, func(r *http.Request) { r.Header.Set("Origin", "http://"+r.URL.Host) }, 403},
		{"its own page", open, func(r *http.Request) { r.Header.Set("Origin", "https://"+r.URL.Host) }, 200},
		{"two origins", open, func(r *http.Request) { r.Header["Origin"] = []string{"https://" + r.URL.Host, "https://evil.example"} }, 403},
		{"an image on another site", open, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"a link on another site", open, func(r *http.Request) { navigate(r) }, 403},
		{"a link on another site to the page", open, func(r *http.Request) { navigate(r); r.URL.Path = "/" }, 200},
		{"the page without the token", guarded, func(r *http.Request) { navigate(r); r.URL.Path = "/"; r.Header.Del("Authorization") }, 200},
		{"the page by the name of the certificate", guarded, func(r *http.Request) { r.Host = host; r.URL.Path = "/"; r.Header.Del("Authorization") }, 200},
		{"the page by a rebound name", open, func(r *http.Request) { r.Host = "evil.example"; r.URL.Path = "/" }, 403},
		{"the page as part of another", open, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site"); r.URL.Path = "/" }, 403},
		{"another site's page with the token", guarded, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, text := tt.s.ask("GET", "/api/v1/time", "", tt.change)
			if status != tt.want || status != 200 && !strings.Contains(text, `"error"`) {
				t.Errorf("got %d %s, want %d", status, text, tt.want)
			}
		})
	}
}

// navigate turns r into the request for a link on another site.
func navigate(r *http.Request) {
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
}

// The server uses TLS 1.3 with a P-256 key valid for 24 hours, or the user's own certificate.
func TestDashboardCertificate(t *testing.T) {
	db := testDB(t)
	s := serve(t, db, atTheEnd, nil, "--addr", ":0")
	address := strings.TrimPrefix(s.url, "https://")
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	state := c.ConnectionState()
	_ = c.Close()
	leaf := state.PeerCertificates[0]
	if state.Version != tls.VersionTLS13 || leaf.PublicKeyAlgorithm != x509.ECDSA || leaf.NotAfter.Sub(leaf.NotBefore) != 24*time.Hour {
		t.Errorf("TLS %x, %s, for %s", state.Version, leaf.PublicKeyAlgorithm, leaf.NotAfter.Sub(leaf.NotBefore))
	}
	if c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		_ = c.Close()
		t.Error("it speaks TLS 1.2")
	}
	plain := serve(t, db, atTheEnd, nil, "--addr", ":0", "--no-tls")
	if status, _ := plain.ask("GET", "/api/v1/time", "", nil); status != 200 || !strings.HasPrefix(plain.url, "http://") {
		t.Errorf("%s: %d", plain.url, status)
	}
}

// A growing recording is served while it grows.
func TestDashboardWhileItRecords(t *testing.T) {
	testkit.LeakCheck(t)
	db := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(db, "gpu-7-one", "gpu-7", began)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, db, atTheEnd, nil, "--addr", ":0", "--no-tls")
	for n := range 3 {
		if err := x.second(); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`"calls":%d,`, 451*(n+1))
		if status, text := s.ask("GET", "/api/v1/overview", "", nil); status != 200 || !strings.Contains(text, want) || !strings.Contains(text, `"recording":true`) {
			t.Errorf("after %d s: %d %s", n+1, status, text)
		}
	}
	if err := x.end(); err != nil {
		t.Fatal(err)
	}
	if _, text := s.ask("GET", "/api/v1/overview", "", nil); !strings.Contains(text, `"recording":false`) {
		t.Errorf("at the end: %s", text)
	}
}
