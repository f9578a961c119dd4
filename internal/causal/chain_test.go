package causal

import (
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A chain that was reported does not make room for a larger one.
func TestReportedChainsStay(t *testing.T) {
	e := New(1)
	add := func(pid uint32, wait int64) {
		steps := with(60, 1, 2*ms, ledger.Wait{NS: wait, State: events.WaitRunnable, Who: stress})
		for i := range steps {
			steps[i].PID, steps[i].TID = pid, pid
		}
		e.Add(steps)
	}
	report := func() map[string]bool {
		tk := tick.Tick{Time: time.Unix(0, e.series[1000].newest*1e9+1e9)}
		ids := map[string]bool{}
		tk.Chains, _ = e.Tick(&tk)
		for _, c := range tk.Chains {
			ids[c.ID] = true
		}
		return ids
	}
	for n := range uint32(maxChains) {
		add(1000+n, 2*ms)
	}
	first := report()
	if len(first) != maxChains {
		t.Fatalf("%d chains of %d victims", len(first), maxChains)
	}
	add(900, 10*ms)
	then := report()
	if len(then) != maxChains+1 {
		t.Errorf("%d chains, want the larger one too", len(then))
	}
	for id := range first {
		if !then[id] {
			t.Errorf("chain %s is gone", id)
		}
	}
}
