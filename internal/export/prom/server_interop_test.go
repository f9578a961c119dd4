//go:build interop

package prom

import (
	"testing"

	"ingero/internal/metric"
	"ingero/internal/testkit"
)

// A real Prometheus accepts native histograms, and finds the chain behind a duration; so does a
// remote-write receiver.
func TestRealPrometheus(t *testing.T) {
	testkit.NeedTool(t, "prometheus")
	now := metrics(t, 3)
	s := serve(t, ":0", func() *metric.Snapshot { return now })
	store := testkit.NewPrometheus(t, testkit.PrometheusOptions{})
	scrapes := testkit.NewPrometheus(t, testkit.PrometheusOptions{Target: s.bound.Bound().String(),
		Config: "remote_write:\n- url: " + store.RemoteWrite() + "\n  send_exemplars: true\n  send_native_histograms: true\n"})
	counters := []string{`ingero_anomaly_count_total{severity="HIGH"}`, `ingero_anomaly_lost_seconds_total`}
	for name, c := range map[string]struct {
		p         *testkit.Prometheus
		exemplars []string
	}{
		"that scrapes": {scrapes, append(counters, `gpu_cuda_operation_duration_seconds`)},
		// Prometheus 2.42 writes the exemplars of a native histogram before the histogram, and a
		// server that does not know the series yet loses the first one.
		"that is written to": {store, counters},
	} {
		testkit.Eventually(t, "metrics in the server "+name, func() bool {
			return c.p.One(`histogram_count(gpu_cuda_operation_duration_seconds)`) == 300 && c.p.One(`gpu_cuda_operation_count_total`) == 300
		})
		for _, query := range c.exemplars {
			testkit.Eventually(t, "the exemplar of "+query+" in the server "+name, func() bool {
				e := c.p.Exemplars(query)
				return len(e) > 0 && e[0]["chain"] == "c-7f3a" && e[0]["rule"] == "cpu-taken"
			})
		}
	}
}
