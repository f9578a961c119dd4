package causal

import (
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
)

// Each sample of a step stands for several, not for a whole number. Their sum is exact.
func TestStragglerCountsSteps(t *testing.T) {
	const groups = 1600
	tk := tick.Tick{Window: time.Second, Processes: []tick.Process{{PID: 7, Comm: "train"}, {PID: 21, Comm: "train"}}}
	ranked(&tk)
	var steps []ledger.Step
	now := start
	for range groups { // 40 slow steps a second: a sample stands for 40/24 of them
		for _, length := range []int64{5 * ms, 5 * ms, 15 * ms} {
			s := ledger.Step{PID: 7, TID: 7, From: now, To: now + length, Op: 0x0140, Kind: 1}
			s.Parts.GPUWait = length
			now = s.To
			steps = append(steps, s)
		}
		tk.Lates = append(tk.Lates, tick.Straggler{Comm: 1, From: now - 10*ms, To: now - ms, Rank: tick.Rank{Rank: 1, PID: 21}})
	}
	e := New(1)
	e.Add(steps)
	tk.Time = time.Unix(0, now)
	chains, _ := e.Tick(&tk)
	if len(chains) != 1 || chains[0].Rule != "nccl-straggler" {
		show(t, chains)
		t.Fatalf("%d chains, want nccl-straggler", len(chains))
	}
	c := &chains[0]
	if lost := groups * 9 * time.Millisecond; c.Slow < groups-2 || c.Slow > groups+2 || c.Steps < 3*groups-2 || c.Steps > 3*groups+2 || c.Lost < lost*99/100 || c.Lost > lost*101/100 {
		t.Errorf("%v lost in %d of %d steps, want %v in %d of %d", c.Lost, c.Slow, c.Steps, lost, groups, 3*groups)
	}
}
