package causal

import (
	"testing"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The CPU time that a worker takes from the job is part of the cost of waiting for its input. That of
// another worker is not, and is too small to report.
func TestWorkerOnTheJobsCPU(t *testing.T) {
	worker := events.Thread{PID: 20, TID: 20, Parent: 7, Name: events.NameOf("worker")}
	other := events.Thread{PID: 21, TID: 21, Parent: 7, Name: events.NameOf("other")}
	for _, tt := range []struct {
		name  string
		taker events.Thread
		lost  int64
	}{
		{"the same worker", worker, 50 * 44 * ms},
		{"another worker", other, 50 * 40 * ms},
		{"both in turns", events.Thread{}, 50 * 42 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps := onGPU(1000, func(i int, s *ledger.Step) {
				if i < 400 || i >= 600 || i%4 != 0 {
					return
				}
				taker := tt.taker
				if taker.TID == 0 {
					taker = []events.Thread{worker, other}[i/4%2]
				}
				s.To += 44 * ms
				s.Parts.Blocked[events.ReasonPipe], s.Parts.Runnable = 40*ms, 4*ms
				s.Waits = []ledger.Wait{
					{NS: 40 * ms, Count: 1, First: s.From, Last: s.From + 40*ms, Who: worker, State: events.WaitBlocked, Reason: events.ReasonPipe,
						Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(40 * ms)}}},
					{NS: 4 * ms, Count: 1, First: s.From + 40*ms, Last: s.From + 44*ms, Who: taker, State: events.WaitRunnable},
				}
			})
			e := New(1)
			e.Add(steps)
			got := chainsOf(e, steps[len(steps)-1].To)
			if len(got) != 1 || got[0].Rule != "input-wait" {
				show(t, got)
				t.Fatalf("%d chains, want one of input-wait", len(got))
			}
			if off := int64(got[0].Lost) - tt.lost; off < -tt.lost/100 || off > tt.lost/100 {
				t.Errorf("lost %v, want %d ms", got[0].Lost, tt.lost/ms)
			}
		})
	}
}
