package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/internal/ledger"
)

// uploadSteps are steps in which memory is freed, allocated, and filled from the host.
var uploadSteps = stepKind{class: noOp, allExtra: true, match: func(x *step, _ use, _ *process) bool {
	const swap = ledger.MarkAlloc | ledger.MarkFree | ledger.MarkUpload
	return x.marks&swap == swap
}}

var modelSwap = Rule{
	Name: "model-swap", Sees: govern.QuickTimes | govern.EachQuick, Needs: NeedCalls, Share: 0.01, Problems: []string{"14"},
	Doc:     "Memory is repeatedly freed, allocated and filled with large amounts of data from the host: models take turns on the GPU.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "copy-heavy", "copy-pageable", "call-slow"},
	Find: costly(&uploadSteps, 2, copyOp, func(y *cost) string {
		return fmt.Sprintf("memory refilled %.0f times", y.steps)
	}),
}
