package causal

import (
	"fmt"
	"time"

	"ingero/internal/tick"
)

var oomKill = Rule{
	Name: "oom-kill", Needs: NeedHost, Problems: []string{"3", "7"},
	Vague: 0.3, // dead workers would have worked for others, too
	Doc:   "The kernel's OOM killer killed a process of the job.",
	Find: func(w *Window) (out []Finding) {
		for i := range w.host {
			h := &w.host[i]
			if h.Kind != tick.HostOOM {
				continue
			}
			for _, victim := range w.hitBy(h) {
				out = append(out, oomOf(w, h, victim))
			}
		}
		return out
	},
	Instead: []string{"lock-wait", "input-wait", "disk-wait"},
}

// hitBy returns the traced processes affected by the end of a process: itself and its parent, or,
// if the parent is unknown, those of its cgroup.
func (w *Window) hitBy(h *HostSample) (pids []uint32) {
	parent := uint32(0)
	cgroup, _ := h.OOMCgroup()
	for i := range w.Tick.Processes {
		if p := &w.Tick.Processes[i]; p.PID == h.PID {
			parent = p.PPID
		}
	}
	for i := range w.Tick.Others {
		if p := &w.Tick.Others[i]; p.PID == h.PID && parent == 0 {
			parent = p.PPID
		}
	}
	for i := range w.Tick.Processes {
		p := &w.Tick.Processes[i]
		if p.PID == parent || parent == 0 && p.PID != h.PID && cgroup != "" && cgroup != "/" && p.Cgroup == cgroup {
			pids = append(pids, p.PID)
		}
	}
	if b := w.History(h.PID); len(pids) == 0 && b != nil {
		pids = append(pids, h.PID)
	}
	return pids
}

func oomOf(w *Window, h *HostSample, victim uint32) Finding {
	name := h.Comm
	if name == "" {
		name = "a process"
	}
	x := Finding{
		PID: victim, Group: fmt.Sprint(h.PID), From: h.From, To: h.To, Severity: tick.High,
		Baseline: "no process is killed",
		Timeline: []tick.Moment{moment(h.From, "HOST", "the OOM killer killed %s (%d)", name, h.PID)},
	}
	x.TID, x.Lost, x.To = w.stalled(victim, h.From, h.To, nearlyAll)
	if lost := w.slower(victim, h.From); victim != h.PID && lost > x.Lost { // it worked for the others
		x.Lost, x.To = lost, w.Now()
	}
	who := tick.Culprit{What: "memory of the machine", Lost: time.Duration(x.Lost)}
	if cgroup, atLimit := h.OOMCgroup(); atLimit {
		who.What = "memory limit of " + cgroup
	}
	x.Culprits = []tick.Culprit{who}
	return x
}
