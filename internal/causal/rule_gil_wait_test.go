package causal

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The work of the thread that holds the GIL also costs the waits for its results, if it is not blocked itself.
func TestHolderOfTheGILIsAwaited(t *testing.T) {
	busy := tick.WakerShare{Times: tick.Times{OnCPU: uint64(5 * ms)}}
	asleep := tick.WakerShare{Times: tick.Times{Blocked: uint64(5 * ms)}, Reason: events.ReasonSleep}
	other := events.Thread{PID: 7, TID: 9, Name: events.NameOf("other")}
	third := events.Thread{PID: 7, TID: 10, Name: events.NameOf("third")}
	for _, tt := range []struct {
		name  string
		who   events.Thread
		share tick.WakerShare
		turns bool // two other threads compute now and then
		want  []string
	}{
		{"the holder computes", helper, busy, false, []string{"gil-wait"}},
		{"the holder sleeps", helper, asleep, false, []string{"gil-wait", "lock-wait"}},
		{"another thread computes", other, busy, false, []string{"gil-wait", "lock-wait"}},
		{"the holder, and two others in turns", helper, busy, true, []string{"gil-wait", "lock-wait"}},
	} {
		steps := onGPU(1000, func(i int, s *ledger.Step) {
			if i%10 != 0 || i < 500 {
				return
			}
			who := tt.who
			if tt.turns && i%40 == 0 {
				who = []events.Thread{other, third}[i/40%2]
			}
			s.To += 10 * ms
			s.Parts.Blocked[events.ReasonGIL], s.Parts.Blocked[events.ReasonLock] = 5*ms, 5*ms
			s.Waits = []ledger.Wait{
				{NS: 5 * ms, Count: 1, First: s.From, Last: s.From + 5*ms, Who: helper, State: events.WaitBlocked, Reason: events.ReasonGIL, Waker: busy},
				{NS: 5 * ms, Count: 1, First: s.From + 5*ms, Last: s.From + 10*ms, Who: who, State: events.WaitBlocked, Reason: events.ReasonLock, Waker: tt.share},
			}
		})
		e := New(1)
		e.Add(steps)
		got := chainsOf(e, steps[len(steps)-1].To)
		var rules []string
		for i := range got {
			rules = append(rules, got[i].Rule)
		}
		slices.Sort(rules)
		if !slices.Equal(rules, tt.want) || len(rules) == 1 && (int64(got[0].Lost) < 490*ms || int64(got[0].Lost) > 510*ms || len(got[0].Culprits) != 1) {
			show(t, got)
			t.Errorf("%s: chains %v, want %v, all of the loss in the first", tt.name, rules, tt.want)
		}
	}
}

// A wait for a lock that another rule describes more exactly stays one: that rule drops it.
func TestHolderOfTheGILInAJobThatCannotGoOn(t *testing.T) {
	for _, hit := range []bool{false, true} {
		w := New(1).window(&tick.Tick{Time: time.Unix(0, start)})
		add := func(r *Rule, what string) Finding {
			x := Finding{PID: 7, TID: 7, From: start - s1, To: start, Lost: s1, judged: true,
				Culprits: []tick.Culprit{{Thread: helper, Own: true, What: what, Lost: time.Second}}}
			x.assign(r)
			n := ruleNamed(r.Name)
			w.claimed[n] = []Finding{x}
			return x
		}
		add(&gilWait, "held the GIL")
		add(&lockWait, holdsLock)
		if fault := add(&xidFault, ""); hit {
			w.ran[ruleNamed(xidFault.Name)], w.found[ruleNamed(xidFault.Name)] = true, []*Finding{&fault}
		}
		if got := len(w.foundBy(gilWait.Name)); got != 2 && !hit || got != 1 && hit {
			t.Errorf("a fault %v: %d findings of gil-wait", hit, got)
		}
	}
}
