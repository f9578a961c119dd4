package causal

import (
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// emptyCapture is the longest duration of a capture without content, ns.
const emptyCapture = 1_000_000

var graphWarmup = Rule{
	Name: "graph-warmup", Sees: govern.EachLaunch, Rests: govern.EachLaunch, Needs: NeedState, Problems: []string{"6b", "19"},
	Doc: "A graph was captured before its kernels had run once. A library that initializes during the capture ends it or leaves it empty (0.9: graph-capture-warmup).",
	Find: func(w *Window) (out []Finding) {
		for i := range w.Tick.States {
			s := &w.Tick.States[i]
			for j := range s.Graphs.First {
				g := &s.Graphs.First[j]
				if g.Captured == 0 || g.CaptureNS <= 0 || g.CaptureNS >= emptyCapture || g.CaptureLaunches > 0 || !g.Cold && !g.CaptureFailed ||
					w.Now()-g.Captured > windowSeconds*1e9 {
					continue
				}
				word := "is empty"
				if g.CaptureFailed {
					word = "fails"
				}
				out = append(out, Finding{
					PID: s.PID, TID: g.CaptureTID, From: g.Captured, To: g.Captured + g.CaptureNS, Lost: g.CaptureNS,
					Severity: tick.Medium, Confidence: 0.8, Baseline: "captures that contain launches",
					Culprits: []tick.Culprit{{What: "a capture of " + span(g.CaptureNS) + " without a launch", Lost: time.Duration(g.CaptureNS)}},
					Timeline: []tick.Moment{moment(g.Captured, "CUDA", "a capture of %s without a launch %s", span(g.CaptureNS), word)},
				})
				break
			}
		}
		return out
	},
}
