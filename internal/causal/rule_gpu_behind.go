package causal

import (
	"ingero/internal/govern"
	"ingero/pkg/events"
)

// queueLength is the number of launches that a stream holds before the next launch blocks.
const queueLength = 1000

var gpuBehind = Rule{
	Name: "gpu-behind", Sees: govern.LaunchTimes, Dims: govern.EachLaunch, Needs: NeedCalls, Problems: []string{"8"},
	Doc: "The launch queue was full, so launches waited for the GPU. The host is ahead of the GPU and is not the cause.",
	Find: takeOver([]string{callSlow.Name, driverSlow.Name}, func(w *Window, x *Finding) bool {
		return classOf(x.Op) == events.ClassLaunch && w.queueFull(x)
	}),
}

// queueFull reports whether most slow steps of a finding made as many launches as a stream holds,
// without waiting for any.
func (w *Window) queueFull(found *Finding) bool {
	_, steps := w.steps(found.PID)
	var all, full float64
	for i := range steps {
		x := &steps[i]
		if x.lost == 0 || x.to() < found.From || x.from > found.To {
			continue
		}
		all += x.weight
		if x.launches >= queueLength {
			full += x.weight
		}
	}
	return full > all/2
}
