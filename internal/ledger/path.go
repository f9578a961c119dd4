package ledger

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// maxLooks bounds the accounts examined for one wait.
	maxLooks = 64
	// maxRoots bounds the threads kept separately at the ends of a wait's chains.
	maxRoots = 8
)

// forAnother reports whether a thread that blocks for a reason waits for another thread to act.
var forAnother = [Reasons]bool{
	events.ReasonLock: true, events.ReasonGIL: true, events.ReasonPipe: true,
	events.ReasonSocket: true, events.ReasonPoll: true, events.ReasonChild: true,
	events.ReasonMemory: true, events.ReasonOther: true,
}

// path is the explanation of one wait: what the threads behind it did.
type path struct {
	share             tick.WakerShare
	blocked, runnable vote
	forGIL            int64 // ns
	roots             [maxRoots]root
	nroots            int
	looks             int
	chain             [tick.MaxHops]events.Thread // current chain: hop n at n-1
}

// root is a thread at the end of a chain of wakers.
type root struct {
	events.Thread
	ns      int64
	through [tick.MaxHops - 2]events.Thread // as in tick.WakerShare
}

// behind follows a blocked wait from waker to waker: what each did while the one before waited for
// it. Where a waker itself waited for another thread, that thread's activity counts instead, so
// each nanosecond counts once, at its root. The share is zero if nothing is known. forGIL is the
// part of it, ns, in which one of the threads waited for Python's lock.
func (l *Ledger) behind(t *thread, w *events.Wait) (share tick.WakerShare, forGIL int64) {
	if w.State != events.WaitBlocked || w.Who.TID == 0 || w.Who.TID == t.tid {
		return tick.WakerShare{}, 0
	}
	var p path
	l.follow(&p, w.Who, 1, w.Start, w.End())
	if best := p.best(); best != nil && best.TID != w.Who.TID {
		p.share.Root, p.share.Through = best.Thread, best.through
	}
	return p.share, p.forGIL
}

// askedNS is the longest time between a request and the wait for its reply.
const askedNS = 1e6

// asked reports whether a wait was for the reply to a request: just before it or during it, the same thread had
// woken the thread that ended it, and that one had waited for data.
func (l *Ledger) asked(t *thread, w *events.Wait) bool {
	s := l.threads[w.Who.TID]
	if w.State != events.WaitBlocked || s == nil || s == t || s.pid != w.Who.PID || s.pid == t.pid || !s.startedAt(w.Who.Start) {
		return false
	}
	for i := range s.past.waits {
		x := &s.past.waits[i]
		if x.state == events.WaitBlocked && x.by.TID == t.tid && x.by.PID == t.pid && x.end >= w.Start-askedNS && x.end < w.End() &&
			(x.reason == events.ReasonPipe || x.reason == events.ReasonSocket) && !x.call.Sends() {
			return true
		}
	}
	return false
}

// follow adds what a thread hop hops behind the wait did in [start, end), and returns the known
// part, ns.
func (l *Ledger) follow(p *path, who events.Thread, hop int, start, end int64) (known int64) {
	t := l.threads[who.TID]
	if t == nil || t.pid != who.PID || !t.startedAt(who.Start) || !t.past.known || p.looks >= maxLooks {
		return 0
	}
	p.looks++
	p.chain[hop-1] = who
	start = max(start, t.past.since)
	left := end - start
	if left <= 0 {
		return 0
	}
	known = left
	var own tick.WakerShare
	for i := range t.past.waits { // in order, so that the result does not depend on where the ring begins
		w := t.past.at(i)
		from, to := max(w.start, start), min(w.end, end)
		if to <= from {
			continue
		}
		ns := min(w.in(from, to), left)
		left -= ns
		if by := t.past.endedBy(w); w.forAnother() && by.TID != 0 && by.TID != who.TID && hop < tick.MaxHops {
			before := p.forGIL
			found := l.follow(p, by, hop+1, from, from+ns)
			if w.reason == events.ReasonGIL { // all of it, whatever is behind
				p.forGIL = before + found
			}
			ns -= found
		}
		p.add(&own, w, ns)
	}
	own.OnCPU = uint64(left)
	p.share.Times.Add(&own.Times)
	p.root(hop, int64(own.Total()))
	return known
}

// add adds a wait of a root.
func (p *path) add(own *tick.WakerShare, w *pastWait, ns int64) {
	s := &p.share
	switch {
	case ns <= 0:
	case w.state == events.WaitRunnable:
		own.Runnable += uint64(ns)
		stolen := w.reason == events.ReasonHypervisor
		if p.runnable.cast(s.By.PID == w.by.PID && s.Hypervisor == stolen, ns) {
			s.By, s.Hypervisor = w.by, stolen
		}
	case w.state == events.WaitThrottled:
		own.Throttled += uint64(ns)
	default:
		own.Blocked += uint64(ns)
		if p.blocked.cast(s.Reason == w.reason && s.Call == w.call && s.Dev == w.dev, ns) {
			s.Reason, s.Call, s.Dev = w.reason, w.call, w.dev
		}
	}
}

// root adds time to the thread at the end of the current chain, hop hops behind the wait. The first
// chain to reach a root is the reported one.
func (p *path) root(hop int, ns int64) {
	who := p.chain[hop-1]
	for i := range p.roots[:p.nroots] {
		if x := &p.roots[i]; x.TID == who.TID {
			x.ns, x.Name = x.ns+ns, who.Name // the latest: it may have been about to exec another program
			return
		}
	}
	if p.nroots < maxRoots {
		x := &p.roots[p.nroots]
		*x = root{Thread: who, ns: ns}
		for i := 1; i < hop-1 && p.chain[i].TID != who.TID; i++ { // threads may wait for each other
			x.through[i-1] = p.chain[i]
		}
		p.nroots++
	}
}

// best returns the root with the most time.
func (p *path) best() (best *root) {
	for i := range p.roots[:p.nroots] {
		if x := &p.roots[i]; best == nil || x.ns > best.ns {
			best = x
		}
	}
	return best
}
