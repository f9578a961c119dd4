package causal

import "ingero/pkg/events"

var cpuStolen = Rule{
	Name: "cpu-stolen", Needs: NeedWaits, Share: 0.02, Slow: 3, Problems: []string{"8", "12", "18"},
	Doc: "The machine is a virtual one, and its hypervisor let others have a CPU while a thread of the job was on it.",
	Claims: &Claims{
		Part:     func(p *Part) bool { return p.State == events.WaitRunnable && p.Reason == events.ReasonHypervisor },
		Baseline: zeroBaseline,
		Key:      func(*Part) Key { return Key{} },
		Blame:    func(*Part) (group, what string) { return "", "the hypervisor" },
	},
}
