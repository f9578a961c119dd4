package causal

import (
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// mild is the multiple of the usual share that a job's workers must cost for the same severity:
	// the job was set up to share CPUs with them, and some of that is always there.
	mild = 4
	// ownShare is the smallest share of the window to report, as for workers that are waited for:
	// see inputWait. Threads of a healthy job share its CPUs, too.
	ownShare = 0.05
	// ownPeak is the smallest share of a peak to report although the loss is small over the window.
	ownPeak = 0.1
)

var ownThreads = Rule{
	Name: "own-threads", Needs: NeedWaits, Share: 0.01, Slow: 3, Problems: []string{"2", "8"},
	Vague: 0.25, // some of it is always there
	Doc:   "Other threads of the job, or its workers or ranks, ran on the CPU: the job has more runnable threads than CPUs.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitRunnable && (p.own() || p.Relation.InOtherProcessOfJob() && !p.crowdedWorker())
		},
		Baseline: func(*Part) baseline { return baselineShared },
		Key:      func(p *Part) Key { return Key{ID: p.Who.TID} },
		Blame:    func(*Part) (group, what string) { return "own", "" },
		Word:     "own threads",
	},
	Find: claimed(func(w *Window, x *Finding) bool {
		var all, others time.Duration
		for i := range x.Culprits {
			c := &x.Culprits[i]
			if all += c.Lost; c.Root.Whose.InOtherProcessOfJob() {
				others += c.Lost
			}
		}
		if 2*others > all {
			x.Severity = severity(float64(x.Lost)/mild, float64(x.Window))
		}
		return float64(x.Lost) >= ownShare*float64(x.Window) || x.peak >= ownPeak*peakSeconds*float64(time.Second) || w.holdsLock(x)
	}),
}

// holdsLock reports whether the main culprit of a finding is also reported as the holder of a lock
// that the job waited for. Its CPU time is then a part of what it cost.
func (w *Window) holdsLock(x *Finding) bool {
	return slices.ContainsFunc(w.foundBy(lockWait.Name), func(o *Finding) bool {
		return o.PID == x.PID && len(o.Culprits) > 0 && len(x.Culprits) > 0 && o.Culprits[0].Thread.TID == x.Culprits[0].Thread.TID
	})
}

// crowdedWorker reports whether another worker kept the worker that makes the victim's input from a
// CPU. Both compute, and all of them are too slow.
func (p *Part) crowdedWorker() bool {
	return p.State == events.WaitRunnable && p.Relation == tick.RelationWorker && p.ViaRelation == tick.RelationWorker && p.isInputWait()
}
