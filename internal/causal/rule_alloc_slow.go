package causal

import "ingero/pkg/events"

var allocSlow = Rule{
	Name: "alloc-slow", Needs: NeedCalls, Share: 0.01, Slow: 3, Problems: []string{"3", "6", "10"},
	Doc: "Some allocations went to the driver and were slow there, while the GPU was idle.",
	Claims: &Claims{
		Part:        func(p *Part) bool { return p.State == 0 && classOf(p.Op) == events.ClassMalloc },
		MaxBaseline: 2_000_000,
		Key:         func(p *Part) Key { return Key{Op: p.Op} },
		Blame:       func(p *Part) (group, what string) { return "alloc", p.Op.String() },
		Word:        "allocations",
	},
	Find: better(slowCalls(mallocOp), claimed(notAtStart)),
}
