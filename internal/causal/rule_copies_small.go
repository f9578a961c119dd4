package causal

import "fmt"

var copiesSmall = Rule{
	Name: "copies-small", Needs: NeedCalls, Share: 0.015, Problems: []string{"23"},
	Doc:     "Data goes to the GPU, or comes from it, in many small copies: what each costs beside its bytes is most of it.",
	Instead: []string{"copy-heavy", "copy-pageable", "call-slow"},
	Find: func(f *Facts) (out []Finding) {
		f.living(2e9, func(b *Book) {
			c := f.costs(b.PID)
			if y := &c.of[costPieces]; y.steps >= 10 {
				x := c.finding(b.PID, costPieces, fmt.Sprintf("%.0f copies a step", y.calls/y.steps))
				x.Op = y.worstOp(copyOp)
				out = append(out, x)
			}
		})
		return out
	},
}
