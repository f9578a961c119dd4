package causal

import (
	"strings"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var memoryLimit = Rule{
	Name: "memory-limit", Sees: govern.HostEvents, Needs: NeedHost, Share: 0.01, Slow: 1, Problems: []string{"18"},
	Doc: "The job's cgroup was at its memory limit: the job had to reclaim pages, and to read back pages that it needed again.",
	// Above memory.high, the kernel lets a thread sleep at the end of a page fault.
	Claims: &Claims{
		Part: func(p *Part) bool {
			return p.State == events.WaitBlocked && p.Reason == events.ReasonFault && p.Flags&(events.WaitIO|events.WaitByIRQ) == events.WaitByIRQ && p.Via.TID == 0
		},
		Baseline: zeroBaseline,
		Key:      func(p *Part) Key { return Key{Reason: p.Reason} },
		Blame:    func(*Part) (group, what string) { return "sleep", "memory limit of its cgroup" },
	},
	Find: joinFinds(reclaimed(tick.HostCgroupReclaim), joinFinds(claimed(func(w *Window, x *Finding) bool {
		_, reached := w.limit(x, tick.LimitMemory)
		x.Culprits, x.taken = []tick.Culprit{w.limitOf(x)}, true // a part of what reclaim cost
		return reached
	}), takeOver([]string{diskWait.Name}, func(w *Window, x *Finding) bool {
		switch {
		case !w.limited(x):
			return false
		case x.isPageWait():
			w.addFaults(x, int64(w.sum(tick.HostCgroupReclaim, x.PID, x).NS))
		case !w.readsAgain(x):
			return false
		default: // the CPU time of reading again cannot be told from that of the job's other work
			x.Max, x.onCPU = max(x.Max, min(x.Max+w.cpuBeside(x), x.Window)), true
		}
		x.Culprits = append([]tick.Culprit{w.limitOf(x)}, x.Culprits...)
		return true
	}))),
}

// readsAgain reports whether the waits of a finding are for reads of files, most of which had been in
// memory until the limit pushed them out. A program that reads new data through a full page cache
// reclaims pages, too, but does not need them again.
func (w *Window) readsAgain(x *Finding) bool {
	again := w.sum(tick.HostRefault, x.PID, x).Bytes
	return len(x.Culprits) > 0 && strings.Contains(x.Culprits[0].What, "read") && // a system call
		again > 0 && 2*again >= w.sum(tick.HostDiskRead, x.PID, x).Bytes
}

// limitOf returns the memory limit that a finding's process hit.
func (w *Window) limitOf(x *Finding) tick.Culprit {
	c := tick.Culprit{What: "memory limit of its cgroup", Lost: time.Duration(x.Lost)}
	for i := range w.Tick.Processes {
		if p := &w.Tick.Processes[i]; p.PID == x.PID && p.Cgroup != "" && p.Cgroup != "/" {
			c.What = "memory limit of " + p.Cgroup
		}
	}
	if l, ok := w.limit(x, tick.LimitMemory); ok {
		c.What, c.Limit = "memory limit of "+l.Group+": "+l.Value(), l
	}
	return c
}
