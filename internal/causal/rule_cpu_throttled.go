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
		Key:      func(p *Part) Key { return Key{ID: p.throttled()} },
		Blame:    func(*Part) (group, what string) { return "quota", "CPU quota" },
		Word:     "throttling",
	},
	Find: claimed(throttledBy),
}

// throttled returns the other process whose quota was used up, or 0 if it was the victim's own.
func (p *Part) throttled() uint32 {
	if p.Via.PID == p.Victim {
		return 0
	}
	return p.Via.PID
}
