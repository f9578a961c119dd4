package causal

import "ingero/pkg/events"

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
}
