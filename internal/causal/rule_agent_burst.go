package causal

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// A burst has burstTimes times the launches of an ordinary step, and at least burstLaunches more.
const (
	burstTimes    = 4
	burstLaunches = 16
)

// agentBurst is for jobs that query peers. A training loop that sometimes evaluates also has long
// steps, but these are no loss.
var agentBurst = Rule{
	Name: "agent-burst", Sees: govern.HostEvents | govern.LaunchCounts, Needs: NeedCalls | NeedHost, Share: 0.02, Problems: []string{"5", "12"},
	Doc: "A job that serves agent sessions had bursts of work: some steps made many times the usual number of launches.",
	Find: func(w *Window) (out []Finding) {
		for _, b := range w.Histories() {
			if _, ok := w.busiestPeer(&Finding{PID: b.PID}); !ok {
				continue
			}
			if x, ok := bursts(w, b.PID); ok {
				out = append(out, x)
			}
		}
		return out
	},
}

func bursts(w *Window, pid uint32) (x Finding, ok bool) {
	tid, steps := w.steps(pid)
	launches := make([]weighted, 0, len(steps))
	for i := range steps {
		launches = append(launches, weighted{int64(steps[i].launches), steps[i].weight})
	}
	usual := quantile(launches, 0.3)
	lengths := make([]weighted, 0, len(steps))
	bursting := func(s *step) bool { return int64(s.launches) >= burstTimes*usual+burstLaunches }
	for i := range steps {
		if !bursting(&steps[i]) {
			lengths = append(lengths, weighted{steps[i].length, steps[i].weight})
		}
	}
	normal := quantile(lengths, 0.5)
	x = Finding{PID: pid, TID: tid, Baseline: fmt.Sprintf("%d launches a step, %s", usual, span(normal))}
	var all, slow, lost, most float64
	var starts []int64
	for i := range steps {
		s := &steps[i]
		all += s.weight
		if !bursting(s) || s.length <= normal {
			continue
		}
		x.cover(s.from, s.to())
		x.spread.add(s.from, s.to(), s.weight*float64(s.length-normal))
		x.Op = s.op
		starts = append(starts, s.from)
		slow += s.weight
		lost += s.weight * float64(s.length-normal)
		most = max(most, float64(s.launches))
	}
	x.Lost, x.Steps, x.Slow = int64(lost), int(all+0.5), int(slow+0.5)
	x.Culprits = []tick.Culprit{{
		What: fmt.Sprintf("bursts of up to %.0f launches a step; usual: %d", most, usual), Lost: time.Duration(lost),
	}}
	return x, slow >= 3 && len(lengths) >= minLearn && !regular(starts, steps)
}

// regular reports whether bursts came at one pace throughout some steps, as those of a loop with an
// optimizer step after several smaller ones: the times between them are alike, and there is no long pause.
func regular(starts []int64, steps []step) bool {
	from, to := steps[0].from, steps[0].to()
	for i := range steps {
		from, to = min(from, steps[i].from), max(to, steps[i].to())
	}
	slices.Sort(starts)
	pauses := []int64{starts[0] - from, to - starts[len(starts)-1]}
	var between []weighted
	for i := 1; i < len(starts); i++ {
		between = append(between, weighted{starts[i] - starts[i-1], 1})
		pauses = append(pauses, starts[i]-starts[i-1])
	}
	low, high := quantile(between, 0.25), quantile(between, 0.75)
	var quiet int64
	for _, p := range pauses {
		if p > 10*high {
			quiet += p
		}
	}
	return high <= 2*low && quiet < (to-from)/4
}
