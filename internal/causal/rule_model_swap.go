package causal

import "fmt"

var modelSwap = Rule{
	Name: "model-swap", Needs: NeedCalls, Share: 0.01, Problems: []string{"14"},
	Doc:     "Memory is freed, allocated and filled with much data from the host again and again: models take turns on the GPU.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "copy-heavy", "copy-pageable", "call-slow"},
	Find: func(f *Facts) (out []Finding) {
		f.living(5e9, func(b *Book) {
			c := f.costs(b.PID)
			if y := &c.of[costUpload]; y.steps >= 2 {
				x := c.finding(b.PID, costUpload, fmt.Sprintf("%.0f times data for other memory", y.steps))
				x.Op = y.worstOp(copyOp)
				out = append(out, x)
			}
		})
		return out
	},
}
