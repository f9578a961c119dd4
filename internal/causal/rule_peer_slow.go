package causal

import (
	"cmp"
	"maps"
	"net"
	"slices"

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
				k := Key{ID: p.end().PID, Reason: p.asleep(), Did: p.awaits().did}
				if p.Root == events.ReasonPipe {
					k.Root = p.Root
				}
				return k
			}
			return Key{ID: p.Via.TID, Reason: p.Reason}
		},
		Blame: func(p *Part) (group, what string) {
			a := p.awaits()
			switch {
			case !p.isPeerWait():
				return "peer", tick.APeer
			case a.group != inputGroup && p.sleeps():
				return a.group, "slept while the job waited " + a.what
			case a.group != inputGroup:
				return a.group, "the job waited " + a.what
			case p.sleeps():
				return "peer", "slept while the job waited for it"
			}
			return "peer", "the job waited for its data"
		},
		Word: "the network",
	},
	// A server waits for requests; that is no loss.
	Find: claimed(func(w *Window, x *Finding) bool {
		if acts(x.Group) {
			return true
		}
		peer, ok := w.peerOf(x)
		x.allow(w.sure(x))
		for i := range x.Culprits {
			if c := &x.Culprits[i]; c.What == tick.APeer && peer != "" {
				c.What = tick.PeerAt + peer
			}
		}
		return ok
	}),
}

// peerOf returns the peer of a finding. It is "" for ranks, which query each other, and for processes at UNIX
// sockets, which are culprits themselves; ok is false if no peer is known.
func (w *Window) peerOf(x *Finding) (peer string, ok bool) {
	if peer, ok = w.silentPeer(x); ok {
		return peer, true
	}
	peer, ok = w.busiestPeer(x)
	return peer, ok || slices.ContainsFunc(x.Culprits, func(c tick.Culprit) bool { return isRank(&c) }) || w.asksLocally(x)
}

// asksLocally reports whether the process of a finding queries one at a UNIX socket, and mostly waited, at sockets,
// for processes outside its job. Clients of its own may give it work. Which process has the name of a socket is
// unknown.
func (w *Window) asksLocally(x *Finding) bool {
	asks := false
	for i := range w.host {
		switch h := &w.host[i]; {
		case h.PID != x.PID || h.Kind != tick.HostUnixSend && h.Kind != tick.HostUnixReceive:
		case h.Object == "":
			return false
		default:
			asks = asks || w.answered(&h.HostSum)
		}
	}
	if !asks {
		return false
	}
	var local, all float64
	steps := w.stepsFound(x)
	for i := range steps {
		s := &steps[i]
		for _, g := range s.excess() {
			c := w.cause(g)
			if c.rule() != x.rule || c.group != x.Group {
				continue
			}
			lost := s.weight * s.lossBy(g)
			all += lost
			if c.id.key.Root != events.ReasonPipe && c.what != tick.APeer && w.e.relations.foreign(x.PID, &c.thread) {
				local += lost
			}
		}
	}
	return local > all/2
}

// answered reports whether the peer of a sum ever sent data. Others take logs or metrics.
func (w *Window) answered(h *tick.HostSum) bool { return w.e.relations.heard[h.PID][h.Object] }

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

// hasReceiver reports whether the victim, a process with clients, waited for a thread of its own that may
// receive requests. In other processes, that thread may hold a lock.
func (p *Part) hasReceiver() bool { return p.Serves && p.receives() != tick.ActivityUnknown }

// talks calls take for each sum about a server as the peer of the process of a finding, or of one of its
// culprits.
func (w *Window) talks(x *Finding, take func(h *HostSample)) {
	pids := map[uint32]bool{x.PID: true}
	for i := range x.Culprits {
		pids[x.Culprits[i].Thread.PID] = true
	}
	names, exchanged := w.namesOf(x), w.traffics(pids)
	for i := range w.host {
		switch h := &w.host[i]; {
		case !pids[h.PID] || h.PID == 0 || h.FromClient():
		case h.PID == x.PID && h.Comm != "" && names != nil && !names[h.Comm]: // the peer of another thread
		case h.PID != x.PID && serves(exchanged, x.PID, &h.HostSum): // the peer is the process itself
		default:
			take(h)
		}
	}
}

// traffic is the TCP data, in bytes, of a process with a peer.
type traffic struct{ sent, received uint64 }

// traffics returns the TCP data of processes by peer.
func (w *Window) traffics(pids map[uint32]bool) map[asked]traffic {
	out := map[asked]traffic{}
	for i := range w.host {
		h := &w.host[i]
		if !pids[h.PID] || h.Kind != tick.HostSend && h.Kind != tick.HostReceive {
			continue
		}
		k := asked{h.PID, h.Object}
		x := out[k]
		if h.Kind == tick.HostSend {
			x.sent += h.Bytes
		} else {
			x.received += h.Bytes
		}
		out[k] = x
	}
	return out
}

// serves reports whether a process may be a client's peer: it exchanged about as much with clients at the peer's address as
// the client with the peer. The kernel's sums do not have the process's own port.
func serves(exchanged map[asked]traffic, pid uint32, client *tick.HostSum) bool {
	address, _, _ := net.SplitHostPort(client.Object)
	peer, own := exchanged[asked{client.PID, client.Object}], exchanged[asked{pid, address}]
	return peer.sent > 0 && peer.received > 0 && like(peer.sent, own.received) && like(peer.received, own.sent)
}

// like reports whether two sides may have counted the same data: a tick may have the data of one side only, and a server
// may have other clients.
func like(a, b uint64) bool { return a <= 4*b && b <= 4*a }

// busiestPeer returns the TCP peer that the process of a finding, or one of its culprits, queries most; if it
// queries none, the peer that sends it data most often. ok is false if there is none.
func (w *Window) busiestPeer(x *Finding) (peer string, ok bool) {
	queried, heard := map[string]uint64{}, map[string]uint64{}
	w.talks(x, func(h *HostSample) {
		switch h.Kind {
		case tick.HostConnect, tick.HostSend:
			queried[h.Object] += max(h.Count, 1)
		case tick.HostReceive:
			heard[h.Object] += max(h.Count, 1)
		}
	})
	if len(queried) == 0 {
		queried = heard
	}
	return most(queried)
}

// most returns the peer with the highest count; ok is false if there is none.
func most[N uint64 | int](times map[string]N) (peer string, ok bool) {
	for p, n := range times {
		if !ok || n > times[peer] || n == times[peer] && p < peer {
			peer, ok = p, true
		}
	}
	return peer, ok
}

// silentPeer returns the UDP peer that did not answer in most ticks about the time of a finding. Peers that never answered before take logs or metrics.
func (w *Window) silentPeer(x *Finding) (peer string, ok bool) {
	type exchange struct {
		asked
		from, to int64
	}
	sent, received := map[exchange]bool{}, map[exchange]bool{}
	w.talks(x, func(h *HostSample) {
		switch at := (exchange{asked{h.PID, h.Object}, h.From, h.To}); {
		case !about(h, x) || !w.answered(&h.HostSum):
		case h.Kind == tick.HostUDPSend:
			sent[at] = true
		case h.Kind == tick.HostUDPReceive:
			received[at] = true
		}
	})
	silent := map[string]int{}
	for at := range sent {
		if !received[at] && at.from <= x.To && at.to < w.Tick.Time.UnixNano() { // others may have answers in the next tick
			silent[at.peer]++
		}
	}
	for at := range received {
		if !sent[at] { // it answers a query of an earlier tick
			silent[at.peer]--
		}
	}
	maps.DeleteFunc(silent, func(_ string, n int) bool { return n <= 0 })
	return most(silent)
}

// namesOf returns the names of a finding's process, now and at first, of its thread, and of the threads of the process that it
// waited for; nil if the name of its thread is unknown.
func (w *Window) namesOf(x *Finding) map[string]bool {
	i := slices.IndexFunc(w.Tick.Threads, func(t tick.Thread) bool { return t.PID == x.PID && t.TID == x.TID })
	if i < 0 || w.Tick.Threads[i].Comm == "" {
		return nil
	}
	names := map[string]bool{w.Tick.Threads[i].Comm: true}
	for i := range w.Tick.Processes {
		if p := &w.Tick.Processes[i]; p.PID == x.PID {
			names[p.Comm] = true
		}
	}
	if b := w.e.histories[x.PID]; b != nil {
		names[b.first] = true
	}
	for i := range x.Culprits {
		if c := &x.Culprits[i]; c.Own {
			names[c.Thread.Name.String()] = true
		}
	}
	return names
}

// received is how often a process received data from clients in a time range. Each of its waits for requests
// ended with such data.
type received struct {
	timeSpan
	times float64
}

// requestsOf returns how often a process received data from clients, by tick.
func (w *Window) requestsOf(pid uint32) (out []received) {
	for i := range w.host {
		h := &w.host[i]
		if h.PID != pid || h.Kind != tick.HostReceive || !h.FromClient() {
			continue
		}
		if n := len(out); n == 0 || out[n-1].to != h.To {
			out = append(out, received{timeSpan: timeSpan{h.From, h.To}})
		}
		out[len(out)-1].times += float64(h.Count)
	}
	return out
}

// spend takes up to n receptions that were near the time in which a wait ended, and returns how many it took.
func spend(list []received, ended timeSpan, n float64) (taken float64) {
	for i := range list {
		r := &list[i]
		if late := r.to - r.from; r.from > ended.to || r.to+late < ended.from {
			continue
		}
		took := min(r.times, n-taken)
		r.times -= took
		taken += took
	}
	return taken
}

// answering returns when the thread of a finding had requests to answer, as far as they are measured. If
// other threads of its process received all requests, it may work on any of them.
func (w *Window) answering(x *Finding) []timeSpan {
	s := w.e.servers[x.PID]
	if s == nil {
		return nil
	}
	var own, all []timeSpan
	for _, o := range s.open {
		if o.pid != x.PID {
			continue
		}
		all = append(all, o.timeSpan)
		if o.tid == x.TID {
			own = append(own, o.timeSpan)
		}
	}
	if len(own) > 0 {
		return own
	}
	return merged(all)
}

// sure returns the share of a finding that was no wait for requests: between two requests, a server is idle.
// Each such wait ended with data from a client. So as many waits for an unknown peer, or for a thread that
// receives, as there was such data near their ends may be idle time. The longest ones are taken. While the
// thread had a request to answer, it was not idle. Ranks are each other's clients.
func (w *Window) sure(x *Finding) (share float64) {
	requests := w.requestsOf(x.PID)
	if len(requests) == 0 || w.e.relations.meets[x.PID] != "" {
		return 1
	}
	type wait struct {
		idle, steps float64
		ended       timeSpan
	}
	var sure float64
	var waits []wait
	steps, busy := w.stepsFound(x), w.answering(x)
	for i := range steps {
		s, unknown := &steps[i], 0.0
		for _, g := range s.excess() {
			switch c := w.cause(g); {
			case c.rule() != x.rule || c.group != x.Group:
			case c.what == tick.APeer || c.group == receiver:
				unknown += s.lossBy(g)
			default:
				sure += s.weight * s.lossBy(g)
			}
		}
		idle := min(unknown, float64(s.length-overlap(busy, s.from, s.to())))
		sure += s.weight * (unknown - idle)
		waits = append(waits, wait{idle, s.weight, timeSpan{s.from + int64(idle), s.to()}})
	}
	all := sure
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(b.idle, a.idle) })
	for _, wait := range waits {
		all += wait.steps * wait.idle
		sure += (wait.steps - spend(requests, wait.ended, wait.steps)) * wait.idle
	}
	return sure / max(all, 1)
}

// allow weakens a finding of which only a share is sure.
func (x *Finding) allow(share float64) {
	x.Min = int64(share * float64(x.Min))
	x.Severity = min(x.Severity, severity(share*float64(x.Lost), float64(x.Window)))
	x.Confidence *= (1 + share) / 2
}
