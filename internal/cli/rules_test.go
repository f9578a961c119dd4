package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"ingero/internal/metric"
	"ingero/internal/testkit"
)

const deploy = "../../deploy/"

// The rules for Prometheus are right by its own tool, and their tests pass.
func TestRules(t *testing.T) {
	testkit.NeedTool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}, {"check", "config", "prometheus.yaml"}} {
		c := exec.Command("promtool", args...)
		c.Dir = deploy + "prometheus"
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// What is deployed asks for metrics that there are.
func TestDeployedNames(t *testing.T) {
	known := map[string]bool{"ingero_gpu_wait": true, "ingero_ledger_time": true, "gpu_cuda_operation": true} // of recording rules
	for id := range metric.Rows {
		known[metric.Rows[id].Prometheus()] = true
	}
	name := regexp.MustCompile(`\b(ingero|gpu_cuda|hw|system)_[a-z0-9_]+`)
	for _, path := range []string{"prometheus/rules.yaml", "prometheus/rules_test.yaml", "grafana/ingero-prometheus.json", "../docs/prometheus.md"} {
		text, err := os.ReadFile(deploy + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range name.FindAllString(string(text), -1) {
			if base := strings.TrimSuffix(found, "_bucket"); !known[base] && !label(base) {
				t.Errorf("%s: there is no %s", path, found)
			}
		}
	}
}

// label tells whether a metric has a label of this name.
func label(name string) bool {
	for id := range metric.Rows {
		for _, l := range metric.Rows[id].Labels {
			if metric.Label(l) == name {
				return true
			}
		}
	}
	return false
}
