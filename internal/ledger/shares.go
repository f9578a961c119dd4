package ledger

import (
	"cmp"
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// maxShares bounds the names of a part of a process's time. The largest stay. A new name evicts the
// smallest when the unnamed time exceeds its time.
const maxShares = 48

// shares are the named shares of a part.
type shares struct {
	most         int // names; 0: maxShares
	keys         []shareKey
	list         []share
	last         int
	unattributed int64 // ns without a name since the last eviction
}

// share is a tick.Share in progress.
type share struct {
	tick.Share
	waker            tick.WakerShare
	votes            wakerVotes
	who, stack, call vote // the thread of the process, its place, its call
	longest          int64
}

// shareKey identifies shares: a process that had the CPU, or a thread of the same process; the
// thing waited for, and the thread that ended the wait.
type shareKey struct {
	tid, dev uint32
	call     events.Syscall
	reason   events.Reason
	file     events.FileKind
	flags    events.WaitFlags
}

// lookup returns the share of a key, or nil if there is no room. The share of a new key is empty.
func (s *shares) lookup(k shareKey, ns int64) *share {
	if s.last < len(s.keys) && s.keys[s.last] == k {
		return &s.list[s.last]
	}
	if i := slices.Index(s.keys, k); i >= 0 {
		s.last = i
		return &s.list[i]
	}
	if len(s.keys) < cmp.Or(s.most, maxShares) {
		s.keys, s.list = append(s.keys, k), append(s.list, share{})
		s.last = len(s.keys) - 1
		return &s.list[s.last]
	}
	least := 0
	for i := range s.list {
		if s.list[i].NS < s.list[least].NS {
			least = i
		}
	}
	if s.unattributed += ns; uint64(s.unattributed) < s.list[least].NS {
		return nil
	}
	s.unattributed = 0
	s.last, s.keys[least], s.list[least] = least, k, share{}
	return &s.list[least]
}

// names are the shares of the time that a process or a thread lost.
type names struct{ runnable, blocked shares }

// named adds a wait of a process to the names.
func (n *names) named(pid uint32, q *queued, across events.Op, sync bool, agent uint32) {
	w := &q.Wait
	again := w.Flags&events.WaitPrevious != 0
	switch w.State {
	case events.WaitRunnable:
		ns := min(max(w.Taken, 0), w.Duration)
		k := shareKey{tid: w.Who.PID}
		switch {
		case w.Flags&events.WaitIdle != 0:
			k, ns = shareKey{flags: events.WaitIdle}, w.Duration
		case w.Reason == events.ReasonHypervisor:
			k = shareKey{reason: w.Reason}
		case w.Who.TID == 0:
			return
		case w.Who.PID == pid:
			k.tid = w.Who.TID
		}
		x := n.runnable.lookup(k, ns)
		if x == nil {
			return
		}
		x.Own, x.Agent, x.Idle, x.Reason = w.Who.PID == pid, w.Who.PID == agent && agent != 0, k.flags != 0, w.Reason
		x.add(w, ns, again)
	case events.WaitBlocked:
		if sync || again {
			return
		}
		k := shareKey{w.Who.TID, w.Dev, w.Syscall, w.Reason, w.File, w.Flags & (events.WaitByIRQ | events.WaitIO)}
		x := n.blocked.lookup(k, w.Duration)
		if x == nil {
			return
		}
		x.Own, x.Agent, x.ByIRQ = w.Who.TID != 0 && w.Who.PID == pid, w.Who.PID == agent && agent != 0, w.Flags&events.WaitByIRQ != 0
		x.Reason, x.Call, x.File, x.Dev = w.Reason, w.Syscall, w.File, w.Dev
		addWaker(&x.waker, &q.waker, &x.votes)
		stack := w.OwnStack()
		if w.Reason == events.ReasonGIL {
			stack = w.Stack
		}
		// A wait without a stack does not vote against the current one.
		if stack != 0 && x.stack.cast(x.Stack == stack, w.Duration) {
			x.Stack = stack
		}
		if x.call.cast(x.Across == across, w.Duration) {
			x.Across = across
		}
		x.add(w, w.Duration, false)
	}
}

func (x *share) add(w *events.Wait, ns int64, again bool) {
	if !again {
		x.Count++
	}
	x.NS += uint64(ns)
	same := x.Who.TID == w.Who.TID
	if x.who.cast(same, ns) || same {
		x.Who = w.Who // latest name: before, it may have been about to exec another program
	}
	if w.Duration > x.longest || x.longest == 0 {
		x.longest, x.Arg = w.Duration, w.Arg
	}
}

// top returns the shares, the largest first, bounded by a total.
func (s *shares) top(total uint64) []tick.Share {
	out := make([]tick.Share, 0, len(s.list))
	for i := range s.list {
		x := &s.list[i]
		if x.NS == 0 {
			continue
		}
		out = append(out, x.Share)
		if x.waker.Total() > 0 {
			w := x.waker
			out[len(out)-1].Waker = &w
		}
	}
	slices.SortStableFunc(out, func(a, b tick.Share) int {
		if c := cmp.Compare(b.NS, a.NS); c != 0 {
			return c
		}
		return cmp.Compare(a.Who.TID, b.Who.TID)
	})
	for i := range out {
		out[i].NS = min(out[i].NS, total)
		if total -= out[i].NS; out[i].NS == 0 {
			return out[:i]
		}
	}
	return out
}
