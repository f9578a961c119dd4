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
		w.giveToInput(x)
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

// giveToInput moves what workers took to the finding that the job mostly waits for their input, if that one is
// larger: they compute for too long, whether the job waits for their input or for a CPU. If CPUs were taken away
// from the job, that is the cause: see cpusetShrunk.
func (w *Window) giveToInput(x *Finding) {
	if taken, _ := w.cpusTaken(x); taken != nil {
		return
	}
	for _, o := range w.foundBy(inputWait.Name) {
		if o.PID != x.PID || o.TID != x.TID {
			continue
		}
		var all, its time.Duration
		y, rest := *x, []tick.Culprit(nil)
		y.Culprits = nil
		for _, c := range x.Culprits {
			if all += c.Lost; o.blames(c.Thread.PID) {
				its, y.Culprits = its+c.Lost, append(y.Culprits, c)
			} else {
				rest = append(rest, c)
			}
		}
		if its == 0 || int64(its) > o.Lost {
			continue
		}
		share := float64(its) / float64(all)
		y.scale(share)
		y.Slow = 0 // the workers take a little in steps that are not slow
		o.join(&y)
		o.addCulprits(&y)
		x.scale(1 - share)
		x.peak, x.Culprits = x.peak*(1-share), rest
		return
	}
}

// addCulprits adds what the culprits of both findings took in y.
func (x *Finding) addCulprits(y *Finding) {
	x.Culprits = slices.Clone(x.Culprits)
	for _, c := range y.Culprits {
		if i := slices.IndexFunc(x.Culprits, func(d tick.Culprit) bool { return d.Thread.PID == c.Thread.PID }); i >= 0 {
			x.Culprits[i].Lost += c.Lost
		}
	}
}

// blames reports whether a process is a culprit, of a tenth or more of what the largest culprit cost.
func (x *Finding) blames(pid uint32) bool {
	return slices.ContainsFunc(x.Culprits, func(c tick.Culprit) bool { return c.Thread.PID == pid && 10*c.Lost >= x.Culprits[0].Lost })
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
