//go:build interop

package cli

import (
	"os/exec"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// promtool accepts the Prometheus rules, and their tests pass.
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
