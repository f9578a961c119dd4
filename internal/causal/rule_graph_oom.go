package causal

import (
	"fmt"

	"ingero/internal/ledger"
	"ingero/internal/tick"
)

var graphOOM = Rule{
	Name: "graph-oom", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"6b", "3"},
	Doc:     "An allocation failed during a graph capture because the GPU was out of memory, and the capture was lost.",
	Instead: []string{"gpu-oom", "gpu-fragmentation", "kv-cache-pressure", "graph-recapture", "alloc-slow", "free-waits", "call-slow"},
	Find: eachProcess(5e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, &noRoomSteps)
		if y.worst.record == nil || y.worst.marks&ledger.MarkCapture == 0 {
			return x, false
		}
		x = y.finding(fmt.Sprintf("%.0f captures that ran out of memory", y.steps))
		x.outOfMemory(w, b)
		return x, true
	}),
}

// outOfMemory adds the failed allocation to the finding.
func (x *Finding) outOfMemory(w *Window, b *ProcessHistory) {
	s := w.State(b.PID)
	if s == nil || s.Memory.LastOOM.Time == 0 {
		return
	}
	o := &s.Memory.LastOOM
	x.Op = o.Op
	x.Timeline = append(x.Timeline, moment(o.Time, "CUDA", "%s of %s fails: %s held, peak %s", o.Op, bytesText(o.Size), bytesText(o.Live), bytesText(o.Peak)))
	if b.Ended != 0 && b.Ended-o.Time < 2e9 { // the process did not survive it
		x.Severity = tick.High
	}
}
