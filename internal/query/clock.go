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

// leastAhead is the distance of two clocks from which they differ by a step: a trace writes its time
// once a second.
const leastAhead = time.Minute

// Now returns the current time by the clock of the recording that is being made: a step of the wall
// clock, or a suspend, does not move that clock. all are a database's sessions. If the clocks
// agree, or nothing is being recorded, Now returns wall.
func Now(all []Session, wall time.Time) time.Time {
	i := slices.IndexFunc(all, func(s Session) bool { return s.State == "running" })
	if i < 0 || wall.Sub(all[i].Updated).Abs() < leastAhead {
		return wall
	}
	return all[i].Updated.Add(1) // a range ends before its end
}
