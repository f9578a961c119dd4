package otlp

import (
	"testing"
	"time"

	"ingero/internal/tick"
)

// BenchmarkBatch measures a call where few become spans, and where all do.
func BenchmarkBatch(b *testing.B) {
	for _, spans := range []Spans{SpansNotable, SpansAll} {
		b.Run(string(spans), func(b *testing.B) {
			o := Options{Spans: spans, Clock: newFakeClock()}
			o.Targets[Traces] = Target{URL: mustParse("http://127.0.0.1:1/v1/traces"), Protocol: HTTPProtobuf, Timeout: time.Second}
			x, err := New(o)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = x.Close() }()
			batch := &tick.Batch{}
			for i := range int64(400) {
				batch.Calls = append(batch.Calls, call("cuLaunchKernel", 10*i, 3, "cudaLaunchKernel"), call("cudaLaunchKernel", 10*i, 5, ""))
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = x.Batch(batch)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(batch.Calls)), "ns/call")
		})
	}
}

// BenchmarkEncode measures a request of 512 spans.
func BenchmarkEncode(b *testing.B) {
	for _, p := range []Protocol{HTTPProtobuf, HTTPJSON} {
		b.Run(string(p), func(b *testing.B) {
			m := &spanMaker{scope: scope("1")}
			c := newClient(Target{Protocol: p}, Traces, "1", time.Now)
			list := make([]span, spansOfLoad)
			for i := range list {
				list[i] = span{call: call("cuLaunchKernel", int64(10*i), 3, ""), reason: reasonAll}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.encode(m.request(list)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/spansOfLoad, "ns/span")
		})
	}
}
