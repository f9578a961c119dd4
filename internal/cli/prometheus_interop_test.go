//go:build interop

package cli

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingero/internal/metric"
	"ingero/internal/testkit"
)

// A real Prometheus scrapes what was traced: counts are exact, quantiles equal those of ingero
// query, the ledger adds up, and a histogram's exemplar is a chain.
func TestPrometheus(t *testing.T) {
	b := newBench(t)
	testkit.NeedTool(t, "prometheus", "promtool")
	// Even if traps are slow, all calls are timed and recorded. There are so few of them that the
	// cost of probes, which the ledger excludes, is small.
	shell := b.job("--steps", "300", "--kernel-us", "400")
	c := b.ingero("trace", "--max-overhead", "90%", "--prometheus", ":0", "--pid", pid(shell))
	address := metricsOf(t, c)
	c.Line("sh (" + pid(shell) + ") has not loaded")
	rules := oftenEvaluated(t, "../../deploy/prometheus/rules.yaml")
	p := testkit.NewPrometheus(t, testkit.PrometheusOptions{Target: address, Config: "rule_files: ['" + rules + "']\n"})
	want := b.runJob(shell)
	for op, n := range want {
		testkit.Eventually(t, "all "+op, func() bool {
			at := `{operation="` + op + `"}`
			return p.One(`gpu_cuda_operation_count_total`+at) == float64(n) && p.One(`histogram_count(gpu_cuda_operation_duration_seconds`+at+`)`) == float64(n)
		})
	}
	checkMetrics(t, address)
	checkUses(t, p)
	checkDashboard(t, p)
	quantiles := map[string][2]float64{}
	for op := range want {
		at := `, gpu_cuda_operation_duration_seconds{operation="` + op + `"})`
		quantiles[op] = [2]float64{p.One(`histogram_quantile(0.5` + at), p.One(`histogram_quantile(0.99` + at)}
	}
	// The loop has ended, so both grow no more. The threads' time is read a little earlier than the
	// records, and the ledger ends with the last call, before the thread does.
	testkit.Eventually(t, "a ledger of 0.9 to 1.001 of the threads' time", func() bool {
		ledger, threads := p.One(`sum(ingero_ledger_time_seconds_total)`), p.One(`sum(ingero_thread_time_seconds_total)`)
		return ledger <= 1.001*threads && ledger >= 0.9*threads
	})
	testkit.Eventually(t, "the recording rule", func() bool { return p.One(`count(process:ingero_gpu_wait:ratio_rate5m)`) == 1 })
	shell.Send("end")
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	b.checkQuantiles(quantiles)
}

// oftenEvaluated copies a file of rules so that all are evaluated as often as the server's others.
func oftenEvaluated(t *testing.T, path string) (copied string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(copied, regexp.MustCompile(`(?m)^    interval:.*\n`).ReplaceAll(text, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

// checkMetrics validates a server's metrics with promtool.
func checkMetrics(t *testing.T, address string) {
	t.Helper()
	code, text := get(t, "http://"+address+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, text)
	}
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(t, "http://"+address+path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// absentPrefixes begin the names of metrics of GPUs and of servers, which the job is not.
var absentPrefixes = []string{"hw.", "ingero.gpu.", "ingero.inference.", "ingero.request", "ingero.engine."}

// checkUses runs each example query of docs/reference/metrics.md. Prometheus must accept all of
// them, and those of metrics that always exist must return series.
func checkUses(t *testing.T, p *testkit.Prometheus) {
	t.Helper()
	for id := range metric.Rows {
		r := &metric.Rows[id]
		p.Query(r.Use)
		name := r.Prometheus()
		if r.Kind == metric.Histogram {
			name = "histogram_count(" + name + ")"
		}
		absent := slices.ContainsFunc(absentPrefixes, func(x string) bool { return strings.HasPrefix(r.Name, x) })
		if got := len(p.Query(name)); got == 0 && !absent {
			switch metric.ID(id) {
			case metric.SwapBusy, metric.RankLate, metric.AnomalyLost, metric.AnomaliesActive: // these exist only in some cases
			default:
				t.Errorf("%s has no series", name)
			}
		}
	}
}

// checkDashboard runs the queries of the dashboard's panels.
func checkDashboard(t *testing.T, p *testkit.Prometheus) {
	t.Helper()
	panels := testkit.Panels(t, deploy+"grafana/ingero-prometheus.json")
	with := strings.NewReplacer("$instance", ".*", "$process", ".*", "$__rate_interval", "1m")
	testkit.Eventually(t, "ten panels or more that show something", func() bool { // rates need two scrapes
		shown := 0
		for _, panel := range panels {
			for _, target := range panel.Targets {
				shown += min(1, len(p.Query(with.Replace(target.Expr))))
			}
		}
		return shown >= 10
	})
}

// checkQuantiles compares medians and 99th percentiles, in seconds, with those of ingero query.
func (b *bench) checkQuantiles(got map[string][2]float64) {
	b.t.Helper()
	stdout, stderr, code := b.output("query", "--json")
	if code != 0 {
		b.t.Fatal(stderr)
	}
	var answer struct {
		Ops []struct {
			Op    string  `json:"op"`
			P50NS float64 `json:"p50_ns"`
			P99NS float64 `json:"p99_ns"`
		} `json:"operations"`
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		b.t.Fatal(err)
	}
	compared := 0
	for _, o := range answer.Ops {
		q, ok := got[o.Op]
		if !ok {
			continue
		}
		compared++
		for i, want := range []float64{o.P50NS / 1e9, o.P99NS / 1e9} {
			if off := math.Abs(q[i] - want); !(off <= max(0.05*want, 1e-9)) { // 1 ns: calls shorter than the cost of a probe are 0
				b.t.Errorf("%s: %v s in Prometheus, %v s by query", o.Op, q[i], want)
			}
		}
	}
	if compared != len(got) {
		b.t.Errorf("%d operations are compared, want %d:\n%s", compared, len(got), stdout)
	}
}
