package inference

import (
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

const asServer = "INGERO_TEST_INFERENCE_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		serveInNamespace()
		return
	}
	os.Exit(m.Run())
}

// delays is the clock of a reader: it hands out the delays, and the test ends them.
type delays chan delay

type delay struct {
	time.Duration
	end chan time.Time
}

func (d delays) after(wait time.Duration) <-chan time.Time {
	x := delay{wait, make(chan time.Time, 1)}
	d <- x
	return x.end
}

// start runs a reader until the test ends.
func start(t *testing.T, o Options) (*Reader, delays) {
	t.Helper()
	testkit.LeakCheck(t)
	d := make(delays, 100)
	o.After = d.after
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r, d
}

// own returns this process as a server at an address.
func own(command, url string) []tick.Process {
	return []tick.Process{{PID: uint32(os.Getpid()), PPID: 1, Where: tick.Where{Cmdline: command + " --port " + url[strings.LastIndex(url, ":")+1:]}}}
}

// A server is read at once, and again after a while. The second read has the growth.
func TestReader(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/metrics" || r.Header.Get("Authorization") != "" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		n := int(requests.Add(1))
		fmt.Fprint(w, vllmText(n, 100*n, 10*n, n))
	}))
	defer server.Close()
	now := time.Unix(1000, 0)
	r, clock := start(t, Options{Now: func() time.Time { return now }})
	processes := own("vllm serve Qwen/Qwen2.5-7B", server.URL)
	r.See(processes, nil)
	wait := testkit.Receive(t, "first read", clock)
	first := r.Take()
	now = now.Add(5 * time.Second)
	wait.end <- now
	testkit.Receive(t, "second read", clock)
	second := r.Take()
	if len(first) != 1 || len(second) != 1 || wait.Duration != 5*time.Second {
		t.Fatalf("%d and %d reads, %s apart", len(first), len(second), wait.Duration)
	}
	url := "http://localhost" + server.URL[strings.LastIndex(server.URL, ":"):] + "/metrics"
	one, two, tokens := 1.0, 2.0, 100.0
	same := tick.Inference{Time: time.Unix(1000, 0), PID: processes[0].PID, Engine: "vLLM", Model: "Qwen/Qwen2.5-7B", URL: url, Running: &one}
	if d := diff.Diff(same, first[0]); d != "" {
		t.Errorf("first read (-want +got):\n%s", d)
	}
	same.Time, same.Since, same.Running, same.GeneratedTokens = now, same.Time, &two, &tokens
	same.FirstToken = &tick.Durations{Count: 11, Sum: 11, Buckets: []tick.DurationBucket{{UpTo: 0.1, Count: 10}, {Over: 0.1, UpTo: 0.5, Count: 1}}}
	if d := diff.Diff(same, second[0]); d != "" {
		t.Errorf("second read (-want +got):\n%s", d)
	}
}

// endpoint is a server that cannot be read.
type endpoint struct {
	serve   http.HandlerFunc
	limit   time.Duration // of a read; 0: an hour
	command string        // "": vLLM's
	why, do string
}

const (
	hasNoStats = "start vLLM without --disable-log-stats"
	tooSlow    = "the server did not answer completely within 50ms"
)

// check reads the server, and compares the reason and the remedy.
func (c *endpoint) check(t *testing.T) {
	server := httptest.NewServer(c.serve)
	defer server.Close()
	r, clock := start(t, Options{Timeout: cmp.Or(c.limit, time.Hour)})
	r.See(own(cmp.Or(c.command, "vllm serve m"), server.URL), nil)
	testkit.Receive(t, "read", clock)
	reads := r.Take()
	if len(reads) != 1 || reads[0].Why != c.why || reads[0].Do != c.do || reads[0].Running != nil {
		t.Errorf("got %+v, want why %q, do %q", reads, c.why, c.do)
	}
}

// send writes the text again and again until the client has gone.
func send(w http.ResponseWriter, text string) {
	for _, err := fmt.Fprint(w, text); err == nil; _, err = fmt.Fprint(w, strings.Repeat(text, 1000)) {
	}
}

// A hostile server takes little time and memory, delays nobody, and makes ingero connect to no
// other host.
func TestHostileEndpoints(t *testing.T) {
	for name, c := range map[string]endpoint{
		"endless body": {why: errTooLong.Error(), serve: func(w http.ResponseWriter, r *http.Request) { send(w, "x 1\n") }},
		"endless line": {why: errNotText.Error(), do: hasNoStats, serve: func(w http.ResponseWriter, r *http.Request) { send(w, "x") }},
		"gzip bomb": {why: errCompressed.Error(), serve: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 64<<20))
			_ = z.Close()
		}},
		"slow": {why: tooSlow, limit: 50 * time.Millisecond, serve: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "vllm:num")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
		"silent": {why: tooSlow, limit: 50 * time.Millisecond, serve: func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"redirect": {why: "the server answered with HTTP status 302", serve: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}},
		"large header": {why: "the server does not answer with HTTP",
			serve: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }},
		"another protocol": {why: "the server does not answer with HTTP", serve: func(w http.ResponseWriter, r *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_, _ = conn.Write([]byte("ERR unknown command\r\n"))
				_ = conn.Close()
			}
		}},
	} {
		t.Run(name, c.check)
	}
}

// A server without metrics says why, with the remedy for this server.
func TestRemedies(t *testing.T) {
	answer := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
	}
	for name, c := range map[string]endpoint{
		"garbage":    {why: errNotText.Error(), do: hasNoStats, serve: answer(200, "vllm:num_requests_running one\n")},
		"no metrics": {why: errNoMetrics.Error(), do: hasNoStats, serve: answer(200, "python_info 1\n")},
		"not found": {command: "python3 -m sglang.launch_server --model-path m", serve: answer(404, ""),
			why: "the server answered with HTTP status 404: it does not serve metrics", do: "start SGLang with --enable-metrics"},
		"not supported": {command: "llama-server -m m.gguf", serve: answer(501, ""),
			why: "the server answered with HTTP status 501: it does not serve metrics", do: "start llama-server with --metrics"},
		"key": {why: "the server answered with HTTP status 401: it requires a key, and ingero sends none", serve: answer(401, "")},
	} {
		t.Run(name, c.check)
	}
}

// A server that nobody can reach is tried less and less often, and again normally once it answers.
func TestUnreachableServerIsTriedLess(t *testing.T) {
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, vllmText(1, 1, 1, 1))
	}))
	defer server.Close()
	r, clock := start(t, Options{})
	r.See(own("vllm serve m", server.URL), nil)
	for i, want := range []time.Duration{5, 10, 20, 40, 60, 60, 5} {
		want *= time.Second
		wait := testkit.Receive(t, "try", clock)
		if wait.Duration < want*4/5 || wait.Duration > want*6/5 {
			t.Errorf("try %d is followed by a delay of %s, want %s plus or minus a fifth", i, wait.Duration, want)
		}
		if i == 5 {
			up.Store(true)
		}
		wait.end <- time.Time{}
	}
}

// After a failed read, the growth is since the last successful one. A server that was restarted meanwhile
// has no growth, also of counters that have overtaken their earlier values.
func TestGrowthAfterFailedRead(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) {
		case 1:
			fmt.Fprint(w, vllmText(1, 100, 10, 1))
		case 3:
			fmt.Fprint(w, vllmText(1, 350, 10, 1))
		case 5:
			fmt.Fprint(w, vllmText(1, 400, 2, 0)) // fewer requests
		case 6:
			fmt.Fprint(w, vllmText(1, 410, 2, 0))
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	now := time.Unix(1000, 0)
	r, clock := start(t, Options{Now: func() time.Time { return now }})
	r.See(own("vllm serve m", server.URL), nil)
	for i, want := range []struct {
		since  int64 // s; 0: none
		tokens float64
		failed bool
	}{{}, {failed: true}, {1000, 250, false}, {failed: true}, {}, {1040, 10, false}} {
		wait := testkit.Receive(t, "read", clock)
		x := r.Take()[0]
		switch {
		case x.Why != "" != want.failed:
			t.Errorf("read %d: why %q", i, x.Why)
		case want.since == 0 && (!x.Since.IsZero() || x.GeneratedTokens != nil || x.FirstToken != nil):
			t.Errorf("read %d has growth: %+v", i, x)
		case want.since != 0 && (x.Since.Unix() != want.since || x.GeneratedTokens == nil || *x.GeneratedTokens != want.tokens):
			t.Errorf("read %d: %+v, want %v tokens since %d", i, x, want.tokens, want.since)
		}
		now = now.Add(10 * time.Second)
		wait.end <- now
	}
}

// A read of a server that ends is given up.
func TestEndedServer(t *testing.T) {
	asked, gone := make(chan bool), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		<-r.Context().Done()
		gone <- true
	}))
	defer server.Close()
	now := time.Unix(1000, 0)
	r, _ := start(t, Options{Timeout: time.Hour, Now: func() time.Time { return now }})
	r.See(own("vllm serve m", server.URL), nil)
	testkit.Receive(t, "request", asked)
	now = now.Add(time.Minute)
	r.See(nil, nil)
	testkit.Receive(t, "end of the request", gone)
	if got := r.Take(); len(got) != 0 {
		t.Errorf("%d reads", len(got))
	}
}

// A server that has ended and is still listed is not read, and no reason is given.
func TestServerIsGone(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{After: func(time.Duration) <-chan time.Time { t.Error("it is read again"); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	r.watch(t.Context(), target{pid: uint32(cmd.Process.Pid), engine: "vLLM", url: "http://localhost:1/metrics", namespace: uint32(cmd.Process.Pid)})
	if got := r.Take(); len(got) != 0 {
		t.Errorf("%d reads", len(got))
	}
}

// Reads that nobody takes are bounded.
func TestReadsAreBounded(t *testing.T) {
	r, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxReads {
		r.put(&tick.Inference{PID: uint32(i)})
	}
	if got := r.Take(); len(got) != maxReads || got[maxReads-1].PID != 2*maxReads-1 {
		t.Errorf("%d reads", len(got))
	}
}

// A server in another network namespace is read there, whatever listens here.
func TestServerInAnotherNamespace(t *testing.T) {
	testkit.NeedRoot(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asServer+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	child := testkit.Start(t, cmd)
	port := strings.TrimPrefix(child.Line("port "), "port ")
	r, clock := start(t, Options{})
	process := tick.Process{PID: uint32(child.PID()), PPID: 1, Where: tick.Where{Cmdline: "vllm serve m --port " + port}}
	r.See([]tick.Process{process}, nil)
	testkit.Receive(t, "read", clock)
	if reads := r.Take(); len(reads) != 1 || reads[0].Why != "" || *reads[0].Running != 42 {
		t.Errorf("got %+v", reads)
	}
}

// serveInNamespace serves metrics on the loopback address of its own network namespace.
func serveInNamespace() {
	check(testkit.LoopbackUp())
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	check(err)
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	check(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, vllmText(42, 1, 1, 1)) })))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Reads have the times of a session's clock, without a monotonic reading: a step of the wall clock does
// not move them apart from calls.
func TestClockOfReads(t *testing.T) {
	r, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if at := r.o.Now(); at != at.Round(0) {
		t.Errorf("%v has a monotonic reading", at)
	}
}
