package causal

import (
	"slices"
	"strings"

	"ingero/internal/tick"
)

// sharers returns the GPU that a process launches on, and the untraced processes that may have used it from a time on,
// by the last minute's looks at the machine's processes. A process that started later is none. It returns no GPU if
// the GPU is unknown, or divided into MIG instances: which of them a process uses is unknown.
func (w *Window) sharers(pid uint32, from int64) (device string, out []tick.Sharer) {
	device = w.deviceOf(pid)
	if device == "" || w.divided(device) || strings.HasPrefix(device, "MIG-") {
		return "", nil
	}
	for i := range w.host {
		h := &w.host[i]
		known := func(x tick.Sharer) bool { return x.PID == h.PID }
		if h.Kind != tick.HostGPUOpen || h.Object != tick.GPUObject+device || w.History(h.PID) != nil || slices.ContainsFunc(out, known) {
			continue
		}
		x := tick.Sharer{PID: h.PID, Comm: h.Comm}
		if at := slices.IndexFunc(w.Tick.Others, func(p tick.Process) bool { return p.PID == h.PID }); at >= 0 {
			x.Started = w.Tick.Others[at].Started
		}
		if x.Started.IsZero() || x.Started.UnixNano() <= from {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b tick.Sharer) int { return b.Started.Compare(a.Started) })
	return device, out[:min(len(out), tick.MaxSharers)]
}
