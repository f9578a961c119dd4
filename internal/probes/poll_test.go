package probes_test

import (
	"slices"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// In a thread that polls, the query that ends the waiting always has a record. A record of the
// other queries stands for many.
func TestEndOfPollingIsRecorded(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := polls(t, "poll")
	tr := tracer(t, probes.Options{Rows: libraryRows(testkit.OpRows("cudaEventQuery", "cuEventQuery"))})
	if err := tr.Shed(probes.Shed{Thin: 15}); err != nil {
		t.Fatal(err)
	}
	answers := []string{"600", "600", "0", "0", "600", "0", "0", "600", "700"} // an error of the last is recorded anyway
	child, _ := traced(t, tr, library, program, answers...)
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	var always []int32
	for _, c := range drain(t, tr) {
		if c.Weight == 1 && c.Flags&events.CallNested == 0 {
			always = append(always, c.Result)
		}
	}
	if want := []int32{0, 0, 700}; !slices.Equal(always, want) {
		t.Errorf("recorded always: answers %v, want %v", always, want)
	}
	if a := accounts(t, tr)["cudaEventQuery"]; a.Calls != uint64(len(answers)) || a.Done != a.Calls {
		t.Errorf("counted %d calls and %d returns, want %d", a.Calls, a.Done, len(answers))
	}
}
