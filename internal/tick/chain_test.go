package tick_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// What delayed a process comes before the chains of those that waited for the process.
func TestSortChains(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	chain := func(id string, pid uint32, s tick.Severity, lost time.Duration, culprit uint32) tick.Chain {
		return tick.Chain{ID: id, Rule: "nccl-straggler", PID: pid, Severity: s, Lost: lost, From: began, To: began.Add(time.Second), Culprits: []tick.Culprit{{Thread: events.Thread{PID: culprit}}}}
	}
	rank0, rank2 := chain("rank 0", 10, tick.High, 1000, 11), chain("rank 2", 12, tick.High, 990, 11)
	taken := chain("taken", 11, tick.High, 980, 99)
	rank0Taken := rank0
	rank0Taken.Rule = "cpu-taken"
	later := taken
	later.From, later.To = began.Add(time.Minute), began.Add(2*time.Minute)
	for _, test := range []struct {
		name   string
		chains []tick.Chain
		want   string
	}{
		{"ranks that waited", []tick.Chain{rank0, taken, rank2}, "taken, rank 0, rank 2"},
		{"another's loss is larger", []tick.Chain{rank0, taken, chain("own", 13, tick.High, 2000, 13)}, "own, taken, rank 0"},
		{"less severe", []tick.Chain{rank0, chain("taken", 11, tick.Medium, 980, 99)}, "rank 0, taken"},
		{"a small part", []tick.Chain{rank0, chain("taken", 11, tick.High, 400, 99)}, "rank 0, taken"},
		{"each waited for the other", []tick.Chain{rank0, chain("taken", 11, tick.High, 980, 10)}, "rank 0, taken"},
		{"at another time", []tick.Chain{rank0, later}, "rank 0, taken"},
		{"no wait", []tick.Chain{rank0Taken, taken}, "rank 0, taken"},
		{"a wait for one that waited", []tick.Chain{rank0, chain("taken", 12, tick.High, 990, 99), chain("rank 1", 11, tick.High, 980, 12)}, "taken, rank 1, rank 0"},
		{"in a circle", []tick.Chain{rank0, chain("rank 1", 11, tick.High, 990, 12), chain("rank 2", 12, tick.High, 980, 10)}, "rank 1, rank 0, rank 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range test.chains { // each order gives the same
				test.chains = append(test.chains[1:], test.chains[0])
				sorted := slices.Clone(test.chains)
				tick.SortChains(sorted)
				var ids []string
				for i := range sorted {
					ids = append(ids, sorted[i].ID)
				}
				if got := strings.Join(ids, ", "); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
			}
		})
	}
}
