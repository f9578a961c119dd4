package causal

import (
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// mild is the multiple of the usual share that a job's workers must cost for the same severity:
	// the job was set up to share CPUs with them, and some of that is always there.
	mild = 4
	// workersShare is the smallest share of the window to report, as for workers that are waited
	// for: see inputWait.
	workersShare = 0.05
)

var ownThreads = Rule{
	Name: "own-threads", Needs: NeedWaits, Share: 0.01, Slow: 3, Problems: []string{"2", "8"},
	Vague: 0.25, // some of it is always there
	Doc:   "Other threads of the job, or its workers or ranks, ran on the CPU: the job has more runnable threads than CPUs.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitRunnable && (p.own() || p.Relation.InOtherProcessOfJob() && !p.crowdedWorker())
		},
		Baseline: zeroBaseline,
		Key:      func(p *Part) Key { return Key{ID: p.Who.TID} },
		Blame:    func(*Part) (group, what string) { return "own", "" },
		Word:     "own threads",
	},
	Find: claimed(func(_ *Window, x *Finding) bool {
		var all, others time.Duration
		for i := range x.Culprits {
			c := &x.Culprits[i]
			if all += c.Lost; c.Root.Whose.InOtherProcessOfJob() {
				others += c.Lost
			}
		}
		if 2*others <= all {
			return true
		}
		x.Severity = severity(float64(x.Lost)/mild, float64(x.Window))
		return float64(x.Lost) >= workersShare*float64(x.Window) || float64(burstOf(x.spread)) >= burstShare*workersShare*float64(tick.SpreadStep)
	}),
}

// crowdedWorker reports whether another worker kept the worker that makes the victim's input from a
// CPU. Both compute, and all of them are too slow.
func (p *Part) crowdedWorker() bool {
	return p.State == events.WaitRunnable && p.Relation == tick.RelationWorker && p.ViaRelation == tick.RelationWorker && p.isInputWait()
}

// burstOf returns the largest loss in two successive bins.
func burstOf(spread []tick.Loss) (most time.Duration) {
	for i := range spread {
		two := spread[i].Lost
		if i+1 < len(spread) {
			two += spread[i+1].Lost
		}
		most = max(most, two)
	}
	return most
}
