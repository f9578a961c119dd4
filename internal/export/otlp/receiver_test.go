package otlp

import (
	"compress/gzip"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	collectorlogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// receiver is a fake that accepts requests in protobuf.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	answer   http.HandlerFunc // nil: an empty message
	requests []*http.Request
	bodies   [][]byte // without compression and frame
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.Protocols = new(http.Protocols)
	r.Config.Protocols.SetHTTP1(true)
	r.Config.Protocols.SetUnencryptedHTTP2(true)
	r.Start()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var from io.Reader = q.Body
	grpc := q.Header.Get("Content-Type") == "application/grpc"
	if grpc {
		head := make([]byte, frameHead)
		if _, err := io.ReadFull(q.Body, head); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from = io.LimitReader(q.Body, int64(binary.BigEndian.Uint32(head[1:])))
	}
	if q.Header.Get("Content-Encoding") == "gzip" || q.Header.Get("grpc-encoding") == "gzip" {
		packed, err := gzip.NewReader(from)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from = packed
	}
	body, err := io.ReadAll(from)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.requests, r.bodies = append(r.requests, q), append(r.bodies, body)
	answer := r.answer
	r.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, q)
	case grpc:
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "grpc-status")
		_, _ = w.Write(make([]byte, frameHead))
		w.Header().Set("grpc-status", "0")
	default:
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}

// count returns the number of requests.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

// read parses the bodies of a signal's requests into messages from make.
func read[T proto.Message](t *testing.T, r *receiver, s Signal, make func() T) (out []T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, q := range r.requests {
		if !strings.HasSuffix(q.URL.Path, signalRows[s].path) && q.URL.Path != signalRows[s].rpc {
			continue
		}
		m := make()
		if err := proto.Unmarshal(r.bodies[i], m); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		out = append(out, m)
	}
	return out
}

// spans returns the received spans, and the resource of each.
func (r *receiver) spans(t *testing.T) (out []*tracepb.Span, resources []map[string]any) {
	t.Helper()
	for _, m := range read(t, r, Traces, func() *collectortrace.ExportTraceServiceRequest { return new(collectortrace.ExportTraceServiceRequest) }) {
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					out, resources = append(out, s), append(resources, values(rs.GetResource().GetAttributes()))
				}
			}
		}
	}
	return out, resources
}

// logs returns the received records.
func (r *receiver) logs(t *testing.T) (out []*logspb.LogRecord) {
	t.Helper()
	for _, m := range read(t, r, Logs, func() *collectorlogs.ExportLogsServiceRequest { return new(collectorlogs.ExportLogsServiceRequest) }) {
		for _, rl := range m.ResourceLogs {
			for _, sl := range rl.ScopeLogs {
				out = append(out, sl.LogRecords...)
			}
		}
	}
	return out
}

// metrics returns the last request's metrics, by name.
func (r *receiver) metrics(t *testing.T) map[string]*metricspb.Metric {
	t.Helper()
	out := map[string]*metricspb.Metric{}
	all := read(t, r, Metrics, func() *collectormetrics.ExportMetricsServiceRequest {
		return new(collectormetrics.ExportMetricsServiceRequest)
	})
	if len(all) == 0 {
		return out
	}
	for _, m := range all[len(all)-1].ResourceMetrics[0].ScopeMetrics[0].Metrics {
		out[m.Name] = m
	}
	return out
}

// values returns attributes as a map.
func values(list []*commonpb.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			out[kv.Key] = v.BoolValue
		case *commonpb.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue
		case *commonpb.AnyValue_ArrayValue:
			var all []int64
			for _, x := range v.ArrayValue.Values {
				all = append(all, x.GetIntValue())
			}
			out[kv.Key] = all
		}
	}
	return out
}

// target returns a receiver's target.
func target(t *testing.T, at string, p Protocol, s Signal) Target {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if p == GRPC {
		u.Path = signalRows[s].rpc
	} else {
		u.Path = "/" + signalRows[s].path
	}
	return Target{URL: u, Protocol: p, Timeout: 5 * time.Second}
}

// fakeClock is a manual clock.
type fakeClock struct {
	mu    sync.Mutex
	now   time.Time
	waits []fakeWait
}

type fakeWait struct {
	at time.Time
	d  time.Duration
	c  chan time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{now: time.Unix(1_700_000_000, 0)} }

func (f *fakeClock) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeClock) After(d time.Duration) <-chan time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan time.Time, 1)
	f.waits = append(f.waits, fakeWait{f.now.Add(d), d, c})
	return c
}

// waiting returns the durations of the pending waits.
func (f *fakeClock) waiting() (out []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.waits {
		out = append(out, w.d)
	}
	return out
}

// advance moves the clock, and ends the waits that are due.
func (f *fakeClock) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	left := f.waits[:0]
	for _, w := range f.waits {
		if w.at.After(f.now) {
			left = append(left, w)
		} else {
			w.c <- f.now
		}
	}
	f.waits = left
}

func mustParse(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}
