package causal

import (
	"fmt"

	"ingero/internal/govern"
)

const (
	manyPieces = 32 // copies per step
	pieceBytes = 64 << 10
)

// pieceSteps are steps with many small copies.
var pieceSteps = stepKind{class: copyOp, allExtra: true, sameLaunches: true, match: func(_ *step, u use, _ *process) bool {
	return u.calls >= manyPieces && u.most <= 2*pieceBytes
}}

var copiesSmall = Rule{
	Name: "copies-small", Sees: govern.QuickTimes | govern.EachQuick, Needs: NeedCalls, Share: 0.015, Problems: []string{"23"},
	Doc:     "Data is copied to or from the GPU in many small copies. Most of their time is the fixed cost of a copy.",
	Instead: []string{"copy-heavy", "copy-pageable", "call-slow"},
	Find: costly(&pieceSteps, 10, copyOp, func(y *cost) string {
		return fmt.Sprintf("%.0f copies a step", y.calls/y.steps)
	}),
}
