package causal

import (
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var memoryLimit = Rule{
	Name: "memory-limit", Sees: govern.HostEvents, Needs: NeedHost, Share: 0.01, Problems: []string{"18"},
	Doc: "The job's cgroup was at its memory limit: the kernel had it look for pages to give back, and read back what it needed again.",
	Of:  []string{diskWait.Name},
	When: func(c *tick.Chain, f *Facts) bool {
		if !ofPages(c) || !limited(c, f) {
			return false
		}
		f.addFaults(c, time.Duration(f.sum(tick.HostCgroupReclaim, c.PID, c).NS))
		c.Culprits = append([]tick.Culprit{{What: limitOf(c.PID, f), Lost: c.Lost}}, c.Culprits...)
		return true
	},
	Find: func(f *Facts) []Finding { return reclaimed(f, tick.HostCgroupReclaim) },
}

func limitOf(pid uint32, f *Facts) string {
	for i := range f.Tick.Processes {
		if p := &f.Tick.Processes[i]; p.PID == pid && p.Cgroup != "" && p.Cgroup != "/" {
			return "memory limit of " + p.Cgroup
		}
	}
	return "memory limit of its cgroup"
}
