package causal

import "ingero/pkg/events"

var cpuStolen = Rule{
	Name: "cpu-stolen", Needs: NeedWaits, Share: 0.02, Slow: 3, Problems: []string{"8", "12", "18"},
	Doc: "The hypervisor of this virtual machine took a CPU away while a thread of the job ran on it (steal time).",
	Claims: &Claims{
		Part:     func(p *Part) bool { return p.State == events.WaitRunnable && p.Reason == events.ReasonHypervisor },
		Baseline: zeroBaseline,
		Key:      func(*Part) Key { return Key{} },
		Blame:    func(*Part) (group, what string) { return "", "the hypervisor" },
	},
}
