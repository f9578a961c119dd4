package causal

import "ingero/internal/tick"

// stopSignals are those that stop a process.
var stopSignals = map[string]bool{"SIGSTOP": true, "SIGTSTP": true, "SIGTTIN": true, "SIGTTOU": true}

var debugger = Rule{
	Name: "debugger", Needs: NeedWaits | NeedHost, Problems: []string{"12"},
	Doc: "The job was stopped, and no signal that stops was sent to it: a debugger or a profiler held it (ptrace).",
	Of:  []string{stopped.Name},
	When: func(c *tick.Chain, f *Facts) bool {
		b := f.Book(c.PID)
		if b == nil || f.e.have&NeedHost == 0 {
			return false
		}
		for i := range b.Host {
			if h := &b.Host[i]; h.Kind == tick.HostSignal && stopSignals[h.Object] {
				return false
			}
		}
		for i := range c.Culprits {
			c.Culprits[i].What = "held it (ptrace)"
		}
		return true
	},
}
