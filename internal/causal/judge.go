package causal

import (
	"time"

	"ingero/internal/tick"
)

const (
	mediumShare  = 0.015 // of the observed time
	highShare    = 0.02
	leastLost    = 100 * time.Millisecond
	decisiveLoss = 250 * time.Millisecond // lost by one cause: no recurrence needed
	// burstShare is the multiple of a rule's share that makes a burst in tick.SpreadStep worth
	// reporting, though it is small over the minute.
	burstShare = 3
	// usuallyVague is the smallest relative error of a loss: normal steps differ, and the steps of
	// a full second are a sample.
	usuallyVague = 0.15
)

// judge reports whether a finding of a rule cost enough, and sets its severity, interval and
// confidence. Claimed findings were judged before their rule saw them.
func (w *Window) judge(r *Rule, x *Finding) bool {
	x.assign(r)
	if x.judged {
		return true
	}
	if w.e.abstains(r, x.PID, x.From, x.To) {
		return false
	}
	if x.Window == 0 {
		x.Window = w.known(x.PID)
	}
	if x.Min == 0 && x.Max == 0 {
		x.Min, x.Max = x.Lost, x.Lost
	}
	if x.Severity == 0 {
		seen := x.Window
		if x.unknown > 0 {
			seen = w.e.seen(r, x.PID, w.Now()-x.Window, w.Now())
		}
		if float64(x.Lost) < r.Share*float64(seen) || x.Lost < int64(leastLost) {
			return false
		}
		x.Severity = severity(certain(float64(x.Lost), float64(x.Min)), float64(x.Window))
	}
	if x.Confidence == 0 {
		x.Confidence = 1
	}
	x.Min, x.Max = r.interval(float64(x.Min), float64(x.Lost), float64(x.Max), x.Window)
	x.excess, x.judged, x.spread = x.Lost, true, w.whole(x)
	w.e.weaken(x, x.unknown, w.Now())
	return true
}

// known returns for how long a process has been known, ns, at most a minute.
func (w *Window) known(pid uint32) int64 {
	if b := w.History(pid); b != nil && len(b.Seconds) > 0 {
		return b.Seconds[len(b.Seconds)-1].To - b.Seconds[0].From
	}
	return max(int64(w.Tick.Window), 1)
}

// certain returns the loss that the severity of a finding without a measured normal is based on: at
// most twice its lower bound, at least a quarter.
func certain(lost, least float64) float64 { return max(min(lost, 2*least), lost/4) }

func severity(lost, span float64) tick.Severity {
	switch share := lost / span; {
	case share >= highShare:
		return tick.High
	case share >= mediumShare:
		return tick.Medium
	}
	return tick.Low
}

// interval widens the bounds of a loss by the error of the rule. A thread does not lose more than the
// observed time, span. A loss beyond it is the sum of several threads.
func (r *Rule) interval(least, lost, most float64, span int64) (lo, hi int64) {
	vague := max(r.Vague, usuallyVague)
	lo, hi = int64(min(least, (1-vague)*lost)), int64(max(most, (1+vague)*lost))
	if int64(lost) <= span {
		hi = min(hi, span)
	}
	return lo, hi
}
