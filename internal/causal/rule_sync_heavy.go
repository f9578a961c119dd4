package causal

import (
	"fmt"

	"ingero/internal/govern"
)

const (
	syncsASecond = 1000 // of tiny steps
	syncsOfSteps = 0.8  // share of all steps that are tiny
)

var syncHeavy = Rule{
	Name: "sync-heavy", Sees: govern.LaunchCounts, Needs: NeedCalls, Share: 0.05, Problems: []string{"8", "12"},
	Doc: "The host waits for the GPU after each launch or two: the GPU idles while the next one is made.",
	Find: func(w *Window) (out []Finding) {
		w.living(2e9, func(b *Book) {
			c := w.costs(b.PID)
			y := &c.of[costSync]
			if y.steps < syncsASecond || y.steps < syncsOfSteps*c.all || y.steps*1e9 < syncsASecond*float64(y.last-y.first) {
				return
			}
			x := c.finding(b.PID, costSync, fmt.Sprintf("%.0f waits a second, %s apart", y.steps*1e9/float64(y.last-y.first), span(int64(y.own/y.steps))))
			x.Op, x.Baseline = y.worst.op, "host and GPU at work at the same time"
			x.Confidence = 0.7
			out = append(out, x)
		})
		return out
	},
}
