package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/pkg/events"
)

var stopped = Rule{
	Name: "stopped", Dims: govern.HostEvents, Needs: NeedWaits, Share: 0.01, Slow: 1, Problems: []string{"12"},
	Doc: "The job was stopped, by a signal or a debugger.",
	Claims: &Claims{
		Part:     func(p *Part) bool { return p.State == events.WaitBlocked && p.Reason == events.ReasonStopped },
		Baseline: zeroBaseline,
		Key:      func(p *Part) Key { return Key{ID: p.Who.PID} },
		Blame: func(p *Part) (group, what string) {
			if p.Who.TID == 0 {
				return "", "a signal"
			}
			return programName(&p.Who), "stopped it"
		},
		Word: "signals",
	},
	// For a worker that the job waited for, the kernel reports who sent the signal.
	Find: claimed(func(w *Window, x *Finding) bool {
		for i := range x.Culprits {
			c := &x.Culprits[i]
			if h, ok := w.stopSignal(c.Thread.PID); ok && h.Sender != 0 {
				c.What = fmt.Sprintf("stopped %s (%d), which the job waited for", c.Thread.Name, c.Thread.PID)
				c.Thread = events.Thread{PID: h.Sender, TID: h.Sender, Name: events.NameOf(h.Comm)}
			}
		}
		return true
	}),
}
