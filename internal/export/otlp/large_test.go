package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"

	collectormetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// largeText has more bytes than a limited receiver accepts.
var largeText = strings.Repeat("x", 2*receiverLimit)

const receiverLimit = 4 << 10 // bytes

// limited makes a receiver refuse larger requests than receiverLimit.
func limited(r *receiver) {
	r.answer = func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		large := len(r.bodies[len(r.bodies)-1]) > receiverLimit
		r.mu.Unlock()
		grpc := q.Header.Get("Content-Type") == "application/grpc"
		switch {
		case grpc && large:
			grpcText(nil, "grpc-status", "8", "grpc-message", "grpc: received message after decompression larger than max (9 vs. 4)")(w, q)
		case grpc:
			grpcText(make([]byte, frameHead), "grpc-status", "0")(w, q)
		case large:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		default:
			w.Header().Set("Content-Type", "application/x-protobuf")
		}
	}
}

// accepted drops the requests that a limited receiver has refused.
func (r *receiver) accepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.bodies) - 1; i >= 0; i-- {
		if len(r.bodies[i]) > receiverLimit {
			r.bodies, r.requests = slices.Delete(r.bodies, i, i+1), slices.Delete(r.requests, i, i+1)
		}
	}
}

// manySpans are numbered spans. The span with the number large is too large for a limited receiver.
func manySpans(n, large int) (out []span) {
	op, _ := events.OpByName("cudaLaunchKernel")
	for i := range n {
		s := span{call: events.Call{Op: op, Start: int64(i), PID: 4, Weight: 1}}
		if i == large {
			s.place = &place{function: largeText}
		}
		out = append(out, s)
	}
	return out
}

// manyPoints are numbered points, as manySpans.
func manyPoints(from, to, large int) (out []*metricspb.NumberDataPoint) {
	for i := from; i < to; i++ {
		p := &metricspb.NumberDataPoint{TimeUnixNano: uint64(i)}
		if i == large {
			var a attrs
			a.text("large", largeText)
			p.Attributes = a.take()
		}
		out = append(out, p)
	}
	return out
}

// manyMetrics have 100 numbered points of each kind of metric, as manySpans.
func manyMetrics(large int) []*metricspb.Metric {
	d := &metricspb.ExponentialHistogram{AggregationTemporality: 2}
	for _, p := range manyPoints(60, 100, large) {
		d.DataPoints = append(d.DataPoints, &metricspb.ExponentialHistogramDataPoint{TimeUnixNano: p.TimeUnixNano, Attributes: p.Attributes})
	}
	return []*metricspb.Metric{
		{Name: "sum", Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{AggregationTemporality: 2, IsMonotonic: true, DataPoints: manyPoints(0, 20, large)}}},
		{Name: "gauge", Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: manyPoints(20, 60, large)}}},
		{Name: "histogram", Data: &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: d}},
	}
}

// manyRecords are 100 numbered log records, as manySpans.
func manyRecords(large int) (out []*logspb.LogRecord) {
	for i := range 100 {
		r := &logspb.LogRecord{TimeUnixNano: uint64(i), Body: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.Repeat("x", 100)}}}
		if i == large {
			r.EventName = largeText
		}
		out = append(out, r)
	}
	return out
}

// numbers returns the numbers of the received items.
func (r *receiver) numbers(t *testing.T) (out []int) {
	t.Helper()
	add := func(at uint64) { out = append(out, int(at)) }
	spans, _ := r.spans(t)
	for _, x := range spans {
		add(x.StartTimeUnixNano)
	}
	for _, x := range r.logs(t) {
		add(x.TimeUnixNano)
	}
	newRequest := func() *collectormetrics.ExportMetricsServiceRequest {
		return new(collectormetrics.ExportMetricsServiceRequest)
	}
	for _, m := range read(t, r, Metrics, newRequest) {
		for _, x := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			for _, p := range slices.Concat(x.GetSum().GetDataPoints(), x.GetGauge().GetDataPoints()) {
				add(p.TimeUnixNano)
			}
			for _, p := range x.GetExponentialHistogram().GetDataPoints() {
				add(p.TimeUnixNano)
			}
			if sum := x.GetSum(); x.Name == "" || sum != nil && (!sum.IsMonotonic || sum.AggregationTemporality != 2) {
				t.Errorf("metric %v is not as it was", x)
			}
		}
	}
	return out
}

// A request that the receiver finds too large is sent in parts: each item arrives once, in order, except
// one that is too large by itself. It is counted.
func TestTooLarge(t *testing.T) {
	const large = 53
	for _, p := range []Protocol{HTTPProtobuf, GRPC} {
		for sig := range Signals {
			t.Run(fmt.Sprint(p, " ", sig), func(t *testing.T) {
				r := newReceiver(t, nil)
				limited(r)
				x := newExporter(t, r, p, SpansAll)
				s := x.senders[sig]
				switch sig {
				case Metrics:
					s.enqueue(x.metricLoad(manyMetrics(large)))
				case Traces:
					s.enqueue(&spanLoad{manySpans(100, large), x.maker})
				case Logs:
					s.enqueue(x.logs(manyRecords(large)))
				}
				testkit.Eventually(t, "the items", func() bool { return s.state().Items == 99 })
				lost(t, s, lostLarge, 1)
				if n := r.count(); n > 1+2*maxSplits {
					t.Errorf("%d requests, want at most %d", n, 1+2*maxSplits)
				}
				r.accepted()
				want := make([]int, 0, 99)
				for i := range 100 {
					if i != large {
						want = append(want, i)
					}
				}
				if got := r.numbers(t); !slices.Equal(got, want) {
					t.Errorf("received %v", got)
				}
			})
		}
	}
}

// levels is a log that counts records by level.
type levels struct {
	slog.Handler
	warnings, infos atomic.Int64
}

func (l *levels) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l *levels) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		l.warnings.Add(1)
	} else {
		l.infos.Add(1)
	}
	return nil
}

// While each load has an item that is too large, the problem stays, and is logged once.
func TestTooLargeStaysAProblem(t *testing.T) {
	r := newReceiver(t, nil)
	limited(r)
	log := &levels{Handler: slog.DiscardHandler}
	s := startWith(t, target(t, r.URL, HTTPProtobuf, Traces), Options{Clock: newFakeClock(), Log: slog.New(log)})
	x := newExporter(t, r, HTTPProtobuf, SpansAll)
	for round := range uint64(3) {
		s.enqueue(&spanLoad{manySpans(4, 0), x.maker})
		testkit.Eventually(t, "the other items", func() bool { return s.state().Items == 3*(round+1) })
		if p := s.state().Problem; !strings.Contains(p, "raise the receiver's limit") {
			t.Errorf("load %d: problem %q", round, p)
		}
	}
	lost(t, s, lostLarge, 3)
	s.enqueue(&spanLoad{manySpans(4, -1), x.maker})
	testkit.Eventually(t, "the end of the problem", func() bool { return s.state().Problem == "" && log.infos.Load() > 0 })
	if w, i := log.warnings.Load(), log.infos.Load(); w != 1 || i != 1 {
		t.Errorf("logged %d warnings and %d times that it delivers again, want 1 and 1", w, i)
	}
}

// A receiver that finds everything too large gets a bounded number of requests.
func TestSplitsAreBounded(t *testing.T) {
	r := newReceiver(t, text(http.StatusRequestEntityTooLarge, "", ""))
	clock := newFakeClock()
	s := startSender(t, target(t, r.URL, HTTPProtobuf, Traces), clock, 1<<20)
	x := newExporter(t, r, HTTPProtobuf, SpansAll)
	s.enqueue(&spanLoad{manySpans(512, -1), x.maker})
	lost(t, s, lostLarge, 512)
	if n := r.count(); n != 1+2*maxSplits {
		t.Errorf("%d requests, want %d", n, 1+2*maxSplits)
	}
	if p := s.state().Problem; !strings.Contains(p, "raise the receiver's limit") {
		t.Errorf("problem %q", p)
	}
}

// The parts of a load share its time for retries: after one has given up, the others get no request. A
// slow receiver gets all parts.
func TestPartsGiveUpTogether(t *testing.T) {
	for _, tt := range []struct {
		name     string
		answers  bool
		requests int
	}{{"never answers", false, 4}, {"slow", true, 7}} {
		t.Run(tt.name, func(t *testing.T) {
			clock := newFakeClock()
			r := newReceiver(t, nil)
			r.answer = func(w http.ResponseWriter, _ *http.Request) {
				if r.count() <= 3 { // 8, 4 and 2 spans
					w.WriteHeader(http.StatusRequestEntityTooLarge)
					return
				}
				clock.advance(giveUpAfter + time.Second)
				if !tt.answers {
					panic(http.ErrAbortHandler) // closes the connection
				}
			}
			s := startSender(t, target(t, r.URL, HTTPProtobuf, Traces), clock, 1<<20)
			x := newExporter(t, r, HTTPProtobuf, SpansAll)
			s.enqueue(&spanLoad{manySpans(8, -1), x.maker})
			if tt.answers {
				testkit.Eventually(t, "the items", func() bool { return s.state().Items == 8 })
			} else {
				lost(t, s, lostGiveUp, 8)
			}
			if n := r.count(); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
		})
	}
}
