package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"ingero/internal/testkit"
)

// jaegerSpan is a span as Jaeger's API has it.
type jaegerSpan struct {
	TraceID, SpanID, OperationName string
	Duration                       int64 // us
	References                     []jaegerLink
	Tags                           []struct {
		Key   string
		Value any
	}
}

type jaegerLink struct{ RefType, TraceID, SpanID string }

func (s *jaegerSpan) tag(key string) any {
	for _, t := range s.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return nil
}

// jaegerSpans returns all that Jaeger has of a service.
func jaegerSpans(t *testing.T, j *testkit.JaegerServer, service string) (out []jaegerSpan) {
	t.Helper()
	code, body := get(t, j.API+"/api/traces?limit=10000&lookback=1h&service="+url.QueryEscape(service))
	var answer struct {
		Data []struct{ Spans []jaegerSpan }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusOK {
		t.Fatalf("%d, %v: %.200s", code, err, body)
	}
	for i := range answer.Data {
		out = append(out, answer.Data[i].Spans...)
	}
	return out
}

// With --otlp-traces all every driver call is a span in a real Jaeger, whatever the
// protocol: as many as the program counts itself; what failed is an error, and of frees
// that came twice and memory that ran out it says so. Metrics and logs arrive, too.
func TestOTLPJaeger(t *testing.T) {
	b := newBench(t)
	j := testkit.Jaeger(t)
	for _, tt := range []struct{ protocol, at string }{{"http/protobuf", j.HTTP}, {"http/json", j.HTTP}, {"grpc", j.GRPC}} {
		t.Run(tt.protocol, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "adv-"+strings.ReplaceAll(tt.protocol, "/", "-")) // the service
			copyProgram(t, b.stack.Program("advanced"), program)
			stdout, stderr, code := b.output("run", "--otlp", tt.at, "--otlp-protocol", tt.protocol, "--otlp-traces", "all", "--record=false", "--",
				"env", "LD_LIBRARY_PATH="+b.stack.Dir, program, "--rounds", "3", "--module", filepath.Join(b.stack.Dir, "vecAdd.cubin"))
			if code != 0 || !strings.Contains(stderr, "OTLP: metrics, traces, logs to http://"+tt.at+" ("+tt.protocol+")") {
				t.Fatalf("code %d:\n%s", code, stderr)
			}
			var counts struct{ Calls, Failed map[string]int }
			if err := json.Unmarshal([]byte(stdout), &counts); err != nil {
				t.Fatalf("%v: %s", err, stdout)
			}
			all := jaegerSpans(t, j, filepath.Base(program)[:min(15, len(filepath.Base(program)))])
			got, failed, doubles, memory, linked := map[string]int{}, map[string]int{}, 0, 0, 0
			ids := map[string]bool{}
			for i := range all {
				ids[all[i].SpanID] = true
			}
			for i := range all {
				s := &all[i]
				if strings.HasPrefix(s.OperationName, "chain ") && slices.ContainsFunc(s.References, func(r jaegerLink) bool { return ids[r.SpanID] }) {
					linked++
				}
				got[s.OperationName]++
				if s.tag("error") == true {
					failed[s.OperationName]++
				}
				if s.tag("ingero.double_free") == true && s.tag("otel.status_description") == "double free: CUDA_ERROR_INVALID_VALUE" {
					doubles++
				}
				if name := s.tag("gpu.cuda.kernel.name"); s.OperationName == "cuLaunchKernel" && s.tag("error") != true && name != "vecAdd" {
					t.Errorf("a launch is of %v", name)
				}
				if s.OperationName == "cuMemAlloc" && s.tag("error.type") == "CUDA_ERROR_OUT_OF_MEMORY" {
					memory++
				}
			}
			for symbol, n := range counts.Calls {
				name := strings.TrimSuffix(symbol, "_v2")
				if got[name] != n && got[name] != 0 || got[name] == 0 && slices.Contains([]string{"cuMemAlloc", "cuMemFree", "cuLaunchKernel", "cuMemcpyHtoD"}, name) {
					t.Errorf("%d spans of %s, want %d", got[name], name, n)
				}
				if got[name] > 0 && failed[name] != counts.Failed[symbol] {
					t.Errorf("%d errors of %s, want %d", failed[name], name, counts.Failed[symbol])
				}
			}
			if doubles != 1 || memory != 1 || linked == 0 {
				t.Errorf("%d double frees and %d times out of memory, want 1 and 1; %d chains with their evidence", doubles, memory, linked)
			}
		})
	}
	for _, what := range []string{"ingero.chain_begin", "Name: gpu.cuda.operation.duration", "DataType: ExponentialHistogram", "Name: system.cpu.utilization"} {
		testkit.Eventually(t, what, func() bool { return strings.Contains(j.Stderr(), what) })
	}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A call of the runtime is the parent of the driver's inside it.
func TestOTLPNesting(t *testing.T) {
	b := newBench(t)
	j := testkit.Jaeger(t)
	_, stderr, code := b.output("run", "--otlp", j.HTTP, "--record=false", "--", b.stack.Program("train"), "--steps", "60")
	if code != 0 {
		t.Fatalf("code %d:\n%s", code, stderr)
	}
	all := jaegerSpans(t, j, "train")
	byID := map[string]*jaegerSpan{}
	for i := range all {
		byID[all[i].SpanID] = &all[i]
	}
	nested := 0
	for i := range all {
		s := &all[i]
		for _, r := range s.References {
			p := byID[r.SpanID]
			if strings.HasPrefix(s.OperationName, "chain ") {
				continue
			}
			if r.RefType != "CHILD_OF" || p == nil || p.TraceID != s.TraceID {
				t.Errorf("%s has a reference to %v", s.OperationName, r)
				continue
			}
			if strings.HasPrefix(s.OperationName, "cu") && strings.HasPrefix(p.OperationName, "cuda") {
				nested++
			}
		}
	}
	if nested == 0 || len(all) > 1000 {
		t.Errorf("%d spans, %d of the driver inside one of the runtime", len(all), nested)
	}
}

// A call of a Python program has the line that it was made from.
func TestOTLPPython(t *testing.T) {
	b := newBench(t)
	python := testkit.NeedPython(t, "3.11")
	j := testkit.Jaeger(t)
	_, stderr, code := b.output("run", "--otlp", j.HTTP, "--otlp-traces", "all", "--stack=all", "--record=false", "--", python, filepath.Join(b.stack.Dir, "train.py"), "--steps", "5")
	if code != 0 {
		t.Fatalf("code %d:\n%s", code, stderr)
	}
	lines := map[string]int{}
	all := jaegerSpans(t, j, filepath.Base(python))
	for i := range all {
		if s := &all[i]; s.OperationName == "cudaLaunchKernel" {
			file, _ := s.tag("code.file.path").(string)
			lines[fmt.Sprintf("%s:%v %v", filepath.Base(file), s.tag("code.line.number"), s.tag("code.function.name"))]++
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no launch among %d spans:\n%s", len(all), stderr)
	}
	for at := range lines {
		if !strings.Contains(at, ".py:") || strings.Contains(at, "nil") {
			t.Errorf("launches are from %v", lines)
		}
	}
}

// Without --otlp no connection is opened, whatever the environment says of receivers, and
// no socket is there that could make one.
func TestOTLPOff(t *testing.T) {
	b := newBench(t)
	var came atomic.Int64
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(net.Conn, http.ConnState) { came.Add(1) }
	s.Start()
	defer s.Close()
	b.env = append(b.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+s.URL, "http_proxy="+s.URL)
	target := b.train("--seconds", "60", "--kernel-us", "1")
	c := b.ingero("trace", "--pid", pid(target), "--record=false")
	target.Say("go")
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

// connected tells whether a socket of a process is of TCP or UDP.
func connected(t *testing.T, pid int, link string) bool {
	t.Helper()
	inode := strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // there is no such protocol
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if f := strings.Fields(line); len(f) > 9 && f[9] == inode {
				return true
			}
		}
	}
	return false
}

// A receiver that hangs or is away does not hold up a trace: calls are all counted, it
// ends in time, and what was not delivered is told by status and at the end.
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
			target := b.train("--seconds", "60", "--kernel-us", "1")
			b.env = append(b.env, "OTEL_EXPORTER_OTLP_TIMEOUT=300")
			c := b.ingero("trace", "--pid", pid(target), "--record=false", "--json", "--otlp", tt.at, "--otlp-traces", "all")
			target.Say("go")
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

// What --otlp cannot be is told before anything runs.
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

// The configuration in deploy/otel is one that a collector takes.
func TestCollectorConfig(t *testing.T) {
	root, err := testkit.Repository()
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.JaegerValidate(t, filepath.Join(root, "deploy", "otel", "collector.yaml")); err != nil {
		t.Error(err)
	}
}
