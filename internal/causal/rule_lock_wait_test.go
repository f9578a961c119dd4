package causal

import (
	"testing"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A job that polls for an own thread that sleeps has nothing to do, if that recurs all the time.
func TestPollsForSleeper(t *testing.T) {
	asleep := tick.WakerShare{Times: tick.Times{Blocked: uint64(400 * ms)}, Reason: events.ReasonSleep}
	for _, tt := range []struct {
		name       string
		reason     events.Reason // of the victim's wait
		share      tick.WakerShare
		steps, nth int // of the first steps, each nth waits
		beside     int // steps of another thread
		want       string
	}{
		{"all the time", events.ReasonPoll, asleep, 1000, 50, 0, ""},
		{"all the time, and what the thread did is unknown", events.ReasonPoll, tick.WakerShare{}, 1000, 50, 0, ""},
		{"all the time, beside a thread with more steps", events.ReasonPoll, asleep, 1000, 50, 2000, ""},
		{"for a while", events.ReasonPoll, asleep, 200, 5, 0, "lock-wait"},
		{"in two steps", events.ReasonPoll, asleep, 200, 100, 0, ""},
		{"the thread computes", events.ReasonPoll, tick.WakerShare{Times: tick.Times{OnCPU: uint64(400 * ms)}}, 1000, 50, 0, "lock-wait"},
		{"a lock", events.ReasonLock, asleep, 1000, 50, 0, "lock-wait"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps := with(tt.steps, tt.nth, 400*ms, ledger.Wait{NS: 400 * ms, State: events.WaitBlocked, Reason: tt.reason, Who: helper, Waker: tt.share})
			e := New(1)
			e.Add(steps)
			main := made(tt.beside, 0, 0, events.Thread{})
			for i := range main {
				main[i].TID = 9
			}
			e.Add(main)
			rest := moved(made(1001-tt.steps, 0, 0, events.Thread{}), steps[len(steps)-1].To-start)
			e.Add(rest)
			got := chainsOf(e, rest[len(rest)-1].To)
			if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) != 1 || got[0].Rule != tt.want) {
				show(t, got)
				t.Errorf("%d chains, want %q", len(got), tt.want)
			}
		})
	}
}
