package causal

import (
	"slices"
	"time"

	"ingero/pkg/events"
)

var gilWait = Rule{
	Name: "gil-wait", Needs: NeedWaits, Share: 0.01, Slow: 3, Problems: []string{"8"},
	Doc: "A thread waited for Python's global interpreter lock (GIL), which another thread of the process held.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitBlocked && p.Root == events.ReasonGIL && p.Via.TID == 0
		},
		Baseline: zeroBaseline,
		Key:      func(p *Part) Key { return Key{ID: p.Who.TID} },
		Blame: func(p *Part) (group, what string) {
			return "gil", "held the GIL"
		},
	},
	Find: joinFinds((*Window).Claimed, takeOver([]string{lockWait.Name}, (*Window).takeHolder)),
}

// takeHolder reports whether a wait for a lock or a thread is for the thread that also held the GIL: its work
// costs both. The waits for other threads, if they are more than a tenth of the loss, are a loss of their own.
func (w *Window) takeHolder(x *Finding) bool {
	holder := &x.Culprits[0]
	var all time.Duration
	for i := range x.Culprits {
		all += x.Culprits[i].Lost
	}
	if !holder.Own || holder.What != holdsLock || 10*holder.Lost < 9*all || w.leavesOut(x) {
		return false
	}
	for _, o := range w.Claimed() {
		if o.PID == x.PID && o.TID == x.TID && 2*o.Lost >= x.Lost && o.Culprits[0].Thread.TID == holder.Thread.TID {
			x.Culprits = slices.Clone(x.Culprits)
			x.Culprits[0].What = "held the GIL, or had not finished"
			return true
		}
	}
	return false
}

// leavesOut reports whether another rule describes a finding more exactly: see Rule.Instead.
func (w *Window) leavesOut(x *Finding) bool {
	for r := range Rules {
		if slices.Contains(Rules[r].Instead, x.rule.Name) && slices.ContainsFunc(w.runRule(r), func(o *Finding) bool { return o.drops(x) }) {
			return true
		}
	}
	return false
}
