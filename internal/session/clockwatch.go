package session

import (
	"fmt"
	"time"

	"ingero/internal/decode"
	"ingero/internal/tick"
)

// leastStep is the smallest step of the wall clock that is reported. Smaller ones add up.
const leastStep = time.Second

// clockWatch finds the steps of the wall clock, which the session's own clock does not follow. It is
// for the goroutine that makes the ticks.
type clockWatch struct {
	of     decode.Clock
	read   func() (ahead, slept time.Duration) // of the wall clock; of the machine since it booted
	report *reporter

	ahead, slept time.Duration // at the last reported step
}

func newClockWatch(clock decode.Clock, report *reporter) *clockWatch {
	c := &clockWatch{of: clock, read: func() (ahead, slept time.Duration) { return clock.Ahead(), decode.Slept() }, report: report}
	_, c.slept = c.read()
	return c
}

// tick returns how far the wall clock is ahead of the session's clock, by the reported steps. It
// reports a step since the last tick.
func (c *clockWatch) tick(at time.Time) time.Duration {
	ahead, slept := c.read()
	step, sleep := ahead-c.ahead, slept-c.slept
	if step.Abs() < leastStep {
		return c.ahead
	}
	c.ahead, c.slept = ahead, slept
	c.report.add(tick.Report{Kind: "clock-step", Object: "wall clock", Why: fmt.Sprintf("at %s %s: %s",
		at.Format("2006-01-02 15:04:05 MST"), stepText(step, sleep), aheadText(ahead))})
	return ahead
}

// stepText describes a step, and how long the machine slept meanwhile.
func stepText(step, sleep time.Duration) string {
	slept := "the machine slept for " + longText(sleep)
	set := step - sleep
	switch {
	case sleep < leastStep:
		return "the clock was set " + wayText(step)
	case set.Abs() < leastStep:
		return slept
	}
	return slept + ", and the clock was set " + wayText(set)
}

func wayText(d time.Duration) string {
	if d < 0 {
		return "back by " + longText(-d)
	}
	return "forward by " + longText(d)
}

// aheadText describes the times that follow.
func aheadText(ahead time.Duration) string {
	switch {
	case ahead >= leastStep:
		return "later times of this recording are " + longText(ahead) + " behind the wall clock; to correct them, restart the trace"
	case ahead <= -leastStep:
		return "later times of this recording are " + longText(-ahead) + " ahead of the wall clock; to correct them, restart the trace"
	}
	return "later times of this recording agree with the wall clock again"
}

// longText formats a duration of a second or more.
func longText(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.Round(time.Second).String()
}
