package causal

import "ingero/pkg/events"

var freeWaits = Rule{
	Name: "free-waits", Needs: NeedCalls, Share: 0.01, Slow: 3, Problems: []string{"3", "6"},
	Doc: "A call that frees memory blocked the host until the GPU had finished all queued work.",
	Claims: &Claims{
		Part:        func(p *Part) bool { return p.State == 0 && classOf(p.Op) == events.ClassFree },
		MaxBaseline: 500_000,
		Key:         func(p *Part) Key { return Key{Op: p.Op} },
		Blame:       func(p *Part) (group, what string) { return "free", p.Op.String() },
	},
	Find: better(slowCalls(freeOp), (*Window).Claimed),
}
