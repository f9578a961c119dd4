package explain

import (
	"fmt"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// bound names what most of the time goes to, with its share: of all threads, or of a usual step of
// the loop if there are several, because the others may just wait for it.
func bound(b *tick.Breakdown) string {
	ns := func(n uint64) time.Duration { return time.Duration(ns64(n)) }
	u := tick.StepTimes{GPUWait: ns(b.GPUWait), CallCPU: ns(b.CallCPU), GapCPU: ns(b.GapCPU), Runnable: ns(b.Runnable), Throttled: ns(b.Throttled), Blocked: ns(b.Blocked)}
	all, alone := ns(b.Elapsed), true
	if b.Threads > 1 && b.Loop != nil && sumOf(&b.Loop.Usual) > 0 {
		u, alone = b.Loop.Usual, false
		all = sumOf(&u)
	}
	words := [...]struct {
		label string
		ns    time.Duration
	}{{"GPU-bound", u.GPUWait}, {"CPU-bound", u.CallCPU + u.GapCPU}, {"waiting for a CPU", u.Runnable}, {"throttled", u.Throttled}, {"blocked", u.Blocked}}
	most := &words[0]
	for i := range words {
		if words[i].ns > most.ns {
			most = &words[i]
		}
	}
	if all <= 0 || most.ns <= 0 {
		return ""
	}
	s := most.label + " " + Percent(float64(most.ns)/float64(all))
	switch {
	case most.label == "blocked" && alone && len(b.BlockedOn) > 0:
		x := &b.BlockedOn[0]
		s += " (" + blockReason(x.Reason, x.Call, x.Dev) + ")"
	case most.label == "CPU-bound" && u.GapCPU > u.CallCPU:
		s += " (its own code between calls"
		if at := b.CodeAt(); at != "" {
			s += ", mostly at " + clean(at)
		}
		s += ")"
	}
	return s
}

func sumOf(t *tick.StepTimes) (all time.Duration) {
	for _, d := range t.Parts() {
		all += *d
	}
	return all
}

// stepText formats the length of a step, "" for none.
func stepText(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return Duration(int64(d)) + " a step"
}

// recent is the time after its last slow step in which a chain counts as ongoing.
const recent = 5 * time.Second

// verdict returns the main line of a process: the length of its steps, the bounding resource, and
// problems. wrong reports whether there is a problem now.
func verdict(b *tick.Breakdown, chains []*tick.Chain, now time.Time, zone *time.Location) (line string, wrong bool) {
	_, usual, _ := stepsOf(b)
	if len(chains) == 0 {
		step, well := stepText(usual), "nothing is wrong"
		switch {
		case b.Steps == 0:
			well = "no steps yet: fewer than two GPU waits"
		case openWait(b) != nil:
			well = "no step for " + Duration(int64(b.Open.Length())) + ", mostly blocked: " + blockedOn(openWait(b))
		}
		return joined(" · ", step, bound(b), well), false
	}
	c := chains[0]
	words := wordsFor(c)
	step := c.StepP50
	if step == 0 {
		step = b.StepP50
	}
	head := words.head(c)
	if now.Sub(c.To) > recent {
		return joined(" · ", stepText(usual), bound(b), head+withPID(c)+", until "+c.To.In(zone).Format("15:04:05")), false
	}
	head += withPID(c) + ", " + perStep(c)
	if more := len(chains) - 1; more > 0 {
		head += fmt.Sprintf(" (and %d more)", more)
	}
	return joined(" · ", stepText(step), head), true
}

// withPID returns the PID of the first culprit if it is a process.
func withPID(c *tick.Chain) string {
	if len(c.Culprits) == 0 || c.Culprits[0].Thread.TID == 0 {
		return ""
	}
	x := &c.Culprits[0]
	if x.Own {
		return fmt.Sprintf(" (thread %d)", x.Thread.TID)
	}
	return fmt.Sprintf(" (%d)", x.Thread.PID)
}

// perStep describes the cost of a chain per step: on average if most steps are slow, else per slow
// step.
func perStep(c *tick.Chain) string {
	switch {
	case c.Steps > 0 && 2*c.Slow >= c.Steps:
		return Duration(int64(c.Lost)/int64(c.Steps)) + " a step"
	case c.Slow > 0:
		return Duration(int64(c.Lost)/int64(c.Slow)) + " in " + Count(uint64(c.Slow)) + " of " + plural(uint64(c.Steps), "step")
	}
	return Duration(int64(c.Lost)) + " lost"
}

// healthy returns the sentence about a process without losses.
func healthy(p *wire.ProcessReport, b *tick.Breakdown, over time.Duration) string {
	if over <= 0 {
		over = time.Duration(b.Elapsed)
	}
	if b.Steps == 0 {
		return joined(", ", processName(p.Comm, p.PID), Duration(int64(over)), bound(b)) +
			": no steps were found, because it waited for the GPU fewer than two times."
	}
	s, lost := "Nothing slowed "+processName(p.Comm, p.PID)+" in "+Duration(int64(over))+": ", ""
	if held := b.Runnable + b.Throttled; held >= b.Elapsed/100 {
		// There was some, but no cause took enough to stand out from chance.
		s = "Nothing significant slowed " + processName(p.Comm, p.PID) + " in " + Duration(int64(over)) + ": "
		lost = "; it waited for a CPU for " + Duration(ns64(held)) + ", which delayed its steps by " + Duration(ns64(b.Critical))
		if b.Critical == 0 {
			lost = "; it waited for a CPU for " + Duration(ns64(held)) + ", but only while it had to wait for the GPU anyway"
		}
	}
	n, p50, p99 := stepsOf(b)
	steps := plural(n, "step") + rangeOf(b) + ", " + Duration(int64(p50))
	if n > 1 {
		steps += " each (p99 " + Duration(int64(p99)) + ")"
	}
	return s + joined(", ", steps, bound(b)) + lost + "."
}

// busy returns the remark about a machine kept busy by others, "" if it was not: other programs
// used at least one CPU all the time. The traced processes' use is counted at its maximum, so the
// real value may be higher.
func busy(in *Input, list map[uint32]*tick.Breakdown) string {
	over := in.To.Sub(in.From)
	if in.Host == nil || in.Host.CPUs == 0 || over <= 0 || in.Labels != nil { // with labels, the host's time is another
		return ""
	}
	used := in.Host.CPU * float64(in.Host.CPUs)
	var elapsed, waited uint64
	for _, b := range list {
		used -= float64(b.GPUWait+b.CallCPU+b.GapCPU) / float64(over)
		elapsed += b.Elapsed
		waited += b.Runnable
	}
	if in.Self != nil {
		used -= float64(in.Self.CPU) / float64(over)
	}
	if used < 1 || elapsed == 0 {
		return ""
	}
	s := fmt.Sprintf("(The machine was busy: other programs used %.1f of %d CPUs. ", used, in.Host.CPUs)
	if share := float64(waited) / float64(elapsed); share >= 0.0005 {
		return s + "Waiting for a CPU was " + Percent(share) + " of this time.)"
	}
	if len(list) > 1 {
		return s + "They did not slow these jobs.)"
	}
	return s + "They did not slow this job.)"
}
