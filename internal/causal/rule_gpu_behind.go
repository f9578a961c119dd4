package causal

import (
	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// queueLength is how many launches a stream holds before the next waits for a place.
const queueLength = 1000

var gpuBehind = Rule{
	Name: "gpu-behind", Sees: govern.LaunchTimes, Needs: NeedCalls, Problems: []string{"8"},
	Doc: "The launch queue was full, so that launches waited for the GPU: the host is ahead of it and not to blame.",
	Of:  []string{callSlow.Name, driverSlow.Name},
	When: func(c *tick.Chain, f *Facts) bool {
		r := c.Op.Row()
		return r != nil && r.Class == events.ClassLaunch && f.queueFull(c)
	},
}

// queueFull says whether most of the slow steps of a chain made as many launches as a
// stream holds, without waiting for any.
func (f *Facts) queueFull(c *tick.Chain) bool {
	_, steps := f.steps(c.PID)
	var all, full float64
	for i := range steps {
		x := &steps[i]
		if x.lost == 0 || x.to() < c.From.UnixNano() || x.from > c.To.UnixNano() {
			continue
		}
		all += x.weight
		if x.launches >= queueLength {
			full += x.weight
		}
	}
	return full > all/2
}
