package explain

import (
	"cmp"
	"slices"

	"ingero/internal/tick"
)

// mostMemory is the number of processes whose memory is shown.
const mostMemory = 4

// memory writes the GPU memory of the processes, largest first.
func (s *screen) memory(t *tick.Tick) {
	comms := map[uint32]string{}
	for i := range t.Processes {
		if p := &t.Processes[i]; p.Ended.IsZero() {
			comms[p.PID] = p.Comm
		}
	}
	var all []*tick.State
	for i := range t.States {
		x := &t.States[i]
		if _, alive := comms[x.PID]; alive && x.Memory.Used {
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b *tick.State) int { return cmp.Compare(b.Memory.GPU.Bytes, a.Memory.GPU.Bytes) })
	for i, x := range all {
		if i == mostMemory && len(all) > mostMemory+1 {
			s.addLine(span{"  " + plural(uint64(len(all)-i), "other process") + " with less GPU memory", plain})
			return
		}
		m := &x.Memory
		line := "  GPU memory " + processName(comms[x.PID], x.PID) + " " + amount(m.GPU.Bytes) + ", peak " + amount(m.GPU.Peak)
		if m.Inexact != 0 {
			line += " (partly traced)"
		}
		s.addLine(append([]span{{cut(line, s.width), plain}}, memoryFlags(m)...)...)
	}
}

// memoryFlags returns the problems in words.
func memoryFlags(m *tick.Memory) (out []span) {
	if m.Growth.Leak {
		out = append(out, span{"  grows", yellow})
	}
	if m.OOMs > 0 {
		out = append(out, span{"  " + Count(m.OOMs) + " OOM", red})
	}
	if m.DoubleFrees > 0 {
		out = append(out, span{"  " + Count(m.DoubleFrees) + " freed twice", red})
	}
	return out
}

// graphs writes a summary of all processes' graphs, below the calls that use them.
func (s *screen) graphs(t *tick.Tick) {
	var all int
	var captured, cold, launches, updates, failed uint64
	for i := range t.States {
		g := &t.States[i].Graphs
		all += g.All
		for j := range g.First {
			x := &g.First[j]
			launches, updates, failed = launches+x.Launches, updates+x.Updates, failed+x.UpdateFails+x.InstantiateFails
			if x.Captured != 0 {
				captured++
			}
			if x.Cold {
				cold++
			}
			if x.CaptureFailed {
				failed++
			}
		}
	}
	if all == 0 {
		return
	}
	line := "  " + plural(uint64(all), "graph") + ": " + Count(captured) + " captured"
	if cold > 0 {
		line += " (" + Count(cold) + " cold)"
	}
	line += ", " + plural(launches, "launch")
	if updates > 0 {
		line += ", " + plural(updates, "update")
	}
	spans := []span{{cut(line, s.width), plain}}
	if failed > 0 {
		spans = append(spans, span{"  " + Count(failed) + " failed", red})
	}
	s.row(0, spans)
}
