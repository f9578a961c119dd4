//go:build interop

package prom

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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

// With the configuration in deploy/prometheus, the batch job of a process stays the label job.
func TestPrometheusKeepsTheJob(t *testing.T) {
	testkit.NeedTool(t, "prometheus")
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, `ingero_process_info{pid="7",job="4711"} 1`)
	}))
	t.Cleanup(agent.Close)
	text, err := os.ReadFile("../../../deploy/prometheus/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, scrapes, _ := strings.Cut(string(text), "\nrule_files: [rules.yaml]\n") // without global, which testkit sets
	p := testkit.NewPrometheus(t, testkit.PrometheusOptions{Config: strings.Replace(scrapes, "127.0.0.1:9090", agent.Listener.Addr().String(), 1)})
	var all []testkit.Sample
	testkit.Eventually(t, "the process", func() bool {
		all = p.Query("ingero_process_info")
		return len(all) == 1
	})
	if got := all[0].Metric["job"]; got != "4711" {
		t.Errorf("job %q, want 4711", got)
	}
}
