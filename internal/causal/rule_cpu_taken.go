package causal

import (
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// kthreadd is the parent of all kernel threads.
const kthreadd = 2

var cpuTaken = Rule{
	Name: "cpu-taken", Needs: NeedWaits, Share: 0.01, Slow: 3, Crowd: true, Problems: []string{"8", "12", "18"},
	Doc: "Another process ran on the CPU while a thread of the job was runnable.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitRunnable && p.Flags&events.WaitIdle == 0 && !p.crowdedWorker()
		},
		Baseline: zeroBaseline,
		Key: func(p *Part) Key {
			if p.Flags&events.WaitOthers != 0 { // programs started by a process, apart from itself
				return Key{ID: p.Who.PID, Did: tick.ActivityCrowd}
			}
			return Key{ID: p.Who.PID}
		},
		Blame: func(p *Part) (group, what string) {
			if p.Who.TID == 0 {
				return "", "many short-running threads"
			}
			if p.Flags&events.WaitOthers != 0 {
				return programName(&p.Who), "started many short-lived programs"
			}
			return programName(&p.Who), ""
		},
		Word: "other processes",
	},
}

// programName returns the common name of processes of one kind: kernel workers have numbers after a
// slash.
func programName(t *events.Thread) string {
	name := t.Name.String()
	if t.Parent == kthreadd || t.PID == kthreadd {
		name, _, _ = strings.Cut(name, "/")
	}
	return name
}
