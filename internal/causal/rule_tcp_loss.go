package causal

import "ingero/internal/tick"

var tcpLoss = Rule{
	Name: "tcp-loss", Needs: NeedWaits | NeedHost, Problems: []string{"20"},
	Doc: "Packets between the job and a peer were lost and sent again, while it waited for that peer.",
	Of:  []string{peerSlow.Name},
	When: func(c *tick.Chain, f *Facts) bool {
		h := f.sum(tick.HostRetransmit, c.PID, c)
		if h.Count == 0 {
			h = f.sum(tick.HostRetransmit, 0, c)
		}
		if h.Count == 0 {
			return false
		}
		for i := range c.Culprits {
			c.Culprits[i].What += ": packets were lost"
		}
		c.Timeline = insert(c.Timeline, moment(h.From, "HOST", "packets sent again: %d, to %s", h.Count, h.Object))
		return true
	},
}
