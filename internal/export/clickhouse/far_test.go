package clickhouse_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/testkit"
)

// far is a fake server.
type far struct {
	mu     sync.Mutex
	bodies [][sha256.Size]byte // bodies of inserts, in order
	asked  int
	hangs  bool
	insert func(n int, w http.ResponseWriter)
	ask    func(w http.ResponseWriter)
}

func (f *far) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	if f.hangs {
		<-q.Context().Done()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.URL.Query().Get("query") == "" {
		if f.asked++; f.ask != nil {
			f.ask(w)
		}
		return
	}
	f.bodies = append(f.bodies, sha256.Sum256(b))
	if f.insert != nil {
		f.insert(len(f.bodies), w)
	}
}

func (f *far) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "://", "://reader:hunter2@", 1)
}

// drop ends a connection without an answer.
func drop(w http.ResponseWriter) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = c.Close()
	}
}

func says(code int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// hurried are options with short times.
var hurried = clickhouse.Options{Backoff: time.Millisecond, Most: 5 * time.Millisecond, Timeout: 20 * time.Second, GiveUp: 200 * time.Millisecond}

func short(t *testing.T) *query.Reader {
	t.Helper()
	w := newRecorder(t, "short")
	w.record(1000)
	return w.whole()
}

// badServer is an unusable server, with the expected error.
type badServer struct {
	far     *far // nil: there is none
	want    string
	refused bool
}

func badServers() map[string]badServer {
	endless := func(w http.ResponseWriter) {
		for range 65 << 4 {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}
	inserted := func(f func(http.ResponseWriter)) func(int, http.ResponseWriter) {
		return func(_ int, w http.ResponseWriter) { f(w) }
	}
	return map[string]badServer{
		"away":           {nil, "connection refused", false},
		"hangs":          {&far{hangs: true}, "deadline", false},
		"no table":       {&far{ask: says(404, "Code: 60, e.displayText() = DB::Exception: Table ingero.calls doesn't exist.")}, "doesn't exist", true},
		"no permission":  {&far{ask: says(403, "no")}, "403", true},
		"moved":          {&far{ask: says(307, "")}, "307", true},
		"overloaded":     {&far{ask: says(500, "Code: 252, e.displayText() = Too many parts")}, "Too many parts", false},
		"proxy":          {&far{ask: says(502, "<html>")}, "502", false},
		"a lie":          {&far{ask: says(200, "welcome\tguest\n")}, "instead of a number", false},
		"half an answer": {&far{ask: says(200, "0\t1")}, "answered", false},
		"no answer":      {&far{insert: inserted(drop)}, "EOF", false},
		"another lie":    {&far{insert: inserted(says(200, "Code: 241. Memory limit"))}, "Memory limit", false},
		"without end":    {&far{insert: inserted(endless)}, "", false},
	}
}

// A permanent failure ends with an error that names the reason without the password; refused
// requests are not retried.
func TestBadServers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://reader:hunter2@" + l.Addr().String()
	_ = l.Close()
	for name, c := range badServers() {
		t.Run(name, func(t *testing.T) {
			address := away
			if c.far != nil {
				address = c.far.serve(t)
			}
			o := hurried
			switch name {
			case "hangs":
				o.Timeout = 50 * time.Millisecond
			case "without end":
				o.GiveUp = time.Millisecond
			}
			cl, err := clickhouse.Open(address, o)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			_, err = clickhouse.Copy(t.Context(), cl, short(t), query.Filter{Session: "short"}, nil)
			var no *clickhouse.Refused
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &no) != c.refused {
				t.Errorf("got %v", err)
			}
			if strings.Contains(fmt.Sprint(err, cl, cl.Problem()), "hunter2") {
				t.Errorf("the password is reported: %v, %v, %v", err, cl, cl.Problem())
			}
			if c.refused && c.far.asked != 1 {
				t.Errorf("it was asked %d times", c.far.asked)
			}
		})
	}
}

// A block whose answer was lost is sent again with the same bytes, even to the next server, so that
// a replicated table accepts it once.
func TestLostAnswers(t *testing.T) {
	bad := &far{insert: func(_ int, w http.ResponseWriter) { drop(w) }}
	good := &far{insert: func(n int, w http.ResponseWriter) {
		if n%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}}
	o := hurried
	o.GiveUp = time.Minute
	cl, err := clickhouse.Open(bad.serve(t)+","+good.serve(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	w := newRecorder(t, "lost")
	w.record(70_000) // two blocks
	res, err := clickhouse.Copy(t.Context(), cl, w.whole(), query.Filter{Session: "lost"}, nil)
	if err != nil || res.Calls != 70_000 || res.Rollups == 0 || res.Chains != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	for _, f := range []*far{bad, good} { // a handler may still be running
		f.mu.Lock()
		defer f.mu.Unlock()
	}
	if len(good.bodies) != 8 { // two of calls, one of rollups, one of chains: each refused once
		t.Fatalf("%d inserts", len(good.bodies))
	}
	for i := 0; i < len(good.bodies); i += 2 {
		if good.bodies[i] != good.bodies[i+1] {
			t.Errorf("block %d was not the same the second time", i/2)
		}
	}
	if d := cmp.Diff(good.bodies[0], bad.bodies[0]); d != "" {
		t.Error("the other server was sent something else")
	}
}

// An unreachable cluster does not delay the trace: unsent rows stay in the recording, the end takes
// bounded time, and the rest can be copied later.
func TestFollowAway(t *testing.T) {
	testkit.LeakCheck(t)
	var up atomic.Bool
	f := &far{insert: func(_ int, w http.ResponseWriter) {
		if !up.Load() {
			drop(w)
		}
	}}
	server := httptest.NewServer(f)
	defer server.Close()
	cl, err := clickhouse.Open(server.URL, hurried)
	if err != nil {
		t.Fatal(err)
	}
	w := newRecorder(t, "away")
	x := clickhouse.Follow(cl, clickhouse.FollowOptions{Path: w.path, Every: time.Millisecond, Grace: 50 * time.Millisecond,
		Mine: func(s *query.Session) bool { return s.ID == "away" }})
	for range 20 {
		w.record(2000)
		w.tick(false)
	}
	testkit.Eventually(t, "the problem to be reported", func() bool { return x.State().Problem != "" })
	r := w.whole()
	if err := x.Close(); err != nil { // it ends without an answer
		t.Error(err)
	}
	if s := x.State(); s.Complete || s.Calls != 0 || s.LostCalls != 0 {
		t.Errorf("%+v", s)
	}
	up.Store(true)
	again, err := clickhouse.Open(server.URL, hurried)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if res, err := clickhouse.Copy(t.Context(), again, r, query.Filter{Session: "away"}, nil); err != nil || res.Calls != 40_000 {
		t.Errorf("%+v, %v", res, err)
	}
	_ = r.Close()
}

// Errors about unusable addresses do not repeat them, and no connection is opened too early.
func TestOpen(t *testing.T) {
	for _, bad := range []string{"hidden:8123", "ftp://hidden", "http://", "http://a:8123,hidden", ""} {
		if _, err := clickhouse.Open(bad, clickhouse.Options{}); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	c, err := clickhouse.Open("http://u:hidden@a:8123/other, https://b", clickhouse.Options{})
	if err != nil || c.String() != "http://a:8123, https://b" {
		t.Errorf("%v, %v", c, err)
	}
}

// The files in deploy match the statements, and their columns match the rows.
func TestDDL(t *testing.T) {
	for name, modern := range map[string]bool{"cluster-18.16.sql": false, "cluster-modern.sql": true} {
		b, err := os.ReadFile("../../../deploy/clickhouse/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range clickhouse.DDL(modern) {
			if !strings.Contains(string(b), statement+";\n") {
				t.Errorf("%s lacks (go run ./tools/docs):\n%s", name, statement)
			}
		}
	}
}
