package causal

import (
	"time"

	"ingero/internal/tick"
)

const (
	mediumShare = 0.015 // of the time looked at
	highShare   = 0.02
	leastLost   = 100 * time.Millisecond
	oneIsEnough = 250 * time.Millisecond // lost by one cause: it need not recur
	// burstShare is how many times a rule's share of a stretch of tick.SpreadStep is
	// told, though it is little of a minute.
	burstShare = 3
	// usuallyVague is how far off, as a share, what is said to be lost is taken to be at
	// least: normal steps are not all alike, and those of a full second are a sample.
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
		if float64(x.Lost) < r.Share*float64(x.Window) || x.Lost < int64(leastLost) {
			return false
		}
		x.Severity = severity(certain(float64(x.Lost), float64(x.Min)), float64(x.Window))
	}
	if x.Confidence == 0 {
		x.Confidence = 1
	}
	x.Min, x.Max = r.interval(float64(x.Min), float64(x.Lost), float64(x.Max))
	x.excess, x.judged = x.Lost, true
	w.e.weaken(x, 0, w.Now())
	return true
}

// known returns for how long a process is known, ns, at most a minute.
func (w *Window) known(pid uint32) int64 {
	if b := w.Book(pid); b != nil && len(b.Seconds) > 0 {
		return b.Seconds[len(b.Seconds)-1].To - b.Seconds[0].From
	}
	return max(int64(w.Tick.Window), 1)
}

// certain is as much of a loss as severity follows where nothing normal was there to compare
// with: twice its lower bound, at most. Of one that may be nothing a quarter counts.
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

// interval widens the bounds of a loss to the error of the rule.
func (r *Rule) interval(least, lost, most float64) (lo, hi int64) {
	vague := max(r.Vague, usuallyVague)
	return int64(min(least, (1-vague)*lost)), int64(max(most, (1+vague)*lost))
}
