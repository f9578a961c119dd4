package causal

import "ingero/internal/govern"

// callSlow requires twice the usual share: everything that a busy machine does to a thread on its
// CPU (caches, a hypervisor) looks like this.
var callSlow = Rule{
	Name: "call-slow", Sees: govern.LaunchTimes | govern.QuickTimes, Dims: govern.EachLaunch | govern.EachQuick, Needs: NeedCalls, Share: 0.02, Slow: 3, Problems: []string{"12"},
	Doc: "A call took longer than usual, and no wait on the host explains it.",
	Claims: &Claims{
		Part:  func(p *Part) bool { return p.State == 0 && p.Op != 0 },
		Key:   func(p *Part) Key { return Key{Op: p.Op, Size: p.Size} },
		Blame: func(p *Part) (group, what string) { return p.Op.String(), p.Op.String() },
		Word:  "slow calls",
	},
	Find: claimed(notAtStart),
}
