package causal

import (
	"net"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var peerSlow = Rule{
	Name: "peer-slow", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Share: 0.01, Slow: 1, Problems: []string{"20", "21"},
	Doc: "The job, or a thread it waited for, waited for data from another process or machine.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.isPeerWait() || p.State == events.WaitBlocked && (p.Reason == events.ReasonSocket || p.Reason == events.ReasonPoll) && (!p.isThreadWait() || p.hasReceiver())
		},
		// Ranks wait for each other in each step: the first one to arrive waits for some time. One that
		// sleeps between messages may keep a pace. Other peers answer requests, asleep or not. A thread
		// that receives data for the others hands it over.
		Baseline: func(p *Part) baseline {
			switch rank := p.Relation == tick.RelationRank || p.ViaRelation == tick.RelationRank; {
			case p.isThreadWait():
				return baselineHandOver
			case rank && p.sleeps():
				return baselinePace
			case rank && p.isPeerWait():
				return baselineMeeting
			}
			return baselineLearned
		},
		Started: true,
		Key: func(p *Part) Key {
			if p.isPeerWait() {
				return Key{ID: p.end().PID, Reason: p.asleep()}
			}
			return Key{ID: p.Via.TID, Reason: p.Reason}
		},
		Blame: func(p *Part) (group, what string) {
			switch {
			case !p.isPeerWait():
				return "peer", tick.APeer
			case p.sleeps():
				return "peer", "slept while the job waited for it"
			}
			return "peer", "the job waited for its data"
		},
		Word: "the network",
	},
	// A server waits for requests; that is no loss.
	Find: claimed(func(w *Window, x *Finding) bool {
		peer, ok := w.busiestPeer(x)
		for i := range x.Culprits {
			c := &x.Culprits[i]
			if c.What == tick.APeer && peer != "" {
				c.What = tick.PeerAt + peer
			}
			ok = ok || isRank(c) // ranks query each other
		}
		return ok
	}),
}

// isPeerWait reports whether the victim waited for data from another process that does not make its
// input.
func (p *Part) isPeerWait() bool {
	if p.State != events.WaitBlocked || !p.isInputWait() || p.isThreadWait() {
		return false
	}
	if p.Via.TID != 0 {
		return p.sleeps() && p.ViaRelation != tick.RelationWorker
	}
	return p.Who.TID != 0 && p.Relation != tick.RelationWorker
}

// isThreadWait reports whether the victim waited, in any way, for another thread of its process.
func (p *Part) isThreadWait() bool {
	end := p.end()
	return end.TID != 0 && end.PID == p.Victim
}

// hasReceiver reports whether the victim, a process with clients, waited for a thread of its own that
// waited itself, such as one that receives requests. In other processes, that thread may hold a lock.
func (p *Part) hasReceiver() bool {
	return p.Serves && p.isThreadWait() && p.Via.TID != 0 && p.Root != events.ReasonGIL
}

// busiestPeer returns the peer that the process of a finding, or one of its culprits, queries most;
// ok is false if there is none.
func (w *Window) busiestPeer(x *Finding) (peer string, ok bool) {
	pids := map[uint32]bool{x.PID: true}
	for i := range x.Culprits {
		pids[x.Culprits[i].Thread.PID] = true
	}
	times := map[string]uint64{}
	for i := range w.host {
		h := &w.host[i]
		if !pids[h.PID] || h.PID == 0 || h.Kind != tick.HostConnect && h.Kind != tick.HostSend {
			continue
		}
		if _, _, err := net.SplitHostPort(h.Object); err == nil { // otherwise a client of the process
			times[h.Object] += max(h.Count, 1)
		}
	}
	for p, n := range times {
		if !ok || n > times[peer] || n == times[peer] && p < peer {
			peer, ok = p, true
		}
	}
	return peer, ok
}
