package causal

import "ingero/pkg/events"

var stopped = Rule{
	Name: "stopped", Word: "signals", Needs: NeedWaits, Prior: always, Share: 0.01, Slow: 1, Problems: []string{"12"},
	Doc:   "The job was stopped, by a signal or a debugger.",
	Match: func(p *Part) bool { return p.State == events.WaitBlocked && p.Reason == events.ReasonStopped },
	Key:   func(p *Part) Key { return Key{ID: p.Who.PID} },
	Blame: func(p *Part) (group, what string) {
		if p.Who.TID == 0 {
			return "", "a signal"
		}
		return programName(&p.Who), "stopped it"
	},
}
