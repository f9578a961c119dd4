package causal

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// moreSince is how much larger the lost share must be after the event that caused it.
const moreSince = 3

// ownCPUs is the time after a job is first seen in which it may choose its own CPUs, ns. Many jobs
// pin themselves as they start.
const ownCPUs = 2e9

var cpusetShrunk = Rule{
	Name: "cpuset-shrunk", Sees: govern.HostEvents, Needs: NeedWaits | NeedHost, Problems: []string{"13", "18"},
	Doc: "CPUs were taken away from the job (cpuset or affinity). Since then, other threads ran on its remaining CPUs while one of its threads was runnable.",
	Find: takeOver([]string{cpuTaken.Name, ownThreads.Name}, func(w *Window, x *Finding) bool {
		h, share := w.cpusTaken(x)
		if h == nil {
			return false
		}
		x.keepAfter(h.From, share)
		c := tick.Culprit{What: fmt.Sprintf("%d CPUs fewer for the job", h.Count), Lost: time.Duration(x.Lost)}
		if l, ok := w.History(x.PID).cpuset(h.From); ok {
			c.Limit = l
			c.What = fmt.Sprintf("cpuset of %s: %s, %s", l.Group, l.Value(), c.What)
		}
		x.Culprits = append([]tick.Culprit{c}, x.Culprits...)
		x.Culprits = x.Culprits[:min(len(x.Culprits), maxCulprits)]
		x.Timeline = insert(x.Timeline, moment(h.From, "HOST", "CPUs taken away from the job: %d", h.Count))
		return true
	}),
}

// cpusTaken returns the event since which a finding's process has fewer CPUs and loses more, with the share of
// the loss since then. It returns nil if there was none.
func (w *Window) cpusTaken(x *Finding) (*HostSample, float64) {
	b := w.History(x.PID)
	if b == nil {
		return nil, 0
	}
	for i := range b.Host {
		h := &b.Host[i]
		if h.Kind != tick.HostCPUsTaken || h.Count == 0 || h.From < b.First+ownCPUs {
			continue
		}
		if share, times := w.since(x, h.From); times >= moreSince {
			return h, share
		}
	}
	return nil, 0
}

// cpuset returns the CPU set limit that changed at a time; ok is false if there was none.
func (b *ProcessHistory) cpuset(from int64) (l tick.Limit, ok bool) {
	for i := range b.Host {
		h := &b.Host[i]
		if h.Kind != tick.HostLimit || h.From != from {
			continue
		}
		if l, ok = tick.ParseLimit(h.Object); ok && l.Kind() == tick.LimitCPUs {
			return l, true
		}
	}
	return tick.Limit{}, false
}

// keepAfter reduces the loss of a finding to that after a time, Unix ns, which is a share of it.
func (x *Finding) keepAfter(at int64, share float64) {
	for _, ns := range []*int64{&x.Lost, &x.Min, &x.Max} {
		*ns = int64(float64(*ns) * share)
	}
	x.spread = slices.DeleteFunc(slices.Clone(x.spread), func(l tick.Loss) bool { return l.Start+int64(tick.SpreadStep) <= at })
	var sum time.Duration
	for _, l := range x.spread {
		sum += l.Lost
	}
	if sum > time.Duration(x.Lost) { // the first interval began before
		x.scaleSpread(float64(x.Lost) / float64(sum))
	}
}
