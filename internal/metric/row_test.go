package metric

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each metric has a help text, a name that is valid in Prometheus, and an example that uses it.
func TestRows(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	seen := map[string]bool{}
	for id := range Rows {
		r := &Rows[id]
		p := r.Prometheus()
		if !name.MatchString(p) || seen[p] || seen[r.Name] {
			t.Errorf("%s: its name in Prometheus is %q", r.Name, p)
		}
		seen[p], seen[r.Name] = true, true
		if r.Kind == 0 || r.Most < 1 || !strings.HasSuffix(r.Help, ".") || strings.Contains(r.Help, "\n") {
			t.Errorf("%s: kind %v, at most %d, help %q", r.Name, r.Kind, r.Most, r.Help)
		}
		if (r.Most == 1) != (len(r.Labels) == 0) && ID(id) != AgentBuild {
			t.Errorf("%s has labels %v and at most %d series", r.Name, r.Labels, r.Most)
		}
		if !strings.Contains(r.Use, p) {
			t.Errorf("%s: the example is %q", r.Name, r.Use)
		}
		sorted := slices.Clone(r.Labels)
		slices.Sort(sorted)
		if len(slices.Compact(sorted)) != len(r.Labels) {
			t.Errorf("%s: labels %v", r.Name, r.Labels)
		}
		for _, l := range r.Labels {
			if !name.MatchString(Label(l)) {
				t.Errorf("%s: label %q", r.Name, l)
			}
		}
	}
}

// The metric names of ingero 0.9 exist, by OpenTelemetry's rules.
func TestNamesOfBefore(t *testing.T) {
	for id, want := range map[ID][2]string{
		OpDuration: {"gpu.cuda.operation.duration", "gpu_cuda_operation_duration_seconds"},
		OpCount:    {"gpu.cuda.operation.count", "gpu_cuda_operation_count_total"},
		CPUBusy:    {"system.cpu.utilization", "system_cpu_utilization_ratio"},
		MemoryBusy: {"system.memory.utilization", "system_memory_utilization_ratio"},
		Anomalies:  {"ingero.anomaly.count", "ingero_anomaly_count_total"},
		GPUErrors:  {"hw.errors", "hw_errors_total"},
	} {
		if got := [2]string{Rows[id].Name, Rows[id].Prometheus()}; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
