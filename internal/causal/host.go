package causal

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// HostSample is a host sum of one tick.
type HostSample struct {
	From, To int64 // Unix ns
	tick.HostSum
}

// about reports whether a host sum is within a second of a finding's time.
func about(h *HostSample, x *Finding) bool {
	return h.To >= x.From-1e9 && h.From <= x.To+1e9
}

// sum adds up the events of a kind about the time of a finding, for one process or, with PID 0, for
// all.
func (w *Window) sum(kind tick.HostEvent, pid uint32, x *Finding) HostSample {
	return w.sumOf(kind, x, func(h *HostSample) bool { return pid == 0 || h.PID == pid })
}

// sumOf adds up the wanted events of a kind about the time of a finding.
func (w *Window) sumOf(kind tick.HostEvent, x *Finding, wanted func(*HostSample) bool) (out HostSample) {
	for i := range w.host {
		h := &w.host[i]
		if h.Kind != kind || !about(h, x) || !wanted(h) {
			continue
		}
		if out.From == 0 {
			out = *h
			continue
		}
		out.To = h.To
		out.Add(&h.HostSum)
	}
	return out
}

// name returns the name of a process from the tick's processes or the host sums.
func (w *Window) name(pid uint32) (events.Name, bool) {
	for _, list := range [][]tick.Process{w.Tick.Processes, w.Tick.Others} {
		for i := range list {
			if list[i].PID == pid && list[i].Comm != "" {
				return events.NameOf(list[i].Comm), true
			}
		}
	}
	for i := range w.host {
		if h := &w.host[i]; h.PID == pid && h.Comm != "" {
			return events.NameOf(h.Comm), true
		}
	}
	return events.Name{}, false
}
