package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var stopped = Rule{
	Name: "stopped", Dims: govern.HostEvents, Word: "signals", Needs: NeedWaits, Norm: noneIsNormal, Share: 0.01, Slow: 1, Problems: []string{"12"},
	Doc:   "The job was stopped, by a signal or a debugger.",
	Match: func(p *Part) bool { return p.State == events.WaitBlocked && p.Reason == events.ReasonStopped },
	// Of a worker that the job waited for, the kernel says who sent the signal.
	Tell: func(c *tick.Chain, f *Facts) bool {
		for i := range c.Culprits {
			x := &c.Culprits[i]
			if h, ok := f.stopSignal(x.Thread.PID); ok && h.Sender != 0 {
				x.What = fmt.Sprintf("stopped %s (%d), which the job waited for", x.Thread.Name, x.Thread.PID)
				x.Thread = events.Thread{PID: h.Sender, TID: h.Sender, Name: events.NameOf(h.Comm)}
			}
		}
		return true
	},
	Key: func(p *Part) Key { return Key{ID: p.Who.PID} },
	Blame: func(p *Part) (group, what string) {
		if p.Who.TID == 0 {
			return "", "a signal"
		}
		return programName(&p.Who), "stopped it"
	},
}
