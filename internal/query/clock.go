package query

import (
	"cmp"
	"slices"
	"time"
)

// ClockStep says that the clock of a machine was set between two recordings, or that
// the machine slept: times of the one are off against those of the other.
type ClockStep struct {
	Node          string
	Before, After string // IDs of the sessions
	At            time.Time
	Step          time.Duration // how far it was moved; negative: back
}

// ClockSteps finds the steps of threshold or more between sessions of one machine that
// has not been started anew in between. They are exact: a session knows how its clock
// stood to that of the kernel, which nobody can set.
func ClockSteps(sessions []Session, threshold time.Duration) []ClockStep {
	sorted := slices.DeleteFunc(slices.Clone(sessions), func(s Session) bool { return s.MonoOffset == 0 }) // not known
	slices.SortStableFunc(sorted, func(a, b Session) int { return cmp.Or(cmp.Compare(a.Node, b.Node), a.Started.Compare(b.Started)) })
	var out []ClockStep
	for i := 1; i < len(sorted); i++ {
		a, b := &sorted[i-1], &sorted[i]
		step := time.Duration(b.MonoOffset - a.MonoOffset)
		// A machine that was started after the first session counts from then.
		started := b.MonoOffset >= max(a.Ended.UnixNano(), a.Updated.UnixNano())
		if a.Node == b.Node && !started && step.Abs() >= threshold {
			out = append(out, ClockStep{a.Node, a.ID, b.ID, b.Started, step})
		}
	}
	return out
}
