package causal

import (
	"testing"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The CPU time that a worker takes from the job is part of the cost of waiting for its input. That of
// another worker is not, and is reported if it is large enough.
func TestWorkerOnTheJobsCPU(t *testing.T) {
	worker := events.Thread{PID: 20, TID: 20, Parent: 7, Name: events.NameOf("worker")}
	other := events.Thread{PID: 21, TID: 21, Parent: 7, Name: events.NameOf("other")}
	for _, tt := range []struct {
		name  string
		taker events.Thread
		took  int64
		lost  int64 // for its input
		rules int   // chains
		fewer bool  // CPUs were taken away from the job before
		many  bool  // 16 workers in turns make the input and take the CPU
	}{
		{"the same worker", worker, 4 * ms, 50 * 44 * ms, 1, false, false},
		{"another worker", other, 4 * ms, 50 * 40 * ms, 1, false, false},
		{"both in turns", events.Thread{}, 4 * ms, 50 * 42 * ms, 1, false, false},
		{"much by the same worker", worker, 30 * ms, 50 * 70 * ms, 1, false, false},
		{"much by another worker", other, 30 * ms, 50 * 40 * ms, 2, false, false},
		{"much by both in turns", events.Thread{}, 30 * ms, 50 * 55 * ms, 2, false, false},
		{"much by the same worker, on fewer CPUs", worker, 30 * ms, 50 * 40 * ms, 2, true, false},
		{"much by 16 workers", worker, 30 * ms, 50 * 70 * ms, 1, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps := onGPU(1000, func(i int, s *ledger.Step) {
				if i < 400 || i >= 600 || i%4 != 0 {
					return
				}
				maker, taker := worker, tt.taker
				if tt.many {
					maker.PID += uint32(i / 4 % 16)
					maker.TID = maker.PID
					taker = maker
				}
				if taker.TID == 0 {
					taker = []events.Thread{worker, other}[i/4%2]
				}
				s.To += 40*ms + tt.took
				s.Parts.Blocked[events.ReasonPipe], s.Parts.Runnable = 40*ms, tt.took
				s.Waits = []ledger.Wait{
					{NS: 40 * ms, Count: 1, First: s.From, Last: s.From + 40*ms, Who: maker, State: events.WaitBlocked, Reason: events.ReasonPipe,
						Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(40 * ms)}}},
					{NS: tt.took, Count: 1, First: s.From + 40*ms, Last: s.From + 40*ms + tt.took, Who: taker, State: events.WaitRunnable},
				}
			})
			e := New(1)
			e.Add(steps)
			second := ownThreads.Name
			if tt.fewer {
				second = cpusetShrunk.Name
				e.histories[7] = &ProcessHistory{PID: 7, Host: []HostSample{{steps[399].To, steps[399].To, tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostCPUsTaken, PID: 7}, Count: 2}}}}
			}
			got := chainsOf(e, steps[len(steps)-1].To)
			if len(got) != tt.rules || got[0].Rule != "input-wait" || tt.rules > 1 && got[1].Rule != second {
				show(t, got)
				t.Fatalf("%d chains, want %d, the first of input-wait", len(got), tt.rules)
			}
			if off := int64(got[0].Lost) - tt.lost; off < -tt.lost/100 || off > tt.lost/100 {
				t.Errorf("lost %v, want %d ms", got[0].Lost, tt.lost/ms)
			}
		})
	}
}
