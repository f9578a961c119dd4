package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

const copyShare = 0.10 // of a step

// copySteps are steps with a large share of copies that the thread waits for or makes itself.
var copySteps = stepKind{class: copyOp, match: func(x *step, u use, _ *process) bool { return float64(u.ns) >= copyShare*float64(x.length) }}

// copyHeavy requires a twelfth of the time: some copying is normal.
var copyHeavy = Rule{
	Name: "copy-heavy", Sees: govern.QuickTimes | govern.EachQuick, Needs: NeedCalls, Share: 0.08, Problems: []string{"23", "21"},
	Doc:     "The job spends much of its time waiting for copies while the GPU computes nothing.",
	Instead: []string{"call-slow"},
	Find: eachProcess(2e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, &copySteps)
		if y.steps < 10 || pageable(b, y) {
			return x, false
		}
		x = y.finding(fmt.Sprintf("copies: %.0f %% of these steps' time", 100*y.own/max(y.length, 1)))
		x.Op = y.worstOp(copyOp)
		return x, true
	}),
}

// pageable reports whether most copy time was spent on pageable memory, by the copies' addresses.
// If the addresses are unknown, the calls decide: they would return at once if the GPU could read
// the memory itself.
func pageable(b *ProcessHistory, y *cost) bool {
	all := b.delta(func(*tick.Copy) bool { return true })
	slow := b.delta(func(c *tick.Copy) bool { return c.Host == tick.HostPageable })
	unknown := b.delta(func(c *tick.Copy) bool { return c.Host == tick.HostUnknown })
	return slow.NS*2 > all.NS || unknown.NS*2 > all.NS && y.async*2 > y.own
}
