package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"ingero/internal/metric"
)

const deploy = "../../deploy/"

// The deployed rules and dashboards use existing metrics.
func TestDeployedNames(t *testing.T) {
	known := map[string]bool{"ingero_gpu_wait": true, "ingero_ledger_time": true, "gpu_cuda_operation": true} // of recording rules
	for id := range metric.Rows {
		known[metric.Rows[id].Prometheus()] = true
	}
	name := regexp.MustCompile(`\b(ingero|gpu_cuda|hw|system)_[a-z0-9_]+`)
	for _, path := range []string{"prometheus/rules.yaml", "prometheus/rules_test.yaml", "grafana/ingero-prometheus.json", "../docs/guides/prometheus.md"} {
		text, err := os.ReadFile(deploy + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range name.FindAllString(string(text), -1) {
			if base := strings.TrimSuffix(found, "_bucket"); !known[base] && !isLabel(base) {
				t.Errorf("%s: there is no %s", path, found)
			}
		}
	}
}

// isLabel reports whether any metric has a label with this name.
func isLabel(name string) bool {
	for id := range metric.Rows {
		for _, l := range metric.Rows[id].Labels {
			if metric.Label(l) == name {
				return true
			}
		}
	}
	return false
}
