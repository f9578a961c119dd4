package causal

import (
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// aLoss is what a packet that is sent again costs: the kernel waits for 200 ms before it
// does, and twice as long each time after.
const aLoss = 500 * time.Millisecond

var tcpLoss = Rule{
	Name: "tcp-loss", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"20"},
	Doc: "Packets between the job and a peer were lost and sent again, while it waited for that peer.",
	Of:  []string{peerSlow.Name},
	When: func(c *tick.Chain, f *Facts) bool {
		h := f.lost(c)
		if time.Duration(h.Count)*aLoss*2 < c.Lost {
			return false
		}
		for i := range c.Culprits {
			c.Culprits[i].What += ": packets were lost"
		}
		c.Timeline = insert(c.Timeline, moment(h.From, "HOST", "packets sent again: %d, to %s", h.Count, h.Object))
		return true
	},
}

// lost adds up the packets that the process of a chain sent again, or anybody to the peer
// that it asks: the kernel sends again on its own time, in whatever process is there.
func (f *Facts) lost(c *tick.Chain) HostAt {
	peer, _ := f.asked(c)
	return f.sumOf(tick.HostRetransmit, c, func(h *HostAt) bool { return h.PID == c.PID || h.Object == peer })
}
