package ledger

import "ingero/pkg/events"

// maxPast bounds the remembered waits of a thread, which explain the waits of the threads it wakes.
// The later half are single waits. Of the earlier half, similar waits count as one.
const maxPast = 64

// past is the recent history of a thread: its last waits, oldest first from next. Between them it
// had a CPU, from since on.
type past struct {
	waits []pastWait
	next  int   // index of the oldest, when all are in use
	since int64 // Unix ns: start of the known time
	known bool
	locks [4]lock // locks it has waited for, the latest first
}

// lock is the thread that ended another thread's last waits for a lock.
type lock struct {
	w     pastWait // the last one
	times int      // successive waits that this thread ended
}

// pastWait is a wait, or several successive waits of the same kind.
type pastWait struct {
	start, end int64
	ns         int64 // waiting time; in the rest the thread had a CPU
	taken      int64
	arg        uint64 // as in events.Wait
	by         events.Thread
	dev        uint32
	call       events.Syscall
	state      events.WaitState
	reason     events.Reason // ReasonMemory: also a page fault without I/O
}

// begin sets the time from which, at the latest, the thread has an account.
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
	if x.reason == events.ReasonFault && w.Flags&(events.WaitIO|events.WaitByIRQ) == 0 { // another thread ended it
		x.reason = events.ReasonMemory
	}
	switch {
	case len(p.waits) < maxPast:
		p.waits = append(p.waits, x)
	case p.merge(maxPast / 2):
		*p.last() = x
	default:
		p.since = max(p.since, p.waits[p.next].end)
		p.waits[p.next] = x
		p.next = (p.next + 1) % maxPast
	}
	p.turns()
	p.locked()
}

// merge makes room for a wait: it adds the n-th wait before the last one to an earlier wait that it
// continues, and leaves the last entry free. It returns false if there is no such wait.
func (p *past) merge(n int) bool {
	x := p.back(n)
	for k := n + 1; k <= n+kinds; k++ {
		w := p.back(k)
		if w.ns == 0 || w.forAnother() { // the start of an account, or a wait that others may join as a turn
			return false
		}
		if !w.goesOn(x) || x.end-w.start > mostMerged {
			continue
		}
		w.end, w.ns = x.end, w.ns+x.ns
		for ; n > 0; n-- {
			*p.back(n) = *p.back(n - 1)
		}
		return true
	}
	return false
}

// goesOn reports whether next continues w: a thread reads a large file piece by piece, or takes turns
// with another process on a CPU.
func (w *pastWait) goesOn(next *pastWait) bool {
	switch {
	case next.state != w.state || next.reason != w.reason || next.ns == 0 || next.start < w.end || next.start-w.end > betweenPieces:
		return false
	case w.state == events.WaitBlocked:
		return !w.forAnother() && next.call == w.call && next.dev == w.dev
	}
	return next.by.PID == w.by.PID
}

// forAnother reports whether the thread waited for another thread to act.
func (w *pastWait) forAnother() bool { return w.state == events.WaitBlocked && forAnother[w.reason] }

// after returns what is known from a time on.
func (p *past) after(t int64) (rest past) {
	for i := range p.waits {
		if w := p.at(i); w.start >= t {
			rest.begin(w.start)
			rest.waits = append(rest.waits, *w)
		}
	}
	return rest
}

// in returns how much of [from, to), a part of the wait, the thread waited.
func (w *pastWait) in(from, to int64) int64 {
	switch all := w.end - w.start; {
	case to-from == all:
		return w.ns
	case w.ns < all:
		return int64(float64(to-from) * float64(w.ns) / float64(all))
	}
	return to - from
}

// locked records the thread that ended a wait for a lock.
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

// endedBy returns the thread that ended a wait. If a timer ended a wait for a lock and no other
// wait for it followed, the thread got the lock at that moment. It got the lock from the thread
// that ended its last waits for this lock, if that was always the same one.
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

// at returns the n-th wait, oldest first.
func (p *past) at(n int) *pastWait { return &p.waits[(p.next+n)%len(p.waits)] }

// back returns the n-th wait before the last one.
func (p *past) back(n int) *pastWait { return p.at(len(p.waits) - 1 - n) }

const (
	// oneHolder is the number of waits for a lock that one thread must have ended to count as the
	// one that ends the next. holdsFor is the longest time before that wait, ns.
	oneHolder = 2
	holdsFor  = 1e9
	// betweenPieces is the longest time between two waits that count as one, ns. A wait may continue
	// one of the last few before it: for a disk, for a CPU and for a quota, in turn.
	betweenPieces = 20e6
	kinds         = 3
	// mostMerged is the longest time that one entry covers, ns: a part of it is known as its share only.
	mostMerged = 300e6
	// betweenTurns is the longest run time between two turns of one wait for a lock, ns.
	betweenTurns = 1e6
	// condBytes is the size of a condition variable of glibc. It has several futexes, which are
	// used in turn.
	condBytes = 48
)

// turns attributes the waits that a timer ended to the thread that ended the last wait, if that
// wait was for the same thing and followed directly. A thread that waits for Python's lock does so
// in turns of 5 ms, and the holder releases the lock in the last turn. A thread that polls several
// files may check something else now and then: gloo does so every 10 ms.
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
		case w.end-w.start-w.ns > betweenTurns: // several waits, and it ran between them
			return
		case w.state != events.WaitBlocked: // waited for a CPU
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

// inTurns reports whether a wait may be the last of several for the same thing.
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

// sameLock reports whether two waits are for the same lock.
func (w *pastWait) sameLock(o *pastWait) bool {
	if w.reason == events.ReasonGIL || o.reason == events.ReasonGIL {
		return w.reason == o.reason
	}
	return w.call == o.call && max(w.arg, o.arg)-min(w.arg, o.arg) < condBytes
}
