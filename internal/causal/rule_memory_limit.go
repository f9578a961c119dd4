package causal

import (
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var memoryLimit = Rule{
	Name: "memory-limit", Sees: govern.HostEvents, Needs: NeedHost, Share: 0.01, Problems: []string{"18"},
	Doc: "The job's cgroup was at its memory limit: the job had to reclaim pages, and to read back pages that it needed again.",
	Find: joinFinds(reclaimed(tick.HostCgroupReclaim), takeOver([]string{diskWait.Name}, func(w *Window, x *Finding) bool {
		if !x.isPageWait() || !w.limited(x) {
			return false
		}
		w.addFaults(x, int64(w.sum(tick.HostCgroupReclaim, x.PID, x).NS))
		x.Culprits = append([]tick.Culprit{w.limitOf(x)}, x.Culprits...)
		return true
	})),
}

// limitOf returns the memory limit that a finding's process hit.
func (w *Window) limitOf(x *Finding) tick.Culprit {
	c := tick.Culprit{What: "memory limit of its cgroup", Lost: time.Duration(x.Lost)}
	for i := range w.Tick.Processes {
		if p := &w.Tick.Processes[i]; p.PID == x.PID && p.Cgroup != "" && p.Cgroup != "/" {
			c.What = "memory limit of " + p.Cgroup
		}
	}
	if l, ok := w.limit(x, tick.LimitMemory); ok {
		c.What, c.Limit = "memory limit of "+l.Group+": "+l.Value(), l
	}
	return c
}
