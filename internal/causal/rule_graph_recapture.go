package causal

import (
	"fmt"

	"ingero/internal/govern"
)

var graphRecapture = Rule{
	Name: "graph-recapture", Sees: govern.LaunchTimes, Needs: NeedCalls, Share: 0.01, Problems: []string{"6b"},
	Doc:     "Graphs are captured and instantiated anew while the job runs, as for a batch size that was not there before.",
	Instead: []string{"call-slow"},
	Find: func(w *Window) (out []Finding) {
		w.living(5e9, func(b *Book) {
			c := w.costs(b.PID)
			if y := &c.of[costCapture]; y.steps >= 2 && c.of[costNoRoom].steps*2 < y.steps {
				out = append(out, c.finding(b.PID, costCapture, fmt.Sprintf("%.0f captures between launches", y.steps)))
			}
		})
		return out
	},
}
