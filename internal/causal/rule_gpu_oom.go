package causal

import (
	"fmt"

	"ingero/internal/ledger"
	"ingero/internal/tick"
)

var gpuOOM = Rule{
	Name: "gpu-oom", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"3"},
	Doc:     "An allocation failed because the GPU was out of memory.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "call-slow", "memory-leak"},
	Find:    noRoom(func(w *Window, b *ProcessHistory, m *tick.Memory) bool { return !m.LastOOM.Fragmented && w.notFull(b) }, "failed allocations"),
}

// noRoomSteps are steps in which an allocation fails for lack of memory, and the steps after them.
var noRoomSteps = stepKind{class: noOp, allExtra: true, extra: true, match: func(x *step, _ use, _ *process) bool {
	return x.marks&(ledger.MarkNoMemory|markAfter) != 0
}}

// noRoom returns a Find of steps in which an allocation failed outside of captures.
func noRoom(match func(w *Window, b *ProcessHistory, m *tick.Memory) bool, what string) func(*Window) []Finding {
	return eachProcess(5e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		s := w.State(b.PID)
		if s == nil || s.Memory.OOMs == 0 || !match(w, b, &s.Memory) {
			return x, false
		}
		y := w.cost(b.PID, &noRoomSteps)
		if y.worst.record != nil && y.worst.marks&ledger.MarkCapture != 0 {
			return x, false
		}
		x = y.finding(fmt.Sprintf("%d %s", s.Memory.OOMs, what))
		x.outOfMemory(w, b)
		if y.worst.record == nil { // no steps, or the failure was before the first
			x.From, x.To, x.Window = s.Memory.LastOOM.Time, s.Memory.LastOOM.Time, 0
			return x, w.Now()-x.To <= windowSeconds*1e9
		}
		return x, true
	})
}
