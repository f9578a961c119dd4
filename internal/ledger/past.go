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
}

type pastWait struct {
	start, end int64
	taken      int64
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
	x := pastWait{w.Start, w.End(), w.Taken, w.Who, w.Dev, w.Syscall, w.State, w.Reason}
	if len(p.waits) < maxPast {
		p.waits = append(p.waits, x)
		return
	}
	p.since = max(p.since, p.waits[p.next].end)
	p.waits[p.next] = x
	p.next = (p.next + 1) % maxPast
}

func (p *past) last() *pastWait {
	switch n := len(p.waits); {
	case n == 0:
		return nil
	case n < maxPast:
		return &p.waits[n-1]
	default:
		return &p.waits[(p.next+n-1)%n]
	}
}
