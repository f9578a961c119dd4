package causal

import (
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// onGPU returns steps that wait 5 ms for the GPU. add adds to a step; what it adds to To also delays later steps.
func onGPU(count int, add func(i int, s *ledger.Step)) (out []ledger.Step) {
	now := start
	for i := range count {
		s := ledger.Step{PID: 7, TID: 7, From: now, To: now + 5*ms + int64(i%7)*10*us, Op: 0x0140, Kind: 1}
		s.Parts.GPUWait = 5 * ms
		add(i, &s)
		now = s.To
		out = append(out, s)
	}
	return out
}

// fed returns steps of 5 ms plus a wait for input, as long as the worker sleeps in each. Steps for which
// sleeps is negative need no input.
func fed(sleeps func(i int) int64, count int) []ledger.Step {
	feeder := events.Thread{PID: 20, TID: 21, Parent: 7, Name: events.NameOf("python3")}
	worker := events.Thread{PID: 20, TID: 20, Parent: 7, Name: events.NameOf("python3")}
	return onGPU(count, func(i int, s *ledger.Step) {
		slept := sleeps(i)
		if slept < 0 {
			return
		}
		waited := slept + 100*us
		s.To += waited
		s.Parts.Blocked[events.ReasonPipe] = waited
		s.Waits = []ledger.Wait{{NS: waited, Count: 1, First: s.From, Last: s.From + waited, Who: feeder, State: events.WaitBlocked, Reason: events.ReasonPipe,
			Waker: tick.WakerShare{Times: tick.Times{OnCPU: 100_000, Blocked: uint64(slept)}, Reason: events.ReasonSleep, Root: worker}}}
	})
}

// A sleeping worker is a culprit if it sleeps longer than usual, but not if it keeps a pace.
func TestWorkerSleeps(t *testing.T) {
	for _, tt := range []struct {
		name   string
		count  int
		sleeps func(i int) int64
		lost   int64 // 0: no chain
	}{
		{"for a while", 1000, func(i int) int64 {
			if i >= 400 && i < 600 {
				return 15 * ms
			}
			return 0
		}, 3000 * ms},
		{"as long as always", 1000, func(int) int64 { return 15 * ms }, 0},
		{"as long as always, more or less", 1000, func(i int) int64 { return 15*ms + int64(i*7919%5000)*us }, 0},
		{"longer for a while", 1000, func(i int) int64 {
			if i >= 400 && i < 600 {
				return 20 * ms
			}
			return 3 * ms
		}, 3400 * ms},
		{"hardly longer for a while", 1000, func(i int) int64 {
			if i >= 400 && i < 600 {
				return 6 * ms
			}
			return 3 * ms
		}, 0},
		{"now and then", 1000, func(i int) int64 {
			if i%20 == 0 {
				return 15 * ms
			}
			return 0
		}, 0},
		{"for each 25th step, as long as always", 1000, func(i int) int64 {
			if i%25 == 0 {
				return 15 * ms
			}
			return -1
		}, 0},
		{"for each 25th step, longer for a while", 1000, func(i int) int64 {
			switch {
			case i%25 != 0:
				return -1
			case i >= 400 && i < 700:
				return 107 * ms
			}
			return 0
		}, 12 * 107 * ms},
		{"for every second step, at random", 1000, func(i int) int64 { return int64(i*7919%1009&1) * 4200 * us }, 0},
		{"for every third step, at random", 1000, func(i int) int64 { return int64(i*7919%1009%3/2) * 4200 * us }, 0},
		{"for every second step at random, and then for long", 1000, func(i int) int64 {
			if i >= 400 && i < 600 {
				return 30 * ms
			}
			return int64(i*7919%1009&1) * 4200 * us
		}, 5200 * ms},
		{"as soon as it is known", 12, func(int) int64 { return 300 * ms }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			steps := fed(tt.sleeps, tt.count)
			e.Add(steps)
			got := chainsOf(e, steps[len(steps)-1].To)
			if tt.lost == 0 {
				if len(got) != 0 {
					show(t, got)
					t.Errorf("%d chains, want none", len(got))
				}
				return
			}
			if len(got) != 1 || got[0].Rule != "input-wait" {
				show(t, got)
				t.Fatalf("%d chains, want one of input-wait", len(got))
			}
			c := &got[0]
			if lost := int64(c.Lost); lost < tt.lost*9/10 || lost > tt.lost*11/10 {
				t.Errorf("lost %v, want %d ms", c.Lost, tt.lost/ms)
			}
			const path = "thread python3 21 of process 20, which waited for python3 20, which slept"
			if x := c.Culprits[0]; x.Thread.TID != 20 || x.Path != path {
				t.Errorf("culprit %+v, want the worker and the path %q", x, path)
			}
		})
	}
}

// While something else makes steps longer, a worker that keeps a pace sleeps less. Only the other cause is
// reported.
func TestPaceBesideAnotherCause(t *testing.T) {
	steps := fed(func(i int) int64 {
		if i >= 400 && i < 490 {
			return 100 * us
		}
		return 3 * ms
	}, 1000)
	var late int64
	for i := range steps {
		s := &steps[i]
		s.From, s.To = s.From+late, s.To+late
		if i >= 400 && i < 490 {
			const ns = 20 * ms
			s.Waits = append(s.Waits, ledger.Wait{NS: ns, Count: 1, First: s.To, Last: s.To + ns, Who: stress, State: events.WaitRunnable})
			s.To, late = s.To+ns, late+ns
			s.Parts.Runnable = ns
		}
	}
	e := New(1)
	e.Add(steps)
	got := chainsOf(e, steps[len(steps)-1].To)
	if len(got) != 1 || got[0].Rule != "cpu-taken" {
		show(t, got)
		t.Errorf("%d chains, want one of cpu-taken", len(got))
	}
}

// While a worker sleeps for longer, the GPU works beside it: the job waits less for the GPU.
func TestSlowWorkerBesideTheGPU(t *testing.T) {
	steps := fed(func(i int) int64 {
		if i >= 400 && i < 600 {
			return 10 * ms
		}
		return 2 * ms
	}, 1000)
	var late int64
	for i := range steps {
		s := &steps[i]
		s.From, s.To = s.From+late, s.To+late
		if i >= 400 && i < 600 {
			s.To, late = s.To-4*ms, late-4*ms
			s.Parts.GPUWait -= 4 * ms
		}
	}
	e := New(1)
	e.Add(steps)
	got := chainsOf(e, steps[len(steps)-1].To)
	if len(got) != 1 || got[0].Rule != "input-wait" || got[0].Lost < 640*time.Millisecond || got[0].Lost > 960*time.Millisecond {
		show(t, got)
		t.Errorf("want 0.8 s of input-wait")
	}
}

// A worker may have done something else before it was known: the lower bound of the loss shrinks
// accordingly.
func TestUnknownWidens(t *testing.T) {
	worker := events.Thread{PID: 20, TID: 20, Parent: 7, Name: events.NameOf("worker")}
	for _, known := range []int64{10, 6} { // of 10 ms
		steps := onGPU(1000, func(i int, s *ledger.Step) {
			if i%4 != 0 {
				return
			}
			s.To += 10 * ms
			s.Parts.Blocked[events.ReasonPipe] = 10 * ms
			s.Waits = []ledger.Wait{{NS: 10 * ms, Count: 1, First: s.From, Last: s.From + 10*ms, Who: worker, State: events.WaitBlocked,
				Reason: events.ReasonPipe, Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(known * ms)}}}}
		})
		e := New(1)
		e.Add(steps)
		got := chainsOf(e, steps[len(steps)-1].To)
		if len(got) != 1 || got[0].Rule != "input-wait" {
			show(t, got)
			t.Fatalf("%d chains, want one of input-wait", len(got))
		}
		c := &got[0]
		most := min(0.1*float64(known), 1-usuallyVague) // of the loss
		if share := float64(c.LostMin) / float64(c.Lost); share < most-0.02 || share > most+0.02 {
			t.Errorf("%d of 10 ms are known: lost %v at least of %v, want %.2f of it", known, c.LostMin, c.Lost, most)
		}
	}
}
