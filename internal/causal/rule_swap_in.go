package causal

import (
	"strings"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var swapIn = Rule{
	Name: "swap-in", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"2", "18"},
	Doc: "Pages of the job's memory had been thrown out to swap, and it waited for them to be read back.",
	Of:  []string{diskWait.Name},
	When: func(c *tick.Chain, f *Facts) bool {
		if !ofPages(c) || f.sum(tick.HostSwapIn, 0, c).Count == 0 || limited(c, f) {
			return false
		}
		f.addFaults(c, 0)
		if who, ok := f.allocator(c.PID, c); ok {
			c.Culprits = append([]tick.Culprit{who}, c.Culprits...)
		}
		return true
	},
}

// addFaults adds the CPU time to a chain that the pages took which its victim waited for, but
// for what is told otherwise. Part of it may be of something else.
func (f *Facts) addFaults(c *tick.Chain, told time.Duration) {
	more := max(f.cpuBeside(c)-told, 0)
	c.Lost += more
	c.LostMax += more + more/4
	c.Confidence = min(c.Confidence*float64(c.Lost)/float64(max(c.Lost-more, 1)), 1)
	c.Excess = max(c.Excess, c.Lost)
}

// ofPages says whether the waits of a chain are for pages of memory.
func ofPages(c *tick.Chain) bool {
	return len(c.Culprits) > 0 && strings.Contains(c.Culprits[0].What, "a page of memory")
}

// limited says whether the process of a chain met the memory limit of its cgroup.
func limited(c *tick.Chain, f *Facts) bool {
	return f.sum(tick.HostCgroupReclaim, c.PID, c).Count > 0
}
