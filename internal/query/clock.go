package query

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/clock"
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

// tickLate bounds how long after a tick a reader sees it in the database: a trace makes one a second.
const tickLate = 2 * time.Second

// Now returns the current time by the clock of the recording that is being made, which no step of the
// wall clock and no suspend moves. all are a database's sessions. If nothing is being recorded, or
// the last tick is recent by the wall clock, Now returns wall. Otherwise the result is after the last tick
// and not after wall, or just after the last tick if that is in the future.
func Now(all []Session, wall time.Time) time.Time {
	i := slices.IndexFunc(all, func(s Session) bool { return s.State == "running" })
	if i < 0 {
		return wall
	}
	s := &all[i]
	late := wall.Sub(s.Updated)
	if late.Abs() < tickLate {
		return wall
	}
	last := s.Updated.Add(1) // a range ends before its end
	ahead, known := stepped(s)
	if !known || late < 0 {
		return last
	}
	// By the offset of another machine, now could be hours after wall.
	now := wall.Add(-max(ahead.Round(time.Millisecond), 0))
	if now.Before(last) {
		return last
	}
	return now
}

// Ahead returns how far wall, the time of the wall clock, is ahead of the clock of a recording that is
// being made; negative: behind. It is 0 below 1 ms, if the recording has ended, and if its last tick is
// not recent: then the offset may be that of another boot or machine.
func Ahead(s *Session, wall time.Time) time.Duration {
	ahead, known := stepped(s)
	if !known || s.State != "running" || ahead.Abs() < time.Millisecond || wall.Add(-ahead).Sub(s.Updated).Abs() >= tickLate {
		return 0
	}
	return ahead
}

// stepped returns how far the wall clock is ahead of the clock of a recording of this boot of this machine.
// A session does not store its boot ID, so of another boot the result is wrong.
func stepped(s *Session) (ahead time.Duration, known bool) {
	offset, err := clock.Offset()
	return time.Duration(offset - s.MonoOffset), err == nil && s.MonoOffset != 0
}
