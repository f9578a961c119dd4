package prom

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"ingero/internal/listen"
	"ingero/internal/metric"
	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// epoch is now: Prometheus rejects exemplars of other times.
var epoch = time.Now()

// metrics are those of a one-second session with some processes.
func metrics(t *testing.T, processes int) *metric.Snapshot {
	t.Helper()
	m := metric.New(metric.Options{Version: "1.2.3", Node: "gpu-7"})
	op, _ := events.OpByName("cudaLaunchKernel")
	x := &tick.Tick{Time: epoch, Started: epoch.Add(-time.Second), Seq: 1}
	var b tick.Batch
	for i := range processes {
		pid := uint32(i + 1)
		var d stats.Sketch
		for j := range int64(100) {
			d.Add(1000*(j+1)*int64(pid), 1)
		}
		x.Processes = append(x.Processes, tick.Process{PID: pid, Comm: `a"b\c`, Started: epoch})
		x.Ops = append(x.Ops, tick.Op{PID: pid, Op: op, Sum: tick.Counts{Calls: 100, Done: 100}, Last: tick.Counts{Calls: 100, Done: 100}, Dur: &d, DurLast: &d})
		b.Calls = append(b.Calls, events.Call{PID: pid, TID: pid, Op: op, Duration: 100, OnCPU: 60, Runnable: 40, Weight: 1})
	}
	chain := tick.Chain{ID: "c-7f3a", Rule: "cpu-taken", PID: 1, Op: op, OpP99: 99 * time.Microsecond, To: epoch, Culprits: []tick.Culprit{{What: "hog"}}}
	x.Chains, x.Episodes = []tick.Chain{chain}, []tick.Episode{{Kind: tick.EpisodeBegin, ID: "c-7f3a/1", Severity: tick.High, Lost: time.Second, Chain: chain}}
	for range 2 { // exemplars need earlier chains
		if err := m.Batch(&b); err != nil {
			t.Fatal(err)
		}
		if err := m.Tick(x); err != nil {
			t.Fatal(err)
		}
		x.Seq++
		x.Episodes = nil
		for i := range x.Ops {
			x.Ops[i].Last, x.Ops[i].DurLast = tick.Counts{}, &stats.Sketch{}
		}
	}
	return m.Snapshot()
}

func serve(t *testing.T, address string, source func() *metric.Snapshot) *Server {
	t.Helper()
	testkit.LeakCheck(t)
	a, err := listen.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Listen(t.Context(), a, listen.Options{Public: true})
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, source, nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask sends a request on a connection of its own.
func ask(t *testing.T, s *Server, path, host, accept string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(s.URL(), "/metrics")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Accept", accept)
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

const (
	asText        = "text/plain"
	asOpenMetrics = "application/openmetrics-text; version=1.0.0"
	asProtobuf    = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)

// All formats have all metrics, and exemplars name the chain if the format has exemplars.
func TestFormats(t *testing.T) {
	now := metrics(t, 3)
	s := serve(t, ":0", func() *metric.Snapshot { return now })
	for name, accept := range map[string]string{"text": asText, "OpenMetrics": asOpenMetrics} {
		res, body := ask(t, s, "/metrics", "", accept)
		if !strings.HasPrefix(res.Header.Get("Content-Type"), strings.Split(accept, ";")[0]) {
			t.Errorf("%s: it is %s", name, res.Header.Get("Content-Type"))
		}
		for _, want := range []string{
			`gpu_cuda_operation_count_total{operation="cudaLaunchKernel",source="cudart"} 300`,
			`gpu_cuda_operation_duration_seconds_bucket{operation="cudaLaunchKernel",source="cudart",le="0.0001"}`,
			`gpu_cuda_operation_duration_seconds_count{operation="cudaLaunchKernel",source="cudart"} 300`,
			`process="a\"b\\c"`,
			`ingero_anomaly_count_total{rule="cpu-taken",severity="HIGH"} 1`,
		} {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		if got := strings.Contains(body, `# {chain="c-7f3a",rule="cpu-taken"}`); got != (accept == asOpenMetrics) {
			t.Errorf("%s: exemplars %v", name, got)
		}
	}
}

// In protobuf a histogram is both classic and native, of the same durations.
func TestNative(t *testing.T) {
	now := metrics(t, 2)
	s := serve(t, ":0", func() *metric.Snapshot { return now })
	res, body := ask(t, s, "/metrics", "", asProtobuf)
	d := expfmt.NewDecoder(strings.NewReader(body), expfmt.ResponseFormat(res.Header))
	for {
		var f dto.MetricFamily
		if err := d.Decode(&f); err != nil {
			t.Fatalf("no histogram: %v", err)
		}
		if f.GetName() != "gpu_cuda_operation_duration_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		var spans uint32
		for _, x := range h.GetPositiveSpan() {
			spans += x.GetLength()
		}
		native, at := uint64(0), int64(0)
		for _, x := range h.GetPositiveDelta() {
			if at += x; at < 0 {
				t.Errorf("a bucket has %d", at)
			}
			native += uint64(at)
		}
		if native != 200 || h.GetSampleCount() != 200 || h.GetSchema() != 4 || int(spans) != len(h.GetPositiveDelta()) || len(h.GetBucket()) != len(metric.Bounds) {
			t.Errorf("%d durations in native buckets of schema %d, %d in all, %d buckets in spans of %d", native, h.GetSchema(), h.GetSampleCount(), len(h.GetPositiveDelta()), spans)
		}
		if e := h.GetExemplars(); len(e) != 1 || e[0].GetLabel()[0].GetValue() != "c-7f3a" {
			t.Errorf("exemplars %v", e)
		}
		return
	}
}

// After a step of the wall clock, exemplars have its times: Prometheus rejects others.
func TestExemplarsAfterAClockStep(t *testing.T) {
	s := *metrics(t, 1)
	s.Ahead = time.Hour
	seen := 0
	for _, f := range families(&s) {
		for _, m := range f.GetMetric() {
			for _, e := range append(m.GetHistogram().GetExemplars(), m.GetCounter().GetExemplar()) {
				if e == nil {
					continue
				}
				if seen++; !e.GetTimestamp().AsTime().Equal(epoch.Add(time.Hour)) {
					t.Errorf("%s: an exemplar of %v, want %v", f.GetName(), e.GetTimestamp().AsTime(), epoch.Add(time.Hour))
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no exemplars")
	}
}

// Spans and differences encode the original buckets.
func TestSpans(t *testing.T) {
	for _, counts := range [][]uint64{{1}, {1, 0, 2}, {1, 0, 0, 3}, {1, 0, 0, 0, 4, 0, 5}, {7, 6, 5}} {
		for _, first := range []int32{-40, 0, 12} {
			var h dto.Histogram
			native(&h, &metric.Exponential{Scale: 7, First: first, Counts: counts})
			got := map[int32]uint64{}
			at, value, k := int32(0), int64(0), 0
			for _, x := range h.GetPositiveSpan() {
				at += x.GetOffset()
				for range x.GetLength() {
					value += h.GetPositiveDelta()[k]
					if value > 0 {
						got[at] = uint64(value)
					}
					at++
					k++
				}
			}
			for i, n := range counts {
				if got[first+int32(i)] != n {
					t.Errorf("%v from %d: bucket %d has %d", counts, first, i, got[first+int32(i)])
				}
			}
		}
	}
}

// A response is the last tick's, in the requested format, even if another format or a part was
// requested before.
func TestAnswers(t *testing.T) {
	var now atomic.Pointer[metric.Snapshot]
	s := serve(t, ":0", now.Load)
	for processes := 1; processes <= 2; processes++ {
		now.Store(metrics(t, processes))
		want := fmt.Sprintf(`gpu_cuda_operation_count_total{operation="cudaLaunchKernel",source="cudart"} %d`, 100*processes)
		for range 2 {
			for _, accept := range []string{asText, asOpenMetrics} {
				_, body := ask(t, s, "/metrics", "", accept)
				if !strings.Contains(body, want) || strings.HasSuffix(body, "# EOF\n") != (accept == asOpenMetrics) {
					t.Errorf("%d processes, %s: it lacks %s, or is of another form", processes, accept, want)
				}
			}
			if _, body := ask(t, s, "/metrics?name[]=gpu_cuda_operation_count_total", "", asText); strings.Count(body, "# TYPE") != 1 || !strings.Contains(body, want) {
				t.Errorf("of one metric: %s", body)
			}
		}
		for i := range 2 * mostPages {
			if _, body := ask(t, s, "/metrics", "", fmt.Sprintf("text/plain;q=0.%d", i+1)); !strings.Contains(body, want) {
				t.Errorf("asked in many ways: it lacks %s", want)
			}
		}
	}
}

// Health probes get the trace's state.
func TestHealth(t *testing.T) {
	var now atomic.Pointer[metric.Snapshot]
	s := serve(t, ":0", now.Load)
	for _, c := range []struct {
		name          string
		snapshot      *metric.Snapshot
		health, ready int
	}{
		{"not begun", nil, http.StatusOK, http.StatusServiceUnavailable},
		{"runs", &metric.Snapshot{Taken: time.Now()}, http.StatusOK, http.StatusOK},
		{"stands", &metric.Snapshot{Taken: time.Now().Add(-time.Minute)}, http.StatusServiceUnavailable, http.StatusOK},
	} {
		now.Store(c.snapshot)
		for path, want := range map[string]int{"/healthz": c.health, "/readyz": c.ready, "/metrics": http.StatusOK, "/": http.StatusOK, "/x": http.StatusNotFound} {
			if res, body := ask(t, s, path, "", asText); res.StatusCode != want {
				t.Errorf("%s, %s: %d %s, want %d", c.name, path, res.StatusCode, body, want)
			}
		}
	}
}

// While the trace waits for an output, it is healthy although no tick comes.
func TestHealthyWhileWaiting(t *testing.T) {
	now := time.Now()
	stale := &metric.Snapshot{Taken: now.Add(-time.Minute)}
	s := &Server{source: func() *metric.Snapshot { return stale }, now: func() time.Time { return now }}
	check := func(when string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		s.healthz(w, nil)
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", when, w.Code, w.Body, want)
		}
	}
	check("no ticks", http.StatusServiceUnavailable)
	s.Alive()
	check("waiting", http.StatusOK)
	now = now.Add(healthyFor)
	check("waiting until 10 s ago", http.StatusOK)
	now = now.Add(time.Nanosecond)
	check("waiting until more than 10 s ago", http.StatusServiceUnavailable)
}

// A request by a name for this machine's address is rejected.
func TestNames(t *testing.T) {
	now := metrics(t, 1)
	source := func() *metric.Snapshot { return now }
	local, all := serve(t, ":0", source), serve(t, "0.0.0.0:0", source)
	for host, want := range map[string]int{"": http.StatusOK, "localhost:9090": http.StatusOK, "evil.example": http.StatusForbidden} {
		if res, _ := ask(t, local, "/metrics", host, asText); res.StatusCode != want {
			t.Errorf("%q: %d, want %d", host, res.StatusCode, want)
		}
		if res, _ := ask(t, all, "/metrics", host, asText); res.StatusCode != http.StatusOK {
			t.Errorf("%q, of all addresses: %d", host, res.StatusCode)
		}
	}
}

// Clients that do not read or say nothing delay nobody, and Close does not wait for them.
func TestHangingReaders(t *testing.T) {
	now := metrics(t, 100)
	s := serve(t, ":0", func() *metric.Snapshot { return now })
	const hanging = 7
	var silent []net.Conn
	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.bound.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for range hanging {
		c := dial()
		if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		for range 50 { // more than the socket's buffers hold
			if _, err := fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 {
		silent = append(silent, dial())
	}
	testkit.Eventually(t, "that all are connected", func() bool { return s.conns.Load() == hanging+20 })
	if res, _ := ask(t, s, "/metrics", "", asText); res.StatusCode != http.StatusOK {
		t.Errorf("beside them: %d", res.StatusCode)
	}
	for range 20 {
		silent = append(silent, dial())
	}
	testkit.Eventually(t, "that those too many are let go", func() bool { return s.conns.Load() <= mostConns })
	if _, err := bufio.NewReader(silent[len(silent)-1]).ReadByte(); err == nil {
		t.Error("one too many is answered")
	}
	if err := s.Close(); err != nil { // it ends, although clients keep their connections
		t.Error(err)
	}
}
