package ledger

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// An unfinished step is reported once the thread has made no call for leastUnfinished, ns, for
	// unfinishedSteps usual steps, and for longer than each step before.
	leastUnfinished = 2e9
	unfinishedSteps = 5
	// unfinishedShares bounds the waits of an unfinished step.
	unfinishedShares = 4
)

// unfinished notes the unfinished step of the process's thread with the most steps, from its account at a
// tick or at its end. If that thread has ended, another one takes its place.
func (p *process) unfinished(t *thread, x *tick.Thread) {
	if t.steps == nil || t.closed == 0 || t.closed < p.stepsOfMain && (p.mainLives || x.Ended) {
		return
	}
	p.stepsOfMain, p.mainLives, p.open = t.closed, !x.Ended, nil
	silence := x.Until - t.rhythm.last
	switch {
	case !t.open || t.closer == rankNone || len(x.Open) > 0 || silence < leastUnfinished:
	case silence < unfinishedSteps*p.lengths.Quantile(0.5) || silence <= p.lengths.Max():
	case awaitsUser(&x.Now):
	default:
		p.open = t.unfinished(x)
	}
}

// unfinishedStep returns the unfinished step of a process, or nil if another thread has finished steps in the
// meantime, or if only the step's thread has ended.
func (p *process) unfinishedStep() *tick.LoopStep {
	if p.open == nil || p.lastStep > p.open.From.UnixNano() || p.threads > 0 && !p.mainLives {
		return nil
	}
	return p.open
}

// unfinished returns a thread's unfinished step as far as its waits are known: those in the step, those no
// call has claimed yet, and the current one.
func (t *thread) unfinished(x *tick.Thread) *tick.LoopStep {
	s := &tick.LoopStep{From: time.Unix(0, t.from), To: time.Unix(0, x.Until)}
	add := func(w tick.Share) {
		s.Times.Blocked += time.Duration(w.NS)
		if w.ByIRQ {
			w.Who, w.ByIRQ = events.Thread{}, false
		}
		w.Own = w.Who.TID != 0 && w.Who.PID == t.pid
		for i := range s.Took {
			if o := &s.Took[i]; o.Reason == w.Reason && o.Call == w.Call && o.Dev == w.Dev && o.Who.TID == w.Who.TID {
				o.NS, o.Count = o.NS+w.NS, o.Count+w.Count
				return
			}
		}
		s.Took = append(s.Took, w)
	}
	for i := range t.steps.waits {
		if w := &t.steps.waits[i]; w.State == events.WaitBlocked {
			add(tick.Share{NS: uint64(w.NS), Count: uint64(w.Count), Who: w.Who, ByIRQ: w.Flags&events.WaitByIRQ != 0, Reason: w.Reason, Call: w.Call, Dev: w.Dev})
		}
	}
	for i := t.head; i < len(t.queue); i++ {
		if w := &t.queue[i].Wait; w.State == events.WaitBlocked && w.Flags&events.WaitPrevious == 0 && w.Start >= t.from {
			add(tick.Share{NS: uint64(w.Duration), Count: 1, Who: w.Who, ByIRQ: w.Flags&events.WaitByIRQ != 0, Reason: w.Reason, Call: w.Syscall, Dev: w.Dev})
		}
	}
	if now := &x.Now; now.State == events.WaitBlocked && now.Since < x.Until {
		add(tick.Share{NS: uint64(x.Until - max(now.Since, t.from)), Count: 1, Reason: now.Reason, Call: now.Syscall, Dev: now.Dev})
	}
	slices.SortStableFunc(s.Took, func(a, b tick.Share) int { return cmp.Compare(b.NS, a.NS) })
	s.Took = s.Took[:min(len(s.Took), unfinishedShares)]
	s.Times.Blocked = min(s.Times.Blocked, s.Length())
	s.Times.Unknown = s.Length() - s.Times.Blocked
	return s
}

// awaitsUser reports whether a thread waits for a person at a terminal, or for a client to connect: it has
// nothing to do.
func awaitsUser(now *tick.ThreadState) bool {
	return now.File == events.FileChar && events.IsTerminal(now.Dev) || now.Syscall.Accepts()
}
