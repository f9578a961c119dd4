package query

import (
	"cmp"
	"slices"
	"time"
)

// ClockStep is a step of a machine's clock between two recordings, or a suspend. Times of one
// session are offset from those of the other.
type ClockStep struct {
	Node          string
	Before, After string // session IDs
	At            time.Time
	Step          time.Duration // size of the step; negative: back
}

// ClockSteps finds the steps of at least threshold between sessions of one machine without a reboot
// in between. They are exact: a session stores the offset of the wall clock from the kernel's
// clock, which nobody can set.
func ClockSteps(sessions []Session, threshold time.Duration) []ClockStep {
	sorted := slices.DeleteFunc(slices.Clone(sessions), func(s Session) bool { return s.MonoOffset == 0 }) // unknown
	slices.SortStableFunc(sorted, func(a, b Session) int { return cmp.Or(cmp.Compare(a.Node, b.Node), a.Started.Compare(b.Started)) })
	var out []ClockStep
	for i := 1; i < len(sorted); i++ {
		a, b := &sorted[i-1], &sorted[i]
		step := time.Duration(b.MonoOffset - a.MonoOffset)
		// A machine that booted after the first session does not count.
		started := b.MonoOffset >= max(a.Ended.UnixNano(), a.Updated.UnixNano())
		if a.Node == b.Node && !started && step.Abs() >= threshold {
			out = append(out, ClockStep{a.Node, a.ID, b.ID, b.Started, step})
		}
	}
	return out
}
