//go:build interop

package cli

import (
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// A real Prometheus accepts all program names as labels.
func TestNamesInPrometheus(t *testing.T) {
	b := newBench(t)
	testkit.NeedTool(t, "prometheus", "promtool")
	pids, programs := b.oddPrograms("--seconds", "6")
	trace := b.ingero("trace", "--prometheus", ":0", "--record=false", "--pid", strings.Join(pids, ","))
	address := metricsOf(t, trace)
	p := testkit.NewPrometheus(t, testkit.PrometheusOptions{Target: address})
	b.tracing(len(pids))
	for _, c := range programs {
		c.Send("go")
	}
	for what, c := range programs {
		want := strings.Map(func(r rune) rune { // a label is one line
			if r < ' ' {
				return '?'
			}
			return r
		}, shownName(oddNames[what]))
		testkit.Eventually(t, "Prometheus to have the name with "+what, func() bool {
			all := p.Query(`last_over_time(ingero_process_info{pid="` + pid(c) + `"}[1h])`)
			return len(all) == 1 && all[0].Metric["process"] == want
		})
	}
	if _, stderr, code := finish(t, trace); code != 0 {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// A real Jaeger has each program's spans under its name.
func TestNamesInJaeger(t *testing.T) {
	b := newBench(t)
	j := testkit.Jaeger(t)
	pids, programs := b.oddPrograms("--steps", "40")
	trace := b.ingero("trace", "--otlp", j.HTTP, "--otlp-traces", "all", "--record=false", "--pid", strings.Join(pids, ","))
	b.tracing(len(pids))
	for _, c := range programs {
		c.Send("go")
	}
	if _, stderr, code := finish(t, trace); code != 0 || strings.Contains(stderr, "not delivered") {
		t.Errorf("code %d: %s", code, stderr)
	}
	for what, name := range oddNames {
		if len(jaegerSpans(t, j, shownName(name))) == 0 {
			t.Errorf("Jaeger has no span of the program with %s, %q", what, shownName(name))
		}
	}
}
