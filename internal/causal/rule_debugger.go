package causal

import (
	"strings"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// stopSignals are the signals that stop a process.
var stopSignals = map[string]bool{"SIGSTOP": true, "SIGTSTP": true, "SIGTTIN": true, "SIGTTOU": true}

var debugger = Rule{
	Name: "debugger", Sees: govern.HostEvents, Rests: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"12"},
	Doc: "The job was stopped without a stop signal: a debugger or a profiler held it (ptrace).",
	Find: takeOver([]string{stopped.Name}, func(w *Window, x *Finding) bool {
		if !w.hasInputs(NeedHost) {
			return false
		}
		if _, ok := w.stopSignal(x.PID); ok || strings.Contains(x.Culprits[0].What, "which the job waited for") {
			return false
		}
		for i := range x.Culprits {
			x.Culprits[i].What = "held it (ptrace)"
		}
		return true
	}),
}

// stopSignal returns the last signal that stopped a process.
func (w *Window) stopSignal(pid uint32) (last HostSample, ok bool) {
	for i := range w.host {
		if h := &w.host[i]; h.PID == pid && pid != 0 && h.Kind == tick.HostSignal && stopSignals[h.Object] {
			last, ok = *h, true
		}
	}
	return last, ok
}
