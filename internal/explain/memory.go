package explain

import (
	"fmt"
	"strings"
	"time"

	"ingero/internal/tick"
)

// amount formats an unsigned number of bytes.
func amount(n uint64) string { return Bytes(int64(min(n, 1<<62))) }

// memoryTroubles describes the problems with a process's memory; nil if there are none.
func memoryTroubles(m *tick.Memory, loc *time.Location) []string {
	var out []string
	if g := &m.Growth; g.Leak {
		out = append(out, fmt.Sprintf("GPU memory grows by %s a minute (%s to %s, over %s) and is not freed: %s held now, in %s.",
			amount(uint64(g.PerMinute)), amount(uint64(g.Low)), amount(uint64(max(g.High, 0))), Duration(g.Over), amount(m.GPU.Bytes), plural(m.GPU.Count, "allocation")))
	}
	if o := &m.LastOOM; m.OOMs > 0 && o.Time != 0 {
		out = append(out, oomText(m, o, loc))
	}
	if m.DoubleFrees > 0 {
		out = append(out, plural(m.DoubleFrees, "call")+" freed memory that was already freed.")
	}
	if len(out) > 0 && m.Inexact != 0 {
		out = append(out, "These figures may be inaccurate: "+inexactText(m.Inexact)+".")
	}
	return out
}

func oomText(m *tick.Memory, o *tick.OOM, loc *time.Location) string {
	s := plural(m.OOMs, "allocation") + " failed: out of memory"
	if m.OOMs > 1 {
		s += ", the last"
	}
	s += " at " + time.Unix(0, o.Time).In(loc).Format(time.TimeOnly) + ": " + o.Op.String()
	if o.Size > 0 {
		s += " of " + amount(o.Size)
	}
	s += ", while the process held " + amount(o.Live) + " on the GPU."
	if o.Fragmented {
		s += " The process had held as much before (" + amount(o.Peak) + "): the memory is fragmented, or other processes have it."
		if o.Holes > 0 {
			s += " " + Percent(o.Holes) + " of its address range is free."
		}
	}
	return s
}

// inexactWords explain why a ledger may be inexact.
var inexactWords = map[string]string{
	"attached-late":    "its allocations before the attach were not seen",
	"records-lost":     "some calls have no records",
	"entry-only":       "its return values were not traced",
	"arguments-unread": "some arguments could not be read",
	"table-full":       "allocation table full",
}

func inexactText(x tick.Inexact) string {
	var out []string
	for _, r := range x.Reasons() {
		out = append(out, inexactWords[r])
	}
	return strings.Join(out, ", ")
}

// memory writes the memory problems of processes.
func (w *writer) memory(in *Input, r *report) {
	for i := range r.Processes {
		p := &r.Processes[i]
		m, known := in.Memory[p.PID]
		if !known {
			continue
		}
		if troubles := memoryTroubles(&m, w.loc); len(troubles) > 0 {
			w.line("")
			w.text("Memory of "+processName(p.Comm, p.PID)+":", "  ")
			w.notes(troubles, "  ")
		}
	}
}
