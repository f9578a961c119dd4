package causal

import "ingero/pkg/events"

var ownThreads = Rule{
	Name: "own-threads", Needs: NeedWaits, Share: 0.01, Slow: 3, Problems: []string{"2", "8"},
	Vague: 0.25, // some of it is always there
	Doc:   "Other threads of the job itself had the CPU: it has more of them ready than CPUs.",
	Claims: &Claims{
		Part:     func(p *Part) bool { return p.State == events.WaitRunnable && p.own() },
		Baseline: zeroBaseline,
		Key:      func(p *Part) Key { return Key{ID: p.Who.TID} },
		Blame:    func(*Part) (group, what string) { return "own", "" },
		Word:     "own threads",
	},
}
