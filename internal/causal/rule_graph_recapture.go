package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/internal/ledger"
)

// captureSteps are steps that capture a graph after another graph was launched. If all steps do,
// the cost is the time of the calls.
var captureSteps = stepKind{class: graphOp, allExtra: true, match: func(x *step, _ use, p *process) bool {
	return x.marks&ledger.MarkCapture != 0 && p.firstGraph != 0 && x.to() > p.firstGraph
}}

var graphRecapture = Rule{
	Name: "graph-recapture", Sees: govern.LaunchTimes, Needs: NeedCalls, Share: 0.01, Problems: []string{"6b"},
	Doc:     "Graphs are captured and instantiated again while the job runs, for example for a new batch size.",
	Instead: []string{"call-slow"},
	Find: eachProcess(5e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, &captureSteps)
		if y.steps < 2 || w.cost(b.PID, &noRoomSteps).steps*2 >= y.steps {
			return x, false
		}
		return y.finding(fmt.Sprintf("%.0f captures between launches", y.steps)), true
	}),
}
