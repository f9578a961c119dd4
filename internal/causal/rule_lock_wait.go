package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/pkg/events"
)

var lockWait = Rule{
	Name: "lock-wait", Sees: govern.LaunchCounts, Needs: NeedWaits, Share: 0.01, Slow: 3, Problems: []string{"8"},
	Doc: "The job waited for a lock, or for another thread to finish.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitBlocked && (p.Root == events.ReasonLock || p.Root == events.ReasonGIL || p.isThreadWait() && p.isInputWait())
		},
		// Threads of a process hand work to each other, and wait until it is done.
		Baseline: func(p *Part) baseline {
			if p.isThreadWait() {
				return baselineHandOver
			}
			return baselineLearned
		},
		Key: func(p *Part) Key {
			if p.Via.TID != 0 {
				return Key{ID: p.Via.TID, Reason: p.Reason}
			}
			return Key{ID: p.Who.TID}
		},
		Blame: func(p *Part) (group, what string) {
			if p.Via.TID != 0 {
				return "lock", blockedItself(p.Reason)
			}
			return "lock", "held a lock, or had not finished"
		},
		Started: true,
		Word:    "locks",
	},
	// The first waits of a server for a thread that receives requests end before it has a known client.
	Find: claimed(func(w *Window, x *Finding) bool {
		c := &x.Culprits[0]
		receives := c.Own && (c.What == blockedItself(events.ReasonSocket) || c.What == blockedItself(events.ReasonPoll))
		return !receives || !w.e.relations.serves[x.PID]
	}),
}

// blockedItself says why a thread that the victim waited for was blocked.
func blockedItself(why events.Reason) string { return fmt.Sprintf("was blocked itself: %s", why) }
