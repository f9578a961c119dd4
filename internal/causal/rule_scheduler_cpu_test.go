package causal

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// serveTokens adds seconds in which each second has a prompt, and 100 steps for tokens of running
// requests. change completes each step for tokens.
func (s *served) serveTokens(seconds, running int, change func(second, n int, x *ledger.Step)) {
	begin := s.at
	for second := range seconds {
		s.step(10*time.Millisecond, 8*time.Millisecond, false)
		if s.prompt != nil {
			s.change(func(x *ledger.Step) { s.prompt(second, x) })
			s.request("10.0.0.9", s.at-int64(8*time.Millisecond), s.at+1e6, s.at+1e6, 400)
		}
		for n := range 100 {
			s.step(0, 2*time.Millisecond, true)
			s.change(func(x *ledger.Step) { change(second, n, x) })
		}
		if rest := servedFrom + int64(second+1)*1e9 - s.at; rest > 0 {
			s.step(time.Duration(rest)-time.Millisecond, time.Millisecond, false)
		}
	}
	for range running {
		s.request("10.0.0.5", begin-int64(20*time.Millisecond), begin, s.at, 400)
	}
}

// change changes the last step, and makes it as long as its parts.
func (s *served) change(f func(x *ledger.Step)) {
	x := &s.steps[len(s.steps)-1]
	f(x)
	x.To = x.From + x.Parts.Sum()
	s.at = x.To
}

// computes sets a step's time on a CPU before its launch, which has a record, and its stack, whose
// number is the milliseconds.
func (s *served) computes(x *ledger.Step, d time.Duration) {
	launch, _ := events.OpByName("cudaGraphLaunch")
	x.Ops = []ledger.OpTime{{Op: launch, Count: 1, Seen: 1}}
	x.Lead, x.Parts.GapCPU, x.CodeStack = int64(d), int64(d), uint32(d/time.Millisecond)
}

// ofEngine checks that the engine has one chain with a loss, to within 4 %, and reports whether it has:
// a loss of 0 is no chain.
func ofEngine(t *testing.T, got []tick.Chain, lost time.Duration) bool {
	t.Helper()
	switch {
	case lost == 0 && len(got) != 0:
		t.Errorf("%+v", got)
	case lost != 0 && (len(got) != 1 || got[0].Lost < lost*96/100 || got[0].Lost > lost*104/100 || got[0].PID != engineTID):
		t.Fatalf("%+v, want one chain with %s", got, lost)
	}
	return lost != 0
}

// Computing before the launch costs what it takes beyond a usual step, or what is usual if all steps
// compute for long.
func TestSchedulerCPU(t *testing.T) {
	const healthy = 200 * time.Microsecond
	for name, tt := range map[string]struct {
		lead func(second, n int) time.Duration
		gpu  func(n int, lead time.Duration) time.Duration
		lost time.Duration
		text string
	}{
		"for some seconds": {
			lead: func(second, _ int) time.Duration {
				if second < 10 {
					return 3200 * time.Microsecond
				}
				return healthy
			},
			lost: 1000 * 3 * time.Millisecond, text: "3.20 ms on a CPU before the launch of each of ",
		},
		"always": {
			lead: func(int, int) time.Duration { return 3200 * time.Microsecond },
			lost: 2000 * 3 * time.Millisecond, text: "3.20 ms on a CPU before the launch of each of ",
		},
		"healthy":         {lead: func(_, n int) time.Duration { return healthy + time.Duration(n%5)*60*time.Microsecond }},
		"always a little": {lead: func(int, int) time.Duration { return 900 * time.Microsecond }},
		"the GPU works on the step before": {
			lead: func(second, n int) time.Duration {
				return healthy + time.Duration(second%2)*time.Millisecond + time.Duration(n%7)*100*time.Microsecond
			},
			gpu: func(_ int, lead time.Duration) time.Duration { return 3*time.Millisecond - lead },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			s.serveTokens(20, 8, func(second, n int, x *ledger.Step) {
				lead := tt.lead(second, n)
				s.computes(x, lead)
				if tt.gpu != nil {
					x.Parts.GPUWait = int64(tt.gpu(n, lead))
				}
			})
			got := s.chains("scheduler-cpu")
			if !ofEngine(t, got, tt.lost) {
				return
			}
			if x := got[0].Culprits[0]; !strings.HasPrefix(x.What, tt.text) || x.Stack != 3 {
				t.Errorf("got %q with stack %d, want %q with stack 3", x.What, x.Stack, tt.text)
			}
		})
	}
}

// The scheduler chooses the requests of steps for prompts, too. They count if it is slow for tokens as well: a long
// prompt alone is no sign of a slow scheduler.
func TestSchedulerCPUOfPrompts(t *testing.T) {
	const (
		healthy = 200 * time.Microsecond
		each    = 3 * time.Millisecond
		prompt  = 40 * time.Millisecond
	)
	slow := func(second int) bool { return second < 10 }
	for name, tt := range map[string]struct {
		running int
		slow    func(second, n int) bool // step for tokens
		prompts func(second int) bool    // with a slow step for its prompt
		eager   bool                     // every second slow step has no graph
		lost    time.Duration
	}{
		"beside tokens":          {8, func(second, _ int) bool { return slow(second) }, slow, false, 1000*each + 10*prompt},
		"always":                 {8, func(int, int) bool { return true }, func(int) bool { return true }, false, 2000*each + 20*prompt},
		"alone":                  {8, func(int, int) bool { return false }, slow, false, 0},
		"beside two slow steps":  {8, func(second, n int) bool { return n == 0 && (second == 0 || second == 19) }, slow, false, 0},
		"nobody waits":           {0, func(second, _ int) bool { return slow(second) }, slow, false, 1000 * each},
		"beside steps, no graph": {8, func(second, _ int) bool { return slow(second) }, func(int) bool { return false }, true, 500 * each},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			lead := func(x *ledger.Step, slow bool, more time.Duration) {
				if s.computes(x, healthy); slow {
					s.computes(x, healthy+more)
				}
			}
			s.prompt = func(second int, x *ledger.Step) {
				lead(x, tt.prompts(second), prompt)
				x.Launches, x.Ops[0].Count, x.Ops[0].Seen = 40, 40, 40
			}
			s.serveTokens(20, tt.running, func(second, n int, x *ledger.Step) {
				lead(x, tt.slow(second, n), each)
				if tt.eager && slow(second) && n%2 == 0 {
					x.Marks, x.Launches, x.Parts.GPUWait = 0, 40, int64(time.Millisecond)
					x.Ops[0].Count, x.Ops[0].Seen = 40, 40
				}
			})
			got := s.chains("scheduler-cpu")
			if ofEngine(t, got, tt.lost) && got[0].Culprits[0].Stack != 3 {
				t.Errorf("stack %d, want that of steps for tokens, 3", got[0].Culprits[0].Stack)
			}
		})
	}
}

// The time until an engine's steps can be compared, and time that does not delay a launch, count not.
func TestSchedulerCPUUnknown(t *testing.T) {
	for name, change := range map[string]func(x *ledger.Step){
		"after the launch": func(x *ledger.Step) { x.Lead, x.Parts.GapCPU = 200_000, 3_200_000 },
		"without a graph":  func(x *ledger.Step) { x.Marks = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			s.serveTokens(20, 8, func(second, _ int, x *ledger.Step) {
				s.computes(x, 200*time.Microsecond)
				if second < 10 {
					s.computes(x, 3200*time.Microsecond)
					change(x)
				}
			})
			if got := s.chains("scheduler-cpu"); len(got) != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Without records of the launches, the time on a CPU beyond the usual one counts, but is not certain.
// Without probes, it is in the upper bound only.
func TestSchedulerCPUWithoutRecords(t *testing.T) {
	const each = 3 * time.Millisecond
	for name, tt := range map[string]struct {
		level             string
		change            func(x *ledger.Step)
		least, lost, most time.Duration
	}{
		"launches are counted":    {"launches-counted", func(x *ledger.Step) { x.Launches = 2 }, 500 * each, 1000 * each, 1000 * each},
		"launches have no probes": {"hot-off", func(x *ledger.Step) { x.Launches, x.Marks = 0, 0 }, 500 * each, 500 * each, 1000 * each},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			s.level, s.known, s.thinned = tt.level, true, servedFrom+5e9
			s.serveTokens(20, 8, func(second, _ int, x *ledger.Step) {
				s.computes(x, 200*time.Microsecond)
				if second < 10 {
					s.computes(x, 3200*time.Microsecond)
				}
				if second >= 5 {
					x.Ops = nil
					tt.change(x)
				}
			})
			got := s.chains("scheduler-cpu")
			ofEngine(t, got, tt.lost)
			if x := got[0]; x.LostMin > tt.least || x.LostMax < tt.most || x.LostMax > 2*tt.most {
				t.Errorf("lost %v (%v to %v), want at least %v and at most %v", x.Lost, x.LostMin, x.LostMax, tt.least, tt.most)
			}
		})
	}
}

// A scheduler with a process of its own is the culprit while requests are running, not the server that
// takes the requests. Without running requests, the engine waited for them.
func TestSchedulerProcess(t *testing.T) {
	scheduler := events.Thread{PID: 12, TID: 12, Name: events.NameOf("EngineCore")}
	for name, tt := range map[string]struct {
		running int
		lost    time.Duration
	}{
		"tokens of running requests": {running: 8, lost: 1000 * 3 * time.Millisecond},
		"no requests":                {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			s.breakdowns = []tick.Breakdown{{PID: engineTID, BlockedOn: []tick.Share{{Who: scheduler, Reason: events.ReasonSocket,
				Waker: &tick.WakerShare{Times: tick.Times{OnCPU: 9e9}}}}}}
			s.serveTokens(20, tt.running, func(second, _ int, x *ledger.Step) {
				s.computes(x, 200*time.Microsecond)
				planned := int64(100e3)
				if second < 10 {
					planned = 3100e3
				}
				x.Parts.Blocked[events.ReasonSocket] = planned + 50e3
				x.Waits = []ledger.Wait{{NS: planned + 50e3, Count: 1, First: x.From, Last: x.From + planned, Who: scheduler, State: events.WaitBlocked,
					Reason: events.ReasonSocket, Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(planned)}}}}
			})
			got := s.chains("scheduler-cpu")
			if !ofEngine(t, got, tt.lost) {
				return
			}
			if x := got[0].Culprits[0]; x.Thread != scheduler || !strings.HasPrefix(x.What, "3.30 ms on a CPU before the launch of each of ") || x.Root.Did != tick.ActivityCompute {
				t.Errorf("got %+v", x)
			}
		})
	}
}
