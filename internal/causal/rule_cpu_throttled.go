package causal

import (
	"ingero/internal/govern"
	"ingero/pkg/events"
)

var cpuThrottled = Rule{
	Name: "cpu-throttled", Dims: govern.HostEvents, Needs: NeedWaits, Share: 0.01, Slow: 1, Problems: []string{"8", "13"},
	Doc: "The job's cgroup used up its CPU quota, and the kernel throttled it.",
	Claims: &Claims{
		Part:     func(p *Part) bool { return p.State == events.WaitThrottled },
		Baseline: zeroBaseline,
		Key:      func(*Part) Key { return Key{} },
		Blame:    func(*Part) (group, what string) { return "quota", "CPU quota" },
		Word:     "throttling",
	},
	Find: claimed(throttledBy),
}
