package explain

import (
	"strings"
	"testing"

	"ingero/internal/query"
	"ingero/internal/tick"
)

// If probes need more than the budget, the line of the live view and of status says how much, and
// so does the JSON of a tick.
func TestFloorIsTold(t *testing.T) {
	o := tick.Overhead{Budget: 0.02, Share: 0.031, Shed: []string{"hot-off"}}
	if text := Overhead(&o); strings.Contains(text, "at least") {
		t.Errorf("without a floor: %q", text)
	}
	o.Floor = tick.Floor{Share: 0.028, Rate: 60_000, Probe: 470}
	if got, want := Overhead(&o), "3.1 % of the traced time, limit 2.0 %; shed: hot-off; probes need at least 2.8 %: 470 ns for each of 60,000 calls a second"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b, err := TickJSON(&tick.Tick{Overhead: o})
	if want := `"floor":{"share":0.028,"calls_per_second":60000,"probe_ns":470}`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}

// Counts of an operation without a probe for some time are marked as lower bounds, by its name.
func TestLowerBounds(t *testing.T) {
	less := []tick.Report{{Kind: tick.LowerBound, Object: "cudaLaunchKernel", Why: "after 12:00:00 UTC the probe was off at times"},
		{Kind: tick.LowerBound, Object: "cuLaunchKernel", Why: "after 12:01:00 UTC the probe was off at times"}}
	in := &Input{Ops: []tick.Op{{PID: 7, Op: launch, Sum: tick.Counts{Calls: 1234}}, {PID: 7, Op: streamSyn, Sum: tick.Counts{Calls: 56}}}, Reports: less}
	text := strings.Join(strings.Fields(Report(in, Options{})), " ")
	for _, want := range []string{"cudaLaunchKernel ≥1,234", "cudaStreamSynchronize 56", "Counts of cudaLaunchKernel, cuLaunchKernel are lower bounds: after 12:00:00 UTC the probe was off at times."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	for name, of := range map[string]func() ([]byte, error){
		"report": func() ([]byte, error) { return ReportJSON(in) },
		"tick":   func() ([]byte, error) { return TickJSON(&tick.Tick{Ops: in.Ops, Reports: less}) },
	} {
		b, err := of()
		if err != nil || strings.Count(string(b), "lower_bound\"") != 1 {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
	if got, want := CoverageNotes(&query.Coverage{Thinned: true, Least: []string{"cudaLaunchKernel"}}), "not every call was recorded; some records represent several calls, so quantiles are estimates"; len(got) != 2 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := CoverageNotes(&query.Coverage{Least: []string{"cudaLaunchKernel", "cuLaunchKernel"}}), "counts are lower bounds, because probes were detached for some time (hot-off): cudaLaunchKernel, cuLaunchKernel"; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}
