package causal

import (
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

var toolCall = Rule{
	Name: "tool-call", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"5", "9"},
	Doc: "The job asked another program or a service for something between its steps, and the GPU had nothing to do until the answer came.",
	Of:  []string{peerSlow.Name},
	When: func(c *tick.Chain, f *Facts) bool {
		return c.Slow > 0 && c.Lost/time.Duration(c.Slow) >= 20*time.Millisecond && f.shareWith(c.PID, peerSlow.Name) < 0.3
	},
}
