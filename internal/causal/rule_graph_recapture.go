package causal

import (
	"fmt"
	"time"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
)

// captureSteps are steps that capture a graph after another graph was launched. If all steps do,
// the cost is the time of the calls. torch.cuda.graph synchronizes the device before each capture,
// so a capture is often a step of its own.
var captureSteps = stepKind{class: graphOp, allExtra: true, apart: true, match: func(x *step, _ use, p *process) bool {
	return x.marks&ledger.MarkCapture != 0 && p.firstGraph != 0 && x.to() > p.firstGraph
}}

var graphRecapture = Rule{
	Name: "graph-recapture", Sees: govern.LaunchTimes, Needs: NeedCalls, Share: 0.01, Problems: []string{"6b"},
	Doc:     "Graphs are captured and instantiated again while the job runs, for example for a new batch size.",
	Instead: []string{"call-slow"},
	Find: servedOr((*Window).recaptured, eachProcess(5e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, &captureSteps)
		if y.steps < 2 || w.cost(b.PID, &noRoomSteps).steps*2 >= y.steps {
			return x, false
		}
		return y.finding(fmt.Sprintf("%.0f captures between launches", y.steps)), true
	})),
}

// recaptured adds up the steps of a server's engine that captured graphs while requests waited, and
// the steps right before them that ran the kernels once. A usual step for tokens is no loss.
func (w *Window) recaptured(s *Server, steps []step) (x Finding, ok bool) {
	token, ok := medianOf(steps, (*step).tokens, w.e.alone)
	if !ok {
		return x, false
	}
	process := w.process(w.e.series[s.Engine].pid)
	times, captures, delayed := s.times(), 0.0, 0.0
	warm := times.warmUps(steps)
	for i := range steps {
		p := &steps[i]
		waiting, lost, most := times.waiting(p), w.e.alone(p), p.busy()
		switch {
		case waiting == 0:
			continue
		case captureSteps.match(p, use{}, process):
			captures += p.weight
			lost, most = lost-token, most-token
		case !warm[p.to()]:
			continue
		}
		x.charge(p, lost, lost, most)
		x.Slow++
		delayed += p.weight * float64(max(most, 0)) * waiting
	}
	if captures == 0 {
		return x, false
	}
	x.Slow, x.Baseline = int(captures+0.5), "a usual step for tokens takes "+span(token)
	x.Culprits = []tick.Culprit{{What: fmt.Sprintf("%d captures while requests were running, which waited %s in all", x.Slow, span(int64(delayed))), Lost: time.Duration(x.Lost)}}
	return x, true
}
