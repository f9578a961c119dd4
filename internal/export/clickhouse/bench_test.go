package clickhouse_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
)

// BenchmarkCopy copies a million calls to a server that discards them. It reports the bytes sent.
func BenchmarkCopy(b *testing.B) {
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		n, _ := io.Copy(io.Discard, q.Body)
		sent.Add(n)
	}))
	defer server.Close()
	const n = 1_000_000
	w := newRecorder(b, "many")
	for w.n < n {
		w.record(50_000)
		w.tick(false)
	}
	r := w.whole()
	c := open(b, server.URL)
	sent.Store(0)
	b.ReportAllocs()
	for b.Loop() {
		res, err := clickhouse.Copy(b.Context(), c, r, query.Filter{Session: "many"}, nil)
		if err != nil || res.Calls != n {
			b.Fatal(res, err)
		}
	}
	calls := float64(n) * float64(b.N)
	b.ReportMetric(calls/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(sent.Load())/calls, "bytes/call")
}
