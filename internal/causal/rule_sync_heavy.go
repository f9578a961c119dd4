package causal

import (
	"fmt"

	"ingero/internal/govern"
)

const (
	syncsASecond = 1000    // of tiny steps
	syncsOfSteps = 0.8     // share of all steps that are tiny
	syncStep     = 500_000 // longest tiny step, ns
	manyLaunches = 8       // in a step with a single wait
)

var syncHeavy = Rule{
	Name: "sync-heavy", Sees: govern.LaunchCounts, Needs: NeedCalls, Share: 0.05, Problems: []string{"8", "12"},
	Doc: "The host waits for the GPU after every launch or two. The GPU is idle while the host prepares the next launch.",
	Find: eachProcess(2e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.syncs(b.PID)
		if y.steps < syncsASecond || y.steps < syncsOfSteps*y.all || y.steps*1e9 < syncsASecond*float64(y.last-y.first) {
			return x, false
		}
		x = y.finding(fmt.Sprintf("%.0f waits a second, %s apart", y.steps*1e9/float64(y.last-y.first), span(int64(y.own/y.steps))))
		x.Op, x.Baseline = y.worst.op, "host and GPU working at the same time"
		x.Confidence = 0.7
		return x, true
	}),
}

// syncs adds up the cost of waiting after each launch: the GPU idles while the host makes the next
// launch, and the host idles while the GPU works. If the thread also has steps of many launches,
// these show what a launch takes.
func (w *Window) syncs(pid uint32) *cost {
	y := &cost{process: w.process(pid)}
	var host, gpu, launches float64
	var waits, each []weighted
	for i := range y.list {
		x := &y.list[i]
		switch {
		case x.period:
		case !x.graphs() && x.launches >= 1 && x.launches <= 2 && x.length < syncStep:
			y.steps += x.weight
			host += x.weight * float64(x.length-x.gpu)
			gpu += x.weight * float64(x.gpu)
			launches += x.weight * float64(x.launches)
			waits = append(waits, weighted{x.gpu, x.weight})
			y.see(x, use{}, x.length)
		case x.launches >= manyLaunches:
			each = append(each, weighted{x.length / int64(x.launches), x.weight})
		}
	}
	y.own, y.without = host+gpu, y.p99
	if len(each) >= minFree {
		y.compared, y.base = true, quantile(each, 0.5)
		y.lost = max(host+gpu-launches*float64(y.base), 0)
		y.min, y.max = y.lost, y.lost
		return y
	}
	// The shortest waits are the GPU's own time; the others include the way there and back.
	work := y.steps * float64(quantile(waits, baselineQuantile))
	y.lost = host + gpu - max(host, work)
	y.min, y.max = min(host, gpu), gpu
	return y
}
