package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/query"
	"ingero/internal/tick"
)

// The latest starts are found in any order of the calls, and no more than needed are kept.
func TestLastStarts(t *testing.T) {
	for n, want := range map[int]int64{1: 1000, 2: 999, 300: 701, 1000: 1, 1001: 0} {
		l := lastStarts{n: n}
		most := 0
		for i := range 1000 {
			l.add(int64(i*7%1000 + 1))
			most = max(most, len(l.starts))
		}
		if got, ok := l.nth(); got != want || ok != (want > 0) || most > 2*n {
			t.Errorf("of %d the earliest is %d (%v), want %d; %d were kept", n, got, ok, want, most)
		}
	}
}

func TestJoinedRecordings(t *testing.T) {
	at := time.Unix(1000, 0)
	sums := []*query.Summary{
		{From: at, To: at.Add(time.Second), Ops: []tick.Op{{PID: 1, Op: 0x0101}}, Processes: []tick.Process{{PID: 1}},
			Drops: []tick.Drop{{Reason: "thinned", Count: 2}}, Gaps: tick.Gaps{1: &tick.Gap{Count: 3, Total: 30}}},
		{From: at.Add(time.Minute), To: at.Add(time.Hour), Ops: []tick.Op{{PID: 2, Op: 0x0101}}, Processes: []tick.Process{{PID: 2}},
			Drops: []tick.Drop{{Reason: "thinned", Count: 5}, {Reason: "ring-full", Count: 1}}, Gaps: tick.Gaps{1: &tick.Gap{Count: 1, Total: 5}}},
	}
	in := joined(sums)
	if !in.From.Equal(at) || !in.To.Equal(at.Add(time.Hour)) || len(in.Ops) != 2 || len(in.Processes) != 2 {
		t.Errorf("joined = %+v", in)
	}
	if diff := cmp.Diff([]tick.Drop{{Reason: "thinned", Count: 7}, {Reason: "ring-full", Count: 1}}, in.Drops); diff != "" {
		t.Errorf("drops (-want +got):\n%s", diff)
	}
	if g := in.Gaps[1]; g == nil || g.Count != 4 || g.Total != 35 {
		t.Errorf("gaps = %+v, want 4 of 35 ns", g)
	}
}
