package causal

import (
	"ingero/internal/govern"
	"ingero/pkg/events"
)

var graphPool = Rule{
	Name: "graph-pool", Sees: govern.LaunchTimes, Dims: govern.EachLaunch, Needs: NeedCalls, Share: 0.01, Slow: 3, Problems: []string{"6b"},
	Doc: "Graph launches take much longer than before, because each launch must make room in the graphs' memory pool.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == 0 && classOf(p.Op) == events.ClassLaunch && p.Op.Source() == events.SourceGraph
		},
		Key:   func(p *Part) Key { return Key{Op: p.Op} },
		Blame: func(p *Part) (group, what string) { return "graph", p.Op.String() },
	},
	Find: claimed(notAtStart),
}
