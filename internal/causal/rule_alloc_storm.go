package causal

import "fmt"

const stormCalls = 16 // minimum of allocations and frees in a step

// stormSteps are steps with many allocations and frees.
var stormSteps = stepKind{of: memoryOp, is: func(_ *step, u use, _ *process) bool { return u.calls >= stormCalls }}

var allocStorm = Rule{
	Name: "alloc-storm", Needs: NeedCalls, Share: 0.015, Problems: []string{"3", "6"},
	Doc:     "Memory is allocated and freed many times in each step: no call takes long, all together do.",
	Instead: []string{"alloc-slow", "free-waits", "call-slow"},
	Find: costly(&stormSteps, 10, memoryOp, func(y *cost) string {
		return fmt.Sprintf("%.0f allocations and frees a step", y.calls/y.steps)
	}),
}
