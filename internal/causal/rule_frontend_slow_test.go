package causal

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// frontEnd is what a server does in a second of a test: its engine waits, then computes tokens. A
// request comes 150 ms before the work begins.
type frontEnd struct {
	waits   time.Duration // of the engine, for the request
	tokens  time.Duration // for others, before the request's prompt
	metrics bool
	front   float64       // of all requests in 5 s: seconds to the first token beyond queue and prefill
	starved time.Duration // of the engine's wait: the tokenizer waited for a CPU
	earlier time.Duration // another request comes so long before, while the engine computes for others
}

func (f *frontEnd) serve() *served {
	const ms = int64(time.Millisecond)
	s := newServed()
	for range 20 {
		begin := s.at
		for s.at < begin+int64(f.earlier) {
			s.step(0, 10*time.Millisecond, true)
		}
		waits := s.at
		s.step(f.waits, 10*time.Millisecond, true)
		x := &s.steps[len(s.steps)-1]
		x.Waits = []ledger.Wait{{State: events.WaitBlocked, Reason: events.ReasonSocket, NS: int64(f.waits), First: x.From, Last: x.From + int64(f.waits),
			Who: events.Thread{PID: serverPID, TID: serverPID}, Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(f.waits - f.starved), Runnable: uint64(f.starved)}}}}
		for s.at < begin+1e9 {
			s.step(0, 10*time.Millisecond, true)
		}
		for _, at := range slices.Compact([]int64{begin, waits}) {
			tokens := f.tokens + time.Duration(waits-at)
			r := s.request("10.0.0.5", at, at+int64(f.waits+tokens)+20*ms, begin+900*ms, 400)
			r.ToFirst = tick.RequestTime{Idle: f.waits, Tokens: tokens, Own: 19 * time.Millisecond, Deliver: time.Millisecond}
		}
	}
	for range 4 {
		x := s.read(nil)
		if f.metrics {
			x.FirstToken = &tick.Durations{Count: 5, Sum: 5*0.2 + f.front}
			x.Queue, x.Prefill = &tick.Durations{Count: 10, Sum: 1.5}, &tick.Durations{Count: 4, Sum: 0.2}
		}
	}
	return s
}

// Requests waited in the server while the engine had no work, or by the metrics before its queue.
func TestFrontendSlow(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		f                 frontEnd
		least, lost, most time.Duration // in a second
	}{
		"the engine waits":                  {frontEnd{waits: 220 * ms}, 200 * ms, 200 * ms, 200 * ms},
		"two requests wait at once":         {frontEnd{waits: 120 * ms, earlier: 100 * ms}, 120 * ms, 120 * ms, 200 * ms},
		"the engine computes for others":    {frontEnd{tokens: 220 * ms, metrics: true, front: 5 * 0.221}, 0, 0, 0},
		"partly in the queue":               {frontEnd{waits: 120 * ms, tokens: 300 * ms, metrics: true, front: 5 * 0.221}, 100 * ms, 100 * ms, 200 * ms},
		"in the queue":                      {frontEnd{waits: 120 * ms, tokens: 300 * ms, metrics: true}, 100 * ms, 100 * ms, 115 * ms},
		"no metrics":                        {frontEnd{waits: 120 * ms, tokens: 300 * ms}, 100 * ms, 100 * ms, 400 * ms},
		"busy engine, no metrics":           {frontEnd{tokens: 440 * ms}, 0, 0, 0},
		"a fast front end":                  {frontEnd{waits: 19 * ms}, 0, 0, 0},
		"the tokenizer has half of its CPU": {frontEnd{waits: 420 * ms, starved: 210 * ms}, 200 * ms, 200 * ms, 200 * ms},
		"the tokenizer has no CPU":          {frontEnd{waits: 420 * ms, starved: 420 * ms}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.f.serve().chains("frontend-slow")
			if tt.lost == 0 {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			requests := 1
			if tt.f.earlier > 0 {
				requests = 2
			}
			near := func(got, want time.Duration) bool { return (got - 20*want).Abs() < 20*time.Millisecond }
			if len(got) != 1 || !near(got[0].Lost, tt.lost) || got[0].PID != engineTID || got[0].Slow != 20*requests || got[0].Severity != tick.High {
				t.Fatalf("%+v", got)
			}
			if !near(got[0].LostMin, min(tt.least, tt.lost*85/100)) || !near(got[0].LostMax, max(tt.most, tt.lost*115/100)) {
				t.Errorf("%s to %s", got[0].LostMin, got[0].LostMax)
			}
			if c := got[0].Culprits; len(c) != 1 || c[0].Thread.PID != serverPID || c[0].Lost != got[0].Lost {
				t.Errorf("culprits: %+v", c)
			}
		})
	}
}

// The culprit is the server's process that ran for most of the time in which the engine waited.
func TestFrontEnd(t *testing.T) {
	f := frontEnd{waits: 220 * time.Millisecond}
	s := f.serve()
	on := func(pid uint32, ms uint64) tick.Share {
		return tick.Share{Reason: events.ReasonSocket, Who: events.Thread{PID: serverPID, TID: serverPID},
			Waker: &tick.WakerShare{Times: tick.Times{OnCPU: ms}, Root: events.Thread{PID: pid, TID: pid, Parent: map[uint32]uint32{12: serverPID}[pid]}}}
	}
	s.breakdowns = []tick.Breakdown{{PID: engineTID, BlockedOn: []tick.Share{on(90, 9), on(12, 7), on(serverPID, 3)}}}
	if got := s.chains("frontend-slow"); len(got) != 1 || got[0].Culprits[0].Thread.PID != 12 || got[0].Culprits[0].What == "" {
		t.Errorf("%+v", got)
	}
}
