package explain

import (
	"fmt"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// ordinal returns the ordinal of a device, or nil.
func ordinal(device int16) *int {
	if device <= 0 {
		return nil
	}
	return new(int(device) - 1)
}

func handle(h uint64) string {
	if h == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", h)
}

func listOf[T, J any](l tick.List[T], f func(*T) J) wire.List[J] {
	out := wire.List[J]{Count: l.All, First: []J{}}
	for i := range l.First {
		out.First = append(out.First, f(&l.First[i]))
	}
	return out
}

func stateOf(s *tick.State) wire.State {
	j := wire.State{PID: s.PID, Memory: memoryOf(&s.Memory), Held: []wire.Held{}, Copies: []wire.Copy{}, Errors: []wire.CallError{}, Untracked: s.Untracked}
	for _, h := range s.Held {
		j.Held = append(j.Held, wire.Held{Kind: h.Kind.String(), Device: ordinal(h.Device), Bytes: h.Bytes, Peak: h.Peak, Count: h.Count, Unsized: h.Unsized})
	}
	for _, d := range s.Devices {
		j.Devices = append(j.Devices, wire.Device{Device: int(d.Device) - 1, UUID: d.UUID})
	}
	j.Streams = listOf(s.Streams, func(x *tick.Stream) wire.Stream {
		return wire.Stream{Stream: fmt.Sprintf("%#x", x.Handle), Device: ordinal(x.Device), Launches: x.Launches, Outstanding: x.Outstanding, Copies: x.Copies, Bytes: x.Bytes, Captures: x.Captures, Last: unix(x.Last)}
	})
	j.Graphs = listOf(s.Graphs, func(x *tick.Graph) wire.Graph {
		return wire.Graph{Exec: handle(x.Exec), Graph: handle(x.Graph), Device: ordinal(x.Device), Captured: unix(x.Captured), CaptureNS: x.CaptureNS, CaptureTID: x.CaptureTID, CaptureLaunches: x.CaptureLaunches, Cold: x.Cold, CaptureFailed: x.CaptureFailed,
			Instantiated: unix(x.Instantiated), InstantiateNS: x.InstantiateNS, InstantiateFails: x.InstantiateFails, Launches: x.Launches, LastLaunch: unix(x.LastLaunch), Updates: x.Updates, UpdateFails: x.UpdateFails, Uploads: x.Uploads, Destroyed: unix(x.Destroyed)}
	})
	j.Comms = listOf(s.Comms, commOf)
	for _, c := range s.Copies {
		j.Copies = append(j.Copies, wire.Copy{Direction: c.Dir.String(), Host: c.Host.String(), Count: c.Count, Bytes: c.Bytes, CallNS: c.NS, Estimated: c.Estimated})
	}
	for i := range s.Errors.First {
		e := &s.Errors.First[i]
		j.Errors = append(j.Errors, wire.CallError{Op: e.Op.String(), Error: e.Name(), Code: e.Code, Count: e.Count, First: unix(e.First), Last: unix(e.Last)})
	}
	return j
}

func commOf(x *tick.Comm) wire.Comm {
	c := wire.Comm{Ranks: x.Ranks, Device: ordinal(x.Device), State: x.State.String(), Began: unix(x.Began), InitNS: x.InitNS, Sequence: x.Seq,
		Failed: x.Failed, Last: unix(x.Last.Time), Elements: x.Last.Elements, Bytes: x.Last.Bytes, Ended: unix(x.Ended)}
	if x.ID != 0 {
		c.ID = fmt.Sprintf("%016x", x.ID)
	}
	if x.Rank >= 0 {
		c.Rank = new(x.Rank)
	}
	if x.Last.Op != 0 {
		c.LastOp = x.Last.Op.String()
	}
	return c
}

// memoryOf returns the memory account of a process, or nil without allocations.
func memoryOf(m *tick.Memory) *wire.Memory {
	if !m.Used {
		return nil
	}
	j := &wire.Memory{Inexact: m.Inexact.Reasons(), GPUBytes: m.GPU.Bytes, GPUPeak: m.GPU.Peak, GPUCount: m.GPU.Count,
		HostBytes: m.Host.Bytes, HostPeak: m.Host.Peak, HostCount: m.Host.Count, Allocs: m.Allocs, Frees: m.Frees, Released: m.Released,
		DoubleFrees: m.DoubleFrees, Unknown: m.UnknownFrees, Untracked: m.Untracked, OOMs: m.OOMs}
	if o := &m.LastOOM; o.Time != 0 {
		j.LastOOM = &wire.OOM{Time: unix(o.Time), Op: o.Op.String(), Bytes: o.Size, Device: ordinal(o.Device), Held: o.Live, Peak: o.Peak, Fragmented: o.Fragmented}
		if o.Holes >= 0 {
			j.LastOOM.Holes = new(o.Holes)
		}
	}
	if g := &m.Growth; g.Over > 0 {
		j.Growth = &wire.Growth{PerMinute: g.PerMinute, Low: g.Low, High: g.High, OverNS: g.Over, Leak: g.Leak}
	}
	return j
}
