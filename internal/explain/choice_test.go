package explain

import (
	"strings"
	"testing"
)

// rowsOf returns the operations in a table, in order.
func rowsOf(text string) string {
	var out []string
	for l := range strings.Lines(text) {
		if f := strings.Fields(l); strings.HasPrefix(l, "  cu") {
			out = append(out, f[0])
		}
	}
	return strings.Join(out, " ")
}

// Only the chosen rows are shown.
func TestChoice(t *testing.T) {
	for _, tt := range []struct {
		name   string
		c      Choice
		rows   string // of operations
		not    string // that nothing of is shown
		height int
	}{
		{name: "an operation", c: Choice{Text: "STREAMSYN"}, rows: "cudaStreamSynchronize cuStreamSynchronize"},
		{name: "a process", c: Choice{PID: 4822, Text: "malloc"}, rows: "cudaMalloc cuMemAlloc", not: "(4821)"},
		{name: "a process by name", c: Choice{Text: "4822"}, rows: "cudaLaunchKernel cudaMalloc cudaMemcpyAsync cudaStreamSynchronize cuLaunchKernel cuMemAlloc cuStreamSynchronize", not: "(4821)"},
		{name: "nothing", c: Choice{Text: "no such"}},
		{name: "by name", c: Choice{PID: 4822, Order: byNameOrder}, rows: "cudaLaunchKernel cudaMalloc cudaMemcpyAsync cudaStreamSynchronize cuLaunchKernel cuMemAlloc cuStreamSynchronize"},
		{name: "by time", c: Choice{PID: 4822, Order: 1}, rows: "cudaStreamSynchronize cudaLaunchKernel cudaMemcpyAsync cudaMalloc cuStreamSynchronize cuMemAlloc cuLaunchKernel"},
		{name: "by p99", c: Choice{PID: 4822, Order: 5}, rows: "cudaStreamSynchronize cudaMalloc cudaMemcpyAsync cudaLaunchKernel cuStreamSynchronize cuMemAlloc cuLaunchKernel"},
		{name: "the first", c: Choice{PID: 4822, Order: 5}, rows: "cudaStreamSynchronize cudaMalloc cuStreamSynchronize", height: 15},
	} {
		tick := hogTick()
		got := Live(tick, nil, Options{Choice: tt.c, Height: tt.height})
		if rows := rowsOf(got); rows != tt.rows {
			t.Errorf("%s: %s, want %s:\n%s", tt.name, rows, tt.rows, got)
		}
		if tt.not != "" && strings.Contains(got, tt.not) {
			t.Errorf("%s: %s is shown:\n%s", tt.name, tt.not, got)
		}
		if len(tick.Processes) != 3 {
			t.Errorf("%s: the tick has changed", tt.name)
		}
	}
}

// The orders form a circle, each with a unique name.
func TestOrders(t *testing.T) {
	names := map[string]bool{}
	o := Order(0)
	for range orders {
		names[o.String()] = true
		if o.Next(false).Next(true) != o {
			t.Errorf("%s is not where it was", o)
		}
		o = o.Next(false)
	}
	if o != 0 || len(names) != len(orders) {
		t.Errorf("%d names, in the end %s", len(names), o)
	}
}

// The breakdown fits 80 columns, and says so if nothing is known.
func TestWhere(t *testing.T) {
	for _, tt := range liveTables {
		got := Where(tt.t, Options{Location: cet})
		narrow(t, got, 80)
		if !strings.HasPrefix(got, "WHERE THE TIME WENT") && (len(tt.t.Breakdowns) > 0 || !strings.HasPrefix(got, "No thread")) {
			t.Errorf("%s:\n%s", tt.name, got)
		}
	}
	got := Where(hogTick(), Options{Location: cet, Choice: Choice{PID: 4821}})
	if strings.Contains(got, "4822") || !strings.Contains(got, "python3 (4821)") {
		t.Errorf("one process:\n%s", got)
	}
}
