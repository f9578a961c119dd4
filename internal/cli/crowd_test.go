package cli

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/testkit"
)

// asker is a server and a request that it answers.
type asker struct {
	*served
	method, path, body string
}

// askers returns one server of each kind, with a request that it answers.
func askers(t *testing.T, db string) map[string]asker {
	return map[string]asker{
		"dashboard":       {serveBy(t, "dashboard", db, atTheEnd, nil, "--addr", ":0"), "GET", "/api/v1/overview", ""},
		"dashboard, bare": {serveBy(t, "dashboard", db, atTheEnd, nil, "--addr", ":0", "--no-tls"), "POST", "/api/v1/query", `{"sql":"SELECT 1"}`},
		"mcp":             {serveBy(t, "mcp", db, atTheEnd, nil, "--http", ":0"), "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`},
	}
}

// answers sends the request and returns the status and the body.
func (a *asker) answers(change func(*http.Request)) (int, string) {
	a.t.Helper()
	return a.ask(a.method, a.path, a.body, func(r *http.Request) {
		r.Header.Set("Accept", "application/json, text/event-stream")
		if change != nil {
			change(r)
		}
	})
}

// dial opens a connection to a server and completes its handshake.
func (s *served) dial() (net.Conn, error) {
	_, address, _ := strings.Cut(s.url, "://")
	if strings.HasPrefix(s.url, "https") {
		return tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	}
	return net.Dial("tcp", address)
}

// crowd opens n connections that begin a request and do not end it. left counts those that the
// server has closed.
func (s *served) crowd(n int) (left *atomic.Int64) {
	s.t.Helper()
	left = &atomic.Int64{}
	_, address, _ := strings.Cut(s.url, "://")
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "GET /api/v1/time HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") // a bad handshake for TLS
		go func() {
			_, _ = io.Copy(io.Discard, c)
			left.Add(1)
		}()
	}
	return left
}

// With 1,000 clients that send nothing or half a request, a server keeps few connections, closes
// those too, and answers other clients meanwhile.
func TestCrowds(t *testing.T) {
	t.Parallel() // it waits for the servers' time limits; TestHugeRequests checks for leaks
	for name, a := range askers(t, testDB(t)) {
		t.Run(name, func(t *testing.T) {
			left := a.crowd(1000)
			if status, text := a.answers(nil); status != 200 {
				t.Errorf("beside them: %d %.200s", status, text)
			}
			testkit.Eventually(t, "all but 64 are left", func() bool { return left.Load() >= 1000-64 })
			testkit.Eventually(t, "all are left", func() bool { return left.Load() == 1000 })
			if status, _ := a.answers(nil); status != 200 {
				t.Errorf("after them: %d", status)
			}
		})
	}
}

// endless is a body that never ends; n counts the bytes read.
type endless struct{ n atomic.Int64 }

// Read fills p.
func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.n.Add(int64(len(p)))
	return len(p), nil
}

// A server gives up endless bodies, long headers and answers that nobody reads.
func TestHugeRequests(t *testing.T) {
	testkit.LeakCheck(t)
	for name, a := range askers(t, testDB(t)) {
		t.Run(name, func(t *testing.T) {
			var body endless
			method, path := "POST", a.path
			if a.method == "GET" {
				path = "/api/v1/query"
			}
			r, err := http.NewRequest(method, a.url+path, &body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			res, err := a.client.Do(r)
			switch {
			case err == nil:
				_ = res.Body.Close()
				if res.StatusCode != http.StatusRequestEntityTooLarge {
					t.Errorf("a body without end: %d", res.StatusCode)
				}
			case !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF):
				t.Errorf("a body without end: %v", err)
			}
			if n := body.n.Load(); n > 16<<20 {
				t.Errorf("it took %d bytes", n)
			}
			c, err := a.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if text, _ := io.ReadAll(c); !strings.Contains(string(text), " 431 ") {
				t.Errorf("a long head: %.100q", text)
			}
			if status, _ := a.answers(nil); status != 200 {
				t.Errorf("after it: %d", status)
			}
		})
	}
}

// Pages of other sites and DNS rebinding get no answers meant for assistants or machines.
func TestBrowsersAreKeptOut(t *testing.T) {
	testkit.LeakCheck(t)
	for name, a := range askers(t, testDB(t)) {
		for _, tt := range []struct {
			name   string
			change func(*http.Request)
			want   int
		}{
			{"no browser", nil, 200},
			{"a rebound name", func(r *http.Request) { r.Host = "evil.example" }, 403},
			{"a rebound name with a port", func(r *http.Request) { r.Host = "evil.example:8080" }, 403},
			{"a name that begins as an address", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, 403},
			{"no name", func(r *http.Request) { r.Host = "." }, 403},
			{"another site", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
			{"a file", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
			{"another port", func(r *http.Request) { r.Header.Set("Origin", "https://localhost:1") }, 403},
			{"a form or an image of another site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
			{"a sister site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
			{"a link on another site", navigate, 403},
		} {
			if status, text := a.answers(tt.change); status != tt.want || status != 200 && strings.Contains(text, "train.py") {
				t.Errorf("%s, %s: %d %.200s, want %d", name, tt.name, status, text, tt.want)
			}
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} { // the types that forms can send
			if a.method != "POST" {
				break
			}
			if status, text := a.answers(func(r *http.Request) { r.Header.Set("Content-Type", kind) }); status != http.StatusUnsupportedMediaType {
				t.Errorf("%s, %s: %d %.200s", name, kind, status, text)
			}
		}
	}
}

// A trace loses no records while crowds, huge bodies and expensive requests load the servers that
// read its recording.
func TestTraceBesideCrowds(t *testing.T) {
	b := newBench(t)
	target := b.train("--steps", "400")
	// The ring buffer holds all records, however late the trace reads them.
	trace := b.ingero("trace", "--max-overhead", "0", "--ringbuf-size", "64MiB", "--pid", pid(target))
	b.tracing(1)
	now := time.Now
	servers := []asker{{serveBy(t, "dashboard", b.db(), now, nil, "--addr", ":0", "--no-tls"), "POST", "/api/v1/query", `{"sql":"SELECT op, count(*) FROM events GROUP BY op","timeout_ms":2000}`},
		{serveBy(t, "mcp", b.db(), now, nil, "--http", ":0"), "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`}}
	target.Send("go")
	var asked int
	for i := range servers {
		servers[i].crowd(1000)
	}
	for asked == 0 || !strings.Contains(target.Stdout(), "}") { // until it prints its counts
		for i := range servers {
			if status, text := servers[i].answers(nil); status == 200 {
				asked++
			} else if status != http.StatusNotFound && status != http.StatusUnprocessableEntity && status != http.StatusServiceUnavailable {
				t.Fatalf("%s: %d %.300s", servers[i].path, status, text)
			}
		}
	}
	want := counts(t, target)
	stdout, stderr, code := finish(t, trace)
	if code != 0 || !strings.Contains(stdout+stderr, ", 0 lost") {
		t.Errorf("code %d, %d questions answered: %s", code, asked, stdout+stderr)
	}
	r, err := query.Open(t.Context(), b.db())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	sum, err := r.Summary(t.Context(), query.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for i := range sum.Ops {
		got[sum.Ops[i].Op.String()] += sum.Ops[i].Sum.Calls
	}
	for op, n := range want {
		if got[op] != n {
			t.Errorf("%s: %d calls, want %d; the trace said %s%s", op, got[op], n, stdout, stderr)
		}
	}
}
