package causal

import "fmt"

var allocStorm = Rule{
	Name: "alloc-storm", Needs: NeedCalls, Share: 0.015, Problems: []string{"3", "6"},
	Doc:     "Memory is allocated and freed many times in each step: no call takes long, all together do.",
	Instead: []string{"alloc-slow", "free-waits", "call-slow"},
	Find: func(f *Facts) (out []Finding) {
		f.living(2e9, func(b *Book) {
			c := f.costs(b.PID)
			if y := &c.of[costStorm]; y.steps >= 10 {
				x := c.finding(b.PID, costStorm, fmt.Sprintf("%.0f allocations and frees a step", y.calls/y.steps))
				x.Op = y.worstOp(memoryOp)
				out = append(out, x)
			}
		})
		return out
	},
}
