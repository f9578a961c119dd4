package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var copyPageable = Rule{
	Name: "copy-pageable", Sees: govern.QuickTimes | govern.EachQuick, Needs: NeedCalls | NeedState, Share: 0.02, Problems: []string{"23"},
	Doc:     "Copies use pageable host memory. The driver first copies the data on the CPU, and the calling thread waits.",
	Instead: []string{"copy-heavy", "call-slow"},
	Find: eachProcess(2e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, &copySteps)
		if y.steps < 10 || !pageable(b, y) {
			return x, false
		}
		slow := b.delta(func(c *tick.Copy) bool { return c.Host == tick.HostPageable || c.Host == tick.HostUnknown })
		x = y.finding(fmt.Sprintf("%d pageable copies, %s each", slow.Count, bytesText(slow.Bytes/max(slow.Count, 1))))
		x.Op = y.worstOp(copyOp)
		return x, true
	}),
}

// bytesText formats a number of bytes: "1.5 MiB".
func bytesText(n uint64) string {
	for _, u := range []struct {
		size uint64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.3g %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
