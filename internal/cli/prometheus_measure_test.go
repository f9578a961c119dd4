//go:build measure

package cli

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/testkit"
)

// While a program loses time to another on its CPU, the metrics show the loss, the culprit and a
// chain that is in the recording.
func TestPrometheusChain(t *testing.T) {
	b := newBench(t)
	testkit.NeedTool(t, "prometheus", "taskset")
	cpu, err := lastCPU()
	if err != nil {
		t.Fatal(err)
	}
	target := b.train("--seconds", "60", "--pin", strconv.Itoa(cpu))
	hog := exec.Command("taskset", "-c", strconv.Itoa(cpu), "/proc/self/exe", hogName, "--for", "60s")
	if hog.Args[3], err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	hog.Env = b.env
	testkit.Start(t, hog)
	c := b.ingero("trace", "--prometheus", ":0", "--pid", pid(target))
	p := testkit.NewPrometheus(t, testkit.PrometheusOptions{Target: metricsOf(t, c)})
	b.tracing(1)
	target.Send("go")
	testkit.Eventually(t, "a cause", func() bool {
		return p.One(`sum(ingero_anomaly_count_total{rule="cpu-taken"})`) > 0 && p.One(`sum(ingero_anomaly_lost_seconds_total{process="train", rule="cpu-taken"})`) > 0
	})
	testkit.Eventually(t, "who it was", func() bool {
		return p.One(`sum(rate(ingero_ledger_time_seconds_total{part="runnable", culprit!=""}[1m]))`) > 0.1
	})
	testkit.Eventually(t, "an exemplar whose chain is recorded", func() bool { // a first result may be revoked
		var chains []string
		for _, e := range p.Exemplars(`ingero_anomaly_lost_seconds_total{rule="cpu-taken"}`) {
			chains = append(chains, "'"+e["chain"]+"'")
		}
		out, _, _ := b.output("query", "--csv", "SELECT rule FROM chains WHERE id IN ("+strings.Join(chains, ",")+")")
		return strings.Contains(out, "cpu-taken")
	})
	c.Signal(syscall.SIGINT)
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
