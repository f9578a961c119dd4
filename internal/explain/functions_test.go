package explain

import (
	"fmt"
	"strings"
	"testing"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

func TestFunctionJSON(t *testing.T) {
	for _, tt := range []struct {
		f    events.Function
		want string
	}{
		{events.Function{PID: 7, Handle: 255, Time: 5, Name: "_Z5scalePfi"},
			`{"type":"function","pid":7,"handle":"0xff","since_ns":5,"symbol":"_Z5scalePfi","function":"scale(float*, int)"}`},
		{events.Function{PID: 7, Handle: 1, Why: events.NoNameEnded},
			`{"type":"function","pid":7,"handle":"0x1","why":"the process ended before its name could be read"}`},
	} {
		got := AppendFunctionJSON(nil, &tt.f)
		if string(got) != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
		fits[wire.FunctionLine](t, got)
	}
}

// A report lists the most launched functions, and the launches without a name.
func TestReportNamesFunctions(t *testing.T) {
	launch, _ := events.OpByName("cudaLaunchKernel")
	in := &Input{Processes: []tick.Process{{PID: 7, Comm: "x"}}, Ops: []tick.Op{{PID: 7, Op: launch, Sum: tick.Counts{Calls: 1003, Done: 1003, Total: 5e6}}},
		Launches: []tick.Launches{{PID: 7, Launches: 1003, Named: 1000, Functions: 2, Unnamed: []tick.Unnamed{{Why: events.NoNameUnread, Launches: 3}},
			Top: []tick.Launched{{Function: "_Z5scalePfi", Launches: 900, Timed: 900, Time: 4e6}, {Function: "plain", Launches: 100}}}}}
	text := Report(in, Options{Detail: Tables})
	for _, want := range []string{"GPU functions: 2 in 1,003 launches, 3 without a name\n",
		fmt.Sprintf("  %-56s%11s%10s\n", "scale", "900", "4.00 ms"), fmt.Sprintf("  %-56s%11s%10s\n", "plain", "100", "-"),
		"\nNo name for 3 launches: its name could not be read\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	in.Launches = []tick.Launches{{PID: 7, Launches: 5, Pending: 5}}
	if text := Report(in, Options{Detail: Tables}); strings.Contains(text, "GPU functions") {
		t.Errorf("what an old recording does not have is reported:\n%s", text)
	}
}

// Launches are listed by function, those without a name by the reason.
func TestOperationsByFunction(t *testing.T) {
	launch, _ := events.OpByName("cudaLaunchKernel")
	row := func(name, why string, calls uint64) OpRow {
		return OpRow{Function: name, NoFunction: why, Op: tick.Op{Op: launch, Sum: tick.Counts{Calls: calls, Done: calls, Total: calls * 1000}, Dur: &stats.Sketch{}}}
	}
	table := &OpTable{Rows: []OpRow{row("_Z5scalePfi", "", 5), row("_Z5scalePfi", "", 6), row("", "the table of functions is full", 2)}}
	text := Operations(table, Options{})
	if !strings.Contains(text, "\n  scale                          11  11.0 us") || !strings.Contains(text, "(the table of functions is full)\n") {
		t.Error(text)
	}
	b, err := OperationsJSON(table)
	if err != nil || !strings.Contains(string(b), `"function": "scale(float*, int)",`) || !strings.Contains(string(b), `"symbol": "_Z5scalePfi"`) {
		t.Errorf("%v\n%s", err, b)
	}
	if csv := string(OperationsCSV(table)); !strings.Contains(csv, `cudart,cudaLaunchKernel,"scale(float*, int)",11,11,`) {
		t.Error(csv)
	}
}
