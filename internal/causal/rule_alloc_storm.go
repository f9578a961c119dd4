package causal

import "fmt"

const stormCalls = 16 // minimum of allocations and frees in a step

// stormSteps are steps with many allocations and frees.
var stormSteps = stepKind{class: memoryOp, match: func(_ *step, u use, _ *process) bool { return u.calls >= stormCalls }}

var allocStorm = Rule{
	Name: "alloc-storm", Needs: NeedCalls, Share: 0.015, Problems: []string{"3", "6"},
	Doc:     "Each step allocates and frees memory many times. No single call is slow, but their sum is.",
	Instead: []string{"alloc-slow", "free-waits", "call-slow"},
	Find: costly(&stormSteps, 10, memoryOp, func(y *cost) string {
		return fmt.Sprintf("%.0f allocations and frees a step", y.calls/y.steps)
	}),
}
