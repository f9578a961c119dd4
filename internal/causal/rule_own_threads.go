package causal

import (
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// mild is how many times the usual share the workers of a job have to cost it to be as grave:
	// that they share CPUs with it is how it was set up, and some of that is always there.
	mild = 4
	// workersShare is the least share of the window that they cost it to be told, as of workers that
	// are waited for: see inputWait.
	workersShare = 0.05
)

var ownThreads = Rule{
	Name: "own-threads", Needs: NeedWaits, Share: 0.01, Slow: 3, Problems: []string{"2", "8"},
	Vague: 0.25, // some of it is always there
	Doc:   "Other threads of the job itself, or its own workers and ranks, had the CPU: it has more of them ready than CPUs.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitRunnable && (p.own() || p.Whose.OtherOfJob() && !p.crowdedWorker())
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
			if all += c.Lost; c.Root.Whose.OtherOfJob() {
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

// crowdedWorker says whether a worker of the job that made the input which the victim waited for
// was kept from a CPU by another one: both compute, and all of them are too slow.
func (p *Part) crowdedWorker() bool {
	return p.State == events.WaitRunnable && p.Whose == tick.OfWorker && p.ViaWhose == tick.OfWorker && p.ofInput()
}

// burstOf returns the most that was lost in two stretches that follow each other.
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
