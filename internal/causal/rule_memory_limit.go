package causal

import (
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var memoryLimit = Rule{
	Name: "memory-limit", Sees: govern.HostEvents, Needs: NeedHost, Share: 0.01, Problems: []string{"18"},
	Doc: "The job's cgroup was at its memory limit: the kernel had it look for pages to give back, and read back what it needed again.",
	Find: both(reclaimed(tick.HostCgroupReclaim), takesOver([]string{diskWait.Name}, func(w *Window, x *Finding) bool {
		if !x.ofPages() || !w.limited(x) {
			return false
		}
		w.addFaults(x, int64(w.sum(tick.HostCgroupReclaim, x.PID, x).NS))
		x.Culprits = append([]tick.Culprit{{What: w.limitOf(x.PID), Lost: time.Duration(x.Lost)}}, x.Culprits...)
		return true
	})),
}

// limitOf names the memory limit of a process.
func (w *Window) limitOf(pid uint32) string {
	for i := range w.Tick.Processes {
		if p := &w.Tick.Processes[i]; p.PID == pid && p.Cgroup != "" && p.Cgroup != "/" {
			return "memory limit of " + p.Cgroup
		}
	}
	return "memory limit of its cgroup"
}
