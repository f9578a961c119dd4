package explain

import (
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

const (
	// leastUnexplained and unexplainedShare are the smallest excess of slow steps that is worth a remark
	// without a cause: ns, and share of the time of all steps.
	leastUnexplained = 200 * time.Millisecond
	unexplainedShare = 0.05
	// endedShare is the share of the time of an ended process from which its last wait is worth a remark: a
	// program may wait for its own end.
	endedShare = 0.2
	// slowRatio is the ratio to the usual length from which a step is slow.
	slowRatio = 1.2
	// startTime is the time after the start of a process in which the longest step may be the job's start, if
	// it is longer than startRatio times the next one.
	startTime  = 10 * time.Second
	startRatio = 2
)

// remark returns the slow steps or the unfinished step of a process that no cause explains; nil: none. A
// server is idle between two requests.
func (r *report) remark(in *Input, p *wire.ProcessReport, b *tick.Breakdown, slowed bool) *wire.Unexplained {
	if r.serves(in, p.PID) {
		return nil
	}
	if in.Labels == nil && b.Open != nil && !r.explained(in.Hidden, p.PID, b.Open) {
		if x := unfinished(p, b, over(p)); x != nil {
			return x
		}
	}
	if slowed {
		return nil
	}
	return unexplained(p, b, over(p))
}

// unexplained returns the slow steps of a process without a cause, if they cost much, mostly in waits that
// the program did not choose; else nil. More work is usual in some steps: an evaluation, a checkpoint.
func unexplained(p *wire.ProcessReport, b *tick.Breakdown, over time.Duration) *wire.Unexplained {
	l := b.Loop
	if l == nil || l.Lengths == nil || l.P50 <= 0 {
		return nil
	}
	slowest := l.Slowest
	for len(slowest) > 0 && !isSlow(slowest[len(slowest)-1].Length(), l.P50) {
		slowest = slowest[:len(slowest)-1]
	}
	count, excess := slowSteps(l)
	if isStart(slowest, p) {
		count, excess, slowest = count-min(count, 1), excess-(slowest[0].Length()-l.P50), slowest[1:]
	}
	if excess < leastUnexplained || float64(excess) < unexplainedShare*float64(l.Total) {
		return nil
	}
	on := mostlyBlockedOn(slowest, l)
	if on == nil {
		return nil
	}
	if on = named(on, b.BlockedOn); isIdle(on) {
		return nil
	}
	x := &wire.Unexplained{SlowSteps: count, ExcessNS: int64(excess), Wait: blockedOn(on)}
	x.Text = Count(count) + " of " + plural(l.Steps, "step") + rangeOf(b) + " of " + processName(p.Comm, p.PID) + " took longer than usual, together by " +
		Duration(x.ExcessNS) + " in " + Duration(int64(over)) + " (a usual step takes " + Duration(int64(l.P50)) + "), and no rule explains it. " +
		"Most of the extra time of the slowest was spent blocked: " + x.Wait + ". Confidence is low: the program may work this way."
	return x
}

// unfinished returns the last step of a process, which it did not finish, if it is mostly blocked, and not of
// its own accord; else nil.
func unfinished(p *wire.ProcessReport, b *tick.Breakdown, over time.Duration) *wire.Unexplained {
	s, on := b.Open, openWait(b)
	_, usual, _ := stepsOf(b)
	excess := s.Length() - usual
	if on == nil || !p.Ended.IsZero() && float64(excess) < endedShare*float64(over) {
		return nil
	}
	x := &wire.Unexplained{Unfinished: true, SlowSteps: 1, ExcessNS: int64(excess), Wait: blockedOn(on)}
	when, than := "At the end of this time range, ", ""
	if !p.Ended.IsZero() {
		when = "At its end, "
	}
	if usual > 0 {
		than = " (a usual step takes " + Duration(int64(usual)) + ")"
	}
	x.Text = when + processName(p.Comm, p.PID) + " had finished no step for " + Duration(int64(s.Length())) + than +
		", and no rule explains it. The process was mostly blocked: " + x.Wait + ". Confidence is low: it may have had nothing to do."
	return x
}

// openWait returns what the unfinished step of a process was mostly blocked on; nil: it was not, or of its own
// accord.
func openWait(b *tick.Breakdown) *tick.Share {
	s := b.Open
	if s == nil || len(s.Took) == 0 || 2*s.Times.Blocked < s.Length() || 2*time.Duration(s.Took[0].NS) < s.Times.Blocked {
		return nil
	}
	if on := named(&s.Took[0], b.BlockedOn); !isIdle(on) {
		return on
	}
	return nil
}

// isIdle reports whether a wait is the program's own way of working: it sleeps, or it waits for its children,
// for a person at a terminal, for a client, or for a thread that had nothing to do.
func isIdle(x *tick.Share) bool {
	switch x.Reason {
	case events.ReasonSleep, events.ReasonChild:
		return true
	case events.ReasonDevice:
		return events.IsTerminal(x.Dev)
	}
	return x.Call.Accepts() || awaitsWork(x)
}

// awaitsWork reports whether a program waited for a thread that itself mostly waited for others, or slept:
// nobody gave them work, as far as it is known. What another process was doing must be known.
func awaitsWork(x *tick.Share) bool {
	w := x.Waker
	asleep := w != nil && w.Blocked > w.OnCPU+w.Runnable
	if x.Own && (x.Reason == events.ReasonPoll || x.Reason == events.ReasonLock) {
		return w == nil || w.Total() == 0 || asleep && w.Reason != events.ReasonDisk
	}
	return asleep && !x.Own && (w.Reason == events.ReasonPoll || w.Reason == events.ReasonSocket)
}

// explained reports whether a chain of a process, shown or hidden, reaches into its unfinished step.
func (r *report) explained(hidden []tick.Hidden, pid uint32, open *tick.LoopStep) bool {
	return slices.ContainsFunc(r.Chains, func(c wire.Chain) bool { return c.PID == pid && c.To.After(open.From) }) ||
		slices.ContainsFunc(hidden, func(h tick.Hidden) bool { return h.Chain.PID == pid && h.Chain.To.After(open.From) })
}

// serves reports whether a process answers requests, or has clients: it is idle between two of their requests.
func (r *report) serves(in *Input, pid uint32) bool {
	return in.Serving[pid] ||
		slices.ContainsFunc(r.Servers, func(s wire.Server) bool { return s.PID == pid }) ||
		slices.ContainsFunc(r.Engines, func(s wire.EngineSteps) bool { return s.PID == pid }) ||
		slices.ContainsFunc(in.HostSums, func(s tick.HostSum) bool { return s.Kind == tick.HostReceive && s.PID == pid && s.FromClient() })
}

// isStart reports whether the first of the slowest steps may be the start of the job.
func isStart(slowest []tick.LoopStep, p *wire.ProcessReport) bool {
	began := p.Started
	if began.IsZero() || p.Mapped.After(began) {
		began = p.Mapped
	}
	return len(slowest) > 0 && !began.IsZero() && slowest[0].From.Before(began.Add(startTime)) &&
		(len(slowest) == 1 || slowest[0].Length() > startRatio*slowest[1].Length())
}

func isSlow(length, usual time.Duration) bool { return float64(length) > slowRatio*float64(usual) }

// slowSteps returns the number of slow steps of a loop, and how much longer than usual they took together.
func slowSteps(l *tick.Loop) (count uint64, excess time.Duration) {
	for ns, n := range l.Lengths.Middles() {
		if isSlow(time.Duration(ns), l.P50) {
			count += n
			excess += time.Duration(n) * (time.Duration(ns) - l.P50)
		}
	}
	return count, excess
}

// mostlyBlockedOn returns the wait that took most of the extra time of steps; nil: none did.
func mostlyBlockedOn(steps []tick.LoopStep, l *tick.Loop) *tick.Share {
	var excess, blocked time.Duration
	var on []tick.Share
	for i := range steps {
		s := &steps[i]
		excess += s.Length() - l.P50
		blocked += s.Times.Blocked - l.Usual.Blocked
		for k := range s.Took {
			if x := &s.Took[k]; x.Reason != 0 && x.Reason != events.ReasonHypervisor {
				on = addShare(on, x)
			}
		}
	}
	if 2*blocked < excess {
		return nil
	}
	var most *tick.Share
	for i := range on {
		if most == nil || on[i].NS > most.NS {
			most = &on[i]
		}
	}
	if most == nil || 2*time.Duration(most.NS) < excess {
		return nil
	}
	return most
}

// addShare adds a share to the one of the same wait.
func addShare(list []tick.Share, x *tick.Share) []tick.Share {
	for i := range list {
		if sameWait(&list[i], x) {
			list[i].NS += x.NS
			return list
		}
	}
	return append(list, *x)
}

func sameWait(a, b *tick.Share) bool {
	return a.Reason == b.Reason && a.Call == b.Call && a.Dev == b.Dev && a.Who.TID == b.Who.TID
}

// named returns the share of the same wait in the account of the whole process, which has its place in the
// code and what the other thread did, or the share itself.
func named(x *tick.Share, all []tick.Share) *tick.Share {
	for i := range all {
		if sameWait(&all[i], x) {
			return &all[i]
		}
	}
	return x
}
