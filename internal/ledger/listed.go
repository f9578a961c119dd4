package ledger

import (
	"cmp"
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// maxListed bounds the threads of a process with a separate account: the first ones. An ended
	// thread stays until its place is needed; then its time goes to the rest. So a later account
	// contains the earlier one, and they can be subtracted.
	maxListed = 31
	// maxNamed bounds the names of a part of a thread's time in one place.
	maxNamed = 8
)

// listing is the final decision whether a thread has a separate account.
type listing uint8

const (
	listingOpen listing = iota
	listingYes
	listingNo
)

// lists reports whether a thread has a separate account.
func (p *process) lists(t *thread) bool {
	if t.listing == listingOpen && t.account.total() > 0 {
		t.listing = listingNo
		if p.listed < maxListed || p.makeRoom() {
			p.listed++
			t.listing = listingYes
		}
	}
	return t.listing == listingYes
}

// makeRoom drops the ended thread with the least time in calls.
func (p *process) makeRoom() bool {
	if len(p.endedThreads) == 0 {
		return false
	}
	least := 0
	for i := range p.endedThreads {
		if p.endedThreads[i].Busy() < p.endedThreads[least].Busy() {
			least = i
		}
	}
	p.endedThreads = slices.Delete(p.endedThreads, least, least+1)
	p.listed--
	return true
}

// named adds a wait to the names of the thread's own time.
func (t *thread) named(q *queued, sync bool, across events.Op, agent uint32) {
	if t.listing == listingNo {
		return
	}
	if t.names == nil {
		t.names = &[tick.Places]names{}
		for p := range t.names {
			t.names[p].runnable.most, t.names[p].blocked.most = maxNamed, maxNamed
		}
	}
	place := tick.BetweenCalls
	switch {
	case sync:
		place = tick.InGPUWaits
	case q.Op != 0:
		place = tick.InCalls
	}
	t.names[place].named(t.pid, q, across, sync, agent)
}

// time returns the thread's account.
func (t *thread) time() tick.ThreadTime {
	x := tick.ThreadTime{TID: t.tid, Comm: t.comm}
	for p := range x.In {
		x.In[p].Times = t.account[p]
		if t.names != nil {
			n := &t.names[p]
			x.In[p].RunnableBy, x.In[p].BlockedOn = n.runnable.top(t.account[p].Runnable), n.blocked.top(t.account[p].Blocked)
		}
	}
	return x
}

// leave keeps the account of a thread that has ended.
func (p *process) leave(t *thread) {
	if !p.lists(t) {
		return
	}
	x := t.time()
	if i := slices.IndexFunc(p.endedThreads, func(g tick.ThreadTime) bool { return g.TID == t.tid }); i >= 0 { // reused TID
		p.endedThreads[i] = p.endedThreads[i].Plus(&x)
		p.listed--
		return
	}
	p.endedThreads = append(p.endedThreads, x)
}

// byThread returns the threads, longest time in calls first. The last entry is the rest of all.
func (p *process) byThread(all *account) []tick.ThreadTime {
	out := make([]tick.ThreadTime, 0, p.listed+1)
	out = append(out, p.endedThreads...)
	for _, t := range p.live {
		x := t.time()
		if i := slices.IndexFunc(out, func(g tick.ThreadTime) bool { return g.TID == t.tid }); i >= 0 {
			out[i] = out[i].Plus(&x)
			continue
		}
		out = append(out, x)
	}
	rest := tick.ThreadTime{}
	for place := range all {
		left := all[place]
		for i := range out {
			left = less(&left, &out[i].In[place].Times)
		}
		rest.In[place].Times = left
	}
	slices.SortFunc(out, func(a, b tick.ThreadTime) int {
		return cmp.Or(cmp.Compare(b.Busy(), a.Busy()), cmp.Compare(a.TID, b.TID))
	})
	if rest.Elapsed() > 0 {
		out = append(out, rest)
	}
	return out
}
