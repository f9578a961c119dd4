package causal

import (
	"net"
	"strconv"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// firstEphemeral is the first port that Linux gives to the side that connects.
const firstEphemeral = 32768

var peerSlow = Rule{
	Name: "peer-slow", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Share: 0.01, Slow: 1, Problems: []string{"20", "21"},
	Doc: "The job, or a thread that it waited for, waited for what it had asked of a peer.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitBlocked && (p.Reason == events.ReasonSocket || p.Reason == events.ReasonPoll)
		},
		Key: func(p *Part) Key { return Key{ID: p.Via.TID, Reason: p.Reason} },
		Blame: func(p *Part) (group, what string) {
			return "peer", "a peer"
		},
		Word: "the network",
	},
	// A server waits for requests, which is not its loss.
	Find: claimed(func(w *Window, x *Finding) bool {
		peer, ok := w.asked(x)
		if !ok {
			return false
		}
		for i := range x.Culprits {
			if c := &x.Culprits[i]; c.What == "a peer" {
				c.What = "peer " + peer
			}
		}
		return true
	}),
}

// asked returns the peer that the process of a finding, or a culprit of it, asks most;
// ok is false where it asks none.
func (w *Window) asked(x *Finding) (peer string, ok bool) {
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
		_, port, err := net.SplitHostPort(h.Object)
		if err != nil {
			continue
		}
		if n, err := strconv.Atoi(port); h.Kind == tick.HostConnect || err == nil && n < firstEphemeral {
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
