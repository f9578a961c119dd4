package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/pkg/events"
)

var diskWait = Rule{
	Name: "disk-wait", Dims: govern.HostEvents, Needs: NeedWaits, Share: 0.01, Slow: 1, Problems: []string{"2", "12", "22"},
	Vague: 0.3, // the speed of a disk varies
	Doc:   "The job, or a thread it waited for, waited for a disk: for a read, a write or a page of memory.",
	Claims: &Claims{
		Part: func(p *Part) bool {
			if p.State != events.WaitBlocked {
				return false
			}
			switch p.Reason {
			case events.ReasonDisk, events.ReasonFile: // a file system waits for its journal without the I/O flag
				return true
			case events.ReasonFault:
				return p.Flags&events.WaitIO != 0 || p.Via.TID != 0
			}
			return p.Flags&events.WaitIO != 0 && p.Reason != events.ReasonStopped
		},
		// A program saves its state from time to time, and reads what it needs. Reading a page back
		// is never normal.
		// A producer's disk wait while the job waits for it is not normal either, unless most steps
		// have less.
		Baseline: func(p *Part) baseline {
			switch {
			case p.Reason == events.ReasonFault:
				return baselineZero
			case p.Via.TID != 0:
				return baselineLevel
			}
			return baselineHabit
		},
		Key: func(p *Part) Key { return Key{ID: p.Via.TID, Dev: p.Dev, Reason: p.Reason, Did: p.did()} },
		Blame: func(p *Part) (group, what string) {
			what = "disk"
			if p.Dev != 0 {
				what = fmt.Sprintf("disk %d:%d", p.Dev>>20, p.Dev&(1<<20-1))
			}
			switch {
			case p.Reason == events.ReasonFault:
				what += ", for a page of memory"
			case p.Call != 0:
				what += ", " + p.Call.String()
			}
			if p.Via.TID != 0 {
				what += fmt.Sprintf(", in %s (%d), which the job waited for", p.Via.Name, p.Via.TID)
			}
			return "disk", what
		},
		Word: "disk",
	},
}
