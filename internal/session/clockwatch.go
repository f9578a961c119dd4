package session

import (
	"fmt"
	"time"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/tick"
)

const (
	leastStep  = time.Second           // smallest step of the wall clock that is reported; smaller ones add up
	clockNoise = 10 * time.Millisecond // more than two readings of the clocks differ by without a step
	mostSteps  = 100                   // steps with a report each; later ones are summed up
)

// clockWatch finds the steps of the wall clock, which the session's own clock does not follow. It is
// for the goroutine that makes the ticks.
type clockWatch struct {
	of     decode.Clock
	read   func() (ahead, slept time.Duration) // of the wall clock; of the machine since it booted
	report *reporter

	ahead, slept time.Duration // at the last reported step
	last         time.Duration // ahead at the last tick
	even         time.Time     // last tick with the reported steps only
	steps        int           // number of reported steps
	further      furtherSteps
}

// furtherSteps has the sums of the steps after the first mostSteps.
type furtherSteps struct {
	from, to      time.Time // of the first, and of the last
	forward, back time.Duration
	unreported    bool // the report lacks the last ones
}

// processFS returns a proc file system whose times are those of a session's clock.
func processFS(clock decode.Clock) proc.FS { return proc.FS{Offset: clock.Offset} }

func newClockWatch(clock decode.Clock, report *reporter) *clockWatch {
	c := &clockWatch{of: clock, read: func() (ahead, slept time.Duration) { return clock.Ahead(), decode.Slept() }, report: report}
	_, c.slept = c.read()
	return c
}

// tick returns how far the wall clock is ahead of the session's clock, by the reported steps. It
// reports a step since the last tick. final is the session's last tick.
func (c *clockWatch) tick(at time.Time, final bool) time.Duration {
	ahead, slept := c.read()
	step, sleep, latest := ahead-c.ahead, slept-c.slept, ahead-c.last
	c.last = ahead
	if step.Abs() >= leastStep {
		c.ahead, c.slept = ahead, slept
		c.stepped(at, step, sleep, latest)
		step = 0
	}
	if step.Abs() < clockNoise || c.even.IsZero() {
		c.even = at
	}
	// A recording keeps each text, so there are few: at each doubling, and at the end.
	if n := c.steps - mostSteps; c.further.unreported && (final || n&(n-1) == 0) {
		c.further.unreported = false
		const object = "wall clock, further steps"
		c.report.replace(object, []string{"clock-step"}, tick.Report{Kind: "clock-step", Object: object, Why: c.further.text(n)})
	}
	return c.ahead
}

// stepped reports a step, or adds it to the further steps. latest is the change since the last tick. step also
// has the smaller changes before it.
func (c *clockWatch) stepped(at time.Time, step, sleep, latest time.Duration) {
	if c.steps++; c.steps > mostSteps {
		c.further.add(at, step)
		return
	}
	since := ""
	if latest.Abs() < leastStep {
		since = ", in small steps since " + clockText(c.even)
	}
	c.report.add(tick.Report{Kind: "clock-step", Object: "wall clock",
		Why: fmt.Sprintf("at %s %s%s: %s", clockText(at), stepText(step, sleep), since, aheadText(c.ahead))})
}

func (f *furtherSteps) add(at time.Time, step time.Duration) {
	if f.from.IsZero() {
		f.from = at
	}
	f.to, f.forward, f.back, f.unreported = at, f.forward+max(step, 0), f.back+max(-step, 0), true
}

// text describes n further steps.
func (f *furtherSteps) text(n int) string {
	return fmt.Sprintf("from %s to %s the clock was set, or the machine slept, %d more times, by %s forward and %s back; "+
		"this line is updated each time the number doubles, and at the end of the recording",
		clockText(f.from), clockText(f.to), n, longText(f.forward), longText(f.back))
}

func clockText(at time.Time) string { return at.Format("2006-01-02 15:04:05 MST") }

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

// longText formats a duration in seconds.
func longText(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.Round(time.Second).String()
}
