package causal

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// HostAt is a sum of the host in one tick.
type HostAt struct {
	From, To int64 // Unix ns
	tick.HostSum
}

// about says whether a sum of the host is of the time of a finding, or a second around it.
func about(h *HostAt, x *Finding) bool {
	return h.To >= x.From-1e9 && h.From <= x.To+1e9
}

// sum adds up what happened of a kind to a process about the time of a finding, with
// PID 0 to any.
func (w *Window) sum(kind tick.HostEvent, pid uint32, x *Finding) HostAt {
	return w.sumOf(kind, x, func(h *HostAt) bool { return pid == 0 || h.PID == pid })
}

// sumOf adds up what happened of a kind about the time of a finding, of those that are asked for.
func (w *Window) sumOf(kind tick.HostEvent, x *Finding, wanted func(*HostAt) bool) (out HostAt) {
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

// name is what a process is called, by whatever tells of it.
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
