package causal

import (
	"ingero/internal/govern"
	"ingero/internal/tick"
)

// aLoss is the cost of a retransmitted packet, ns: the kernel waits 200 ms first, and twice as long
// each time after.
const aLoss = 500e6

var tcpLoss = Rule{
	Name: "tcp-loss", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"20"},
	Doc: "Packets between the job and a peer were lost and retransmitted while the job waited for that peer.",
	Find: takeOver([]string{peerSlow.Name}, func(w *Window, x *Finding) bool {
		if 2*x.lostTo(isProcess) > x.Lost { // it is known what the culprits did meanwhile
			return false
		}
		h := w.lost(x)
		if int64(h.Count)*aLoss*2 < x.Lost {
			return false
		}
		for i := range x.Culprits {
			x.Culprits[i].What += ": packets were lost"
		}
		x.Timeline = insert(x.Timeline, moment(h.From, "HOST", "packets retransmitted: %d, to %s", h.Count, h.Object))
		return true
	}),
}

// lost adds up the retransmits of a finding's process, and of any process to the peer that it
// queries: the kernel's timers retransmit in the context of any process.
func (w *Window) lost(x *Finding) HostSample {
	peer, _ := w.busiestPeer(x)
	return w.sumOf(tick.HostRetransmit, x, func(h *HostSample) bool { return h.PID == x.PID || h.Object == peer })
}

// lostTo returns how much of a finding's loss is attributed to culprits of a kind, ns.
func (x *Finding) lostTo(match func(c *tick.Culprit) bool) (ns int64) {
	for i := range x.Culprits {
		if c := &x.Culprits[i]; match(c) {
			ns += int64(c.Lost)
		}
	}
	return ns
}

func isProcess(c *tick.Culprit) bool { return c.Thread.TID != 0 && !c.IsPeer() }
func isRank(c *tick.Culprit) bool    { return c.Root.Whose == tick.RelationRank }
