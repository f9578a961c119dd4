package causal

import (
	"fmt"
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
	for i := range steps {
		s := &steps[i]
		all += s.weight
		if !bursting(s) || s.length <= normal {
			continue
		}
		if x.From == 0 || s.from < x.From {
			x.From = s.from
		}
		x.To, x.Op = max(x.To, s.to()), s.op
		slow += s.weight
		lost += s.weight * float64(s.length-normal)
		most = max(most, float64(s.launches))
	}
	x.Lost, x.Steps, x.Slow = int64(lost), int(all+0.5), int(slow+0.5)
	x.Culprits = []tick.Culprit{{
		What: fmt.Sprintf("bursts of up to %.0f launches a step; usual: %d", most, usual), Lost: time.Duration(lost),
	}}
	return x, slow >= 3 && len(lengths) >= minLearn
}
