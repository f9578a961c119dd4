package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// priced is a source whose probes cost 2 us where calls are timed, else 0.5 us.
type priced struct{ unknown bool }

func (priced) LaunchBudget() float64                        { return 0.03 }
func (priced) CountLaunches(time.Time, govern.Switch) error { return nil }
func (p priced) ProbeCost(events.Op) (timed, counted uint64, known bool) {
	return 2000, 500, !p.unknown
}

func TestLaunchUses(t *testing.T) {
	op := func(name string) events.Op {
		x, ok := events.OpByName(name)
		if !ok {
			t.Fatalf("no operation %s", name)
		}
		return x
	}
	runtime, driver, sync := op("cudaLaunchKernel"), op("cuLaunchKernel"), op("cudaStreamSynchronize")
	at := &tick.Tick{
		Processes: []tick.Process{{PID: 1}, {PID: 2}, {PID: 3, Ended: time.Unix(1, 0)}, {PID: 4}},
		Ops: []tick.Op{
			{PID: 1, Op: runtime, Last: tick.Counts{Calls: 100, Done: 100}},
			{PID: 1, Op: driver, Last: tick.Counts{Calls: 100, Unmeasured: 100, Nested: 100}},
			{PID: 1, Op: sync, Last: tick.Counts{Calls: 50, Done: 50}},
			{PID: 2, Op: runtime, Last: tick.Counts{Calls: 100, Unmeasured: 100}}, // a return probe would harm it
			{PID: 3, Op: runtime, Last: tick.Counts{Calls: 100, Done: 100}},
		},
	}
	want := []govern.Use{{PID: 1, Launches: 100, Cost: 250 * time.Microsecond}, {PID: 2, Launches: 100}, {PID: 4}}
	if diff := cmp.Diff(want, launchUses(priced{}, at)); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	want = []govern.Use{{PID: 1}, {PID: 2}, {PID: 4}}
	if diff := cmp.Diff(want, launchUses(priced{unknown: true}, at)); diff != "" {
		t.Errorf("uses where costs are not known (-want +got):\n%s", diff)
	}
}
