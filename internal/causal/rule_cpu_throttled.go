package causal

import "ingero/pkg/events"

var cpuThrottled = Rule{
	Name: "cpu-throttled", Word: "throttling", Needs: NeedWaits, Norm: noneIsNormal, Share: 0.01, Slow: 1, Problems: []string{"8", "13"},
	Doc:   "The job's cgroup had used up its CPU quota.",
	Match: func(p *Part) bool { return p.State == events.WaitThrottled },
	Key:   func(*Part) Key { return Key{} },
	Blame: func(*Part) (group, what string) { return "quota", "CPU quota" },
}
