package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"ingero/internal/testkit"
)

// Without --otlp, a trace opens no connection and no socket for one, whatever receivers the
// environment names.
func TestOTLPOff(t *testing.T) {
	b := newBench(t)
	var came atomic.Int64
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(net.Conn, http.ConnState) { came.Add(1) }
	s.Start()
	defer s.Close()
	b.env = append(b.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+s.URL, "http_proxy="+s.URL)
	target := b.train("--seconds", "60")
	c := b.ingero("trace", "--pid", pid(target), "--record=false")
	target.Send("go")
	b.tracing(1)
	at := b.tracing(1).Calls
	testkit.Eventually(t, "calls", func() bool { return b.tracing(1).Calls > at+1000 })
	fds := filepath.Join("/proc", pid(c), "fd")
	list, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range list {
		if to, _ := os.Readlink(filepath.Join(fds, fd.Name())); strings.HasPrefix(to, "socket:") && connected(t, c.PID(), to) {
			t.Errorf("file descriptor %s is %s", fd.Name(), to)
		}
	}
	c.Signal(syscall.SIGINT)
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("code %d:\n%s", code, stderr)
	}
	if n := came.Load(); n != 0 {
		t.Errorf("%d connections came", n)
	}
}

// connected reports whether a socket of a process is of TCP or UDP.
func connected(t *testing.T, pid int, link string) bool {
	t.Helper()
	inode := strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // the kernel lacks this protocol
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if f := strings.Fields(line); len(f) > 9 && f[9] == inode {
				return true
			}
		}
	}
	return false
}

// An unresponsive or unreachable receiver does not block a trace. All calls are counted, the trace
// ends in time, and status and the final lines report what was not delivered.
func TestOTLPAway(t *testing.T) {
	b := newBench(t)
	over := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-over:
		case <-q.Context().Done():
		}
	}))
	defer hangs.Close()
	defer close(over)
	for _, tt := range []struct{ name, at, problem string }{
		{"hangs", strings.TrimPrefix(hangs.URL, "http://"), "no answer in time"},
		{"away", "127.0.0.1:" + testkit.FreePort(t), "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := b.train("--seconds", "60")
			b.env = append(b.env, "OTEL_EXPORTER_OTLP_TIMEOUT=300")
			c := b.ingero("trace", "--pid", pid(target), "--record=false", "--json", "--otlp", tt.at, "--otlp-traces", "all")
			target.Send("go")
			at := b.tracing(1).Calls
			testkit.Eventually(t, "a problem", func() bool {
				s := b.tracing(1)
				return len(s.Exports) == 3 && strings.Contains(s.Exports[1].Problem, tt.problem) && s.Calls > at+1000
			})
			if s := b.tracing(1); s.Drops["ring-full"] > 0 || len(s.Problems) > 0 {
				t.Errorf("drops %v, problems %v", s.Drops, s.Problems)
			}
			stdout, _, code := b.output("status")
			if code != 0 || !strings.Contains(stdout, "otlp traces to http://"+tt.at+": 0 sent") || !strings.Contains(stdout, tt.problem) {
				t.Errorf("status: code %d\n%s", code, stdout)
			}
			c.Signal(syscall.SIGINT)
			_, stderr, code := finish(t, c)
			if code != 0 || !strings.Contains(stderr, "not delivered") {
				t.Errorf("code %d:\n%s", code, stderr)
			}
		})
	}
}

// Invalid --otlp settings are reported before anything starts.
func TestOTLPUsage(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--otlp", "ftp://x"}, "http:// or https://"},
		{[]string{"--otlp", "x", "--otlp-traces", "some"}, "all, notable, off"},
		{[]string{"--otlp", "x", "--otlp-headers-file", "/nowhere"}, "--otlp-headers-file"},
		{[]string{"--otlp", "x", "--otlp-ca-file", "/nowhere"}, "--otlp-ca-file"},
	} {
		stdout, stderr, code := b.output(append(append([]string{"run", "--record=false"}, tt.args...), "--", "echo", "ran")...)
		if code != exitUsage || !strings.Contains(stderr, tt.says) || stdout != "" {
			t.Errorf("%v: code %d, %s%s", tt.args, code, stdout, stderr)
		}
	}
}
