package ledger

import "ingero/pkg/events"

// maxPast is how many of a thread's waits are remembered for those it wakes.
const maxPast = 64

// past is what a thread did lately: its last waits, oldest first from next. In
// between it had a CPU, from since on.
type past struct {
	waits []pastWait
	next  int   // place of the oldest, when all are in use
	since int64 // Unix ns: before this nothing is known
	known bool
	locks [4]lock // that it has waited for, the last one first
}

// lock is who ended a thread's last waits for a lock.
type lock struct {
	w     pastWait // the last one
	times int      // that this thread ended them, one after the other
}

// pastWait is a wait, or several alike that came one after the other.
type pastWait struct {
	start, end int64
	ns         int64 // of waiting; the rest the thread had a CPU
	taken      int64
	arg        uint64 // as in events.Wait
	by         events.Thread
	dev        uint32
	call       events.Syscall
	state      events.WaitState
	reason     events.Reason
}

// begin says that the thread is accounted for from a time on, at the latest.
func (p *past) begin(t int64) {
	if !p.known || t < p.since && len(p.waits) < maxPast {
		p.since, p.known = t, true
	}
}

func (p *past) add(w *events.Wait) {
	if w.Flags&events.WaitPrevious != 0 {
		if last := p.last(); last != nil && last.start == w.Start && w.Taken > last.taken {
			last.by, last.taken = w.Who, w.Taken
		}
		return
	}
	p.begin(w.Start)
	x := pastWait{w.Start, w.End(), w.End() - w.Start, w.Taken, w.Arg, w.Who, w.Dev, w.Syscall, w.State, w.Reason}
	if last := p.last(); last != nil && last.goesOn(&x) {
		last.end, last.ns = x.end, last.ns+x.ns
		return
	}
	if len(p.waits) < maxPast {
		p.waits = append(p.waits, x)
	} else {
		p.since = max(p.since, p.waits[p.next].end)
		p.waits[p.next] = x
		p.next = (p.next + 1) % maxPast
	}
	p.turns()
	p.locked()
}

// goesOn says whether a wait is one with that before it: a thread reads a large file piece by piece.
func (w *pastWait) goesOn(next *pastWait) bool {
	if w.state != events.WaitBlocked || forAnother[w.reason] || next.start < w.end || next.start-w.end > betweenPieces {
		return false
	}
	return next.state == w.state && next.reason == w.reason && next.call == w.call && next.dev == w.dev
}

// in is how much of [from, to), which is a part of it, the thread waited.
func (w *pastWait) in(from, to int64) int64 {
	if all := w.end - w.start; w.ns < all {
		return int64(float64(to-from) * float64(w.ns) / float64(all))
	}
	return to - from
}

// locked notes who ended a wait for a lock.
func (p *past) locked() {
	w := p.last()
	if !w.forLock() || w.by.TID == 0 {
		return
	}
	at := len(p.locks) - 1
	for i := range p.locks {
		if x := &p.locks[i]; x.times > 0 && x.w.sameLock(w) {
			at = i
			break
		}
	}
	now := lock{*w, 1}
	if x := &p.locks[at]; x.times > 0 && x.w.sameLock(w) && x.w.by.TID == w.by.TID {
		now.times += x.times
	}
	copy(p.locks[1:at+1], p.locks[:at])
	p.locks[0] = now
}

// endedBy is who ended a wait. Where a timer ended a wait for a lock, and there was no other wait
// for it behind, the thread got the lock right then: from the thread that ended its last waits for
// this lock, where that was one and the same.
func (p *past) endedBy(w *pastWait) events.Thread {
	if w.by.TID != 0 || !w.forLock() {
		return w.by
	}
	for i := range p.locks {
		if x := &p.locks[i]; x.times >= oneHolder && x.w.sameLock(w) && w.start-x.w.end < holdsFor {
			return x.w.by
		}
	}
	return w.by
}

func (p *past) last() *pastWait {
	if len(p.waits) == 0 {
		return nil
	}
	return p.back(0)
}

// back returns the wait so many before the last one.
func (p *past) back(n int) *pastWait {
	return &p.waits[(p.next+2*len(p.waits)-1-n)%len(p.waits)]
}

const (
	// oneHolder is how many waits for a lock one thread has ended, for how long at most before a
	// wait, ns, to be taken for the one that ends that.
	oneHolder = 2
	holdsFor  = 1e9
	// betweenPieces is what a thread runs at most between two waits that are one, ns.
	betweenPieces = 1e6
	// betweenTurns is what a thread runs at most between two turns of one wait for a lock, ns.
	betweenTurns = 1e6
	// condBytes is the size of a condition variable of glibc. It has several futexes, which are
	// used one after the other.
	condBytes = 48
)

// turns gives the waits that a timer ended to the thread that ended the last wait, if that was for
// the same and began right after them. A thread that waits for Python's lock does so in turns of
// 5 ms, and the thread that has the lock lets go of it in the last one. One that waits for any of
// several files may look after something else now and then: gloo each 10 ms.
func (p *past) turns() {
	end := p.last()
	if !end.inTurns() || end.by.TID == 0 {
		return
	}
	since := end.start
	for n := 1; n < len(p.waits); n++ {
		w := p.back(n)
		switch {
		case since-w.end > betweenTurns:
			return
		case w.state != events.WaitBlocked: // it waited for a CPU
		case w.by.TID != 0 || !w.inTurns() || !w.same(end):
			return
		default:
			w.by = end.by
		}
		since = w.start
	}
}

func (w *pastWait) forLock() bool {
	return w.state == events.WaitBlocked && (w.reason == events.ReasonLock || w.reason == events.ReasonGIL)
}

// inTurns says whether a wait may be the last one of several for the same thing.
func (w *pastWait) inTurns() bool {
	return w.forLock() || w.state == events.WaitBlocked && w.reason == events.ReasonPoll
}

// same reports whether two waits that may be turns are for the same thing.
func (w *pastWait) same(o *pastWait) bool {
	if w.forLock() && o.forLock() {
		return w.sameLock(o)
	}
	return w.reason == o.reason && w.call == o.call && w.arg == o.arg
}

// sameLock reports whether two waits for a lock are for the same one.
func (w *pastWait) sameLock(o *pastWait) bool {
	if w.reason == events.ReasonGIL || o.reason == events.ReasonGIL {
		return w.reason == o.reason
	}
	return w.call == o.call && max(w.arg, o.arg)-min(w.arg, o.arg) < condBytes
}
