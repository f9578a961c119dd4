package causal

import (
	"strings"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var swapIn = Rule{
	Name: "swap-in", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"2", "18"},
	Doc: "Pages of the job had been swapped out, and the job waited until they were read back.",
	Find: takeOver([]string{diskWait.Name}, func(w *Window, x *Finding) bool {
		if !x.isPageWait() || !w.readSwap(x) || w.limited(x) {
			return false
		}
		w.addFaults(x, 0)
		if who, ok := w.allocator(x); ok {
			x.Culprits = append([]tick.Culprit{who}, x.Culprits...)
		}
		return true
	}),
}

// readSwap reports whether the pages of a finding may have come from swap. If the whole machine read
// fewer than half as many pages from swap as the process waited for, most of these came from files.
func (w *Window) readSwap(x *Finding) bool {
	pages := w.sum(tick.HostSwapIn, 0, x).Count
	return pages > 0 && 2*pages >= w.sum(tick.HostMajorFault, x.PID, x).Count
}

// addFaults adds the CPU time of the page faults that the victim waited for, minus what is
// reported elsewhere (ns). Part of it may have other causes.
func (w *Window) addFaults(x *Finding, reported int64) {
	more := min(max(w.cpuBeside(x)-reported, 0), max(x.Window-x.Lost, 0))
	x.scaleSpread(float64(x.Lost+more) / float64(max(x.Lost, 1)))
	x.Lost += more
	x.Max = max(x.Max, min(x.Max+more+more/4, x.Window))
	x.Confidence = min(x.Confidence*float64(x.Lost)/float64(max(x.Lost-more, 1)), 1)
	x.excess = max(x.excess, x.Lost)
	x.onCPU = true
}

// isPageWait reports whether the waits of a finding are for pages of memory.
func (x *Finding) isPageWait() bool {
	return len(x.Culprits) > 0 && strings.Contains(x.Culprits[0].What, "a page of memory")
}

// limited reports whether the process of a finding hit its cgroup's memory limit.
func (w *Window) limited(x *Finding) bool {
	return w.sum(tick.HostCgroupReclaim, x.PID, x).Count > 0
}
