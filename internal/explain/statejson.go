package explain

import (
	"fmt"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// stateJSON is the state derived from a process's calls.
type stateJSON struct {
	PID       uint32               `json:"pid"`
	Memory    *wire.Memory         `json:"memory,omitempty"` // absent: no allocations
	Held      []heldJSON           `json:"held"`
	Devices   []deviceJSON         `json:"devices,omitempty"`
	Streams   listJSON[streamJSON] `json:"streams"`
	Graphs    listJSON[graphJSON]  `json:"graphs"`
	Comms     listJSON[commJSON]   `json:"comms"`
	Copies    []copyJSON           `json:"copies"`
	Errors    []callErrorJSON      `json:"errors"`
	Untracked uint64               `json:"untracked,omitempty"`
}

// listJSON has the first elements of a long list.
type listJSON[T any] struct {
	Count int `json:"count"`
	First []T `json:"first"`
}

type heldJSON struct {
	Kind    string `json:"kind"`
	Device  *int   `json:"device,omitempty"`
	Bytes   uint64 `json:"bytes"`
	Peak    uint64 `json:"peak_bytes"`
	Count   uint64 `json:"count"`
	Unsized uint64 `json:"unsized,omitempty"`
}

type deviceJSON struct {
	Device int    `json:"device"`
	UUID   string `json:"uuid"`
}

type streamJSON struct {
	Stream      string    `json:"stream"`
	Device      *int      `json:"device,omitempty"`
	Launches    uint64    `json:"launches"`
	Outstanding uint64    `json:"outstanding"`
	Copies      uint64    `json:"copies"`
	Bytes       uint64    `json:"bytes"`
	Captures    uint64    `json:"captures"`
	Last        time.Time `json:"last,omitzero"`
}

type graphJSON struct {
	Exec             string    `json:"exec,omitempty"`
	Graph            string    `json:"graph,omitempty"`
	Device           *int      `json:"device,omitempty"`
	Captured         time.Time `json:"captured,omitzero"`
	CaptureNS        int64     `json:"capture_ns,omitempty"`
	CaptureTID       uint32    `json:"capture_tid,omitempty"`
	CaptureLaunches  uint64    `json:"capture_launches,omitempty"`
	Cold             bool      `json:"cold,omitempty"`
	CaptureFailed    bool      `json:"capture_failed,omitempty"`
	Instantiated     time.Time `json:"instantiated,omitzero"`
	InstantiateNS    int64     `json:"instantiate_ns,omitempty"`
	InstantiateFails uint64    `json:"instantiate_fails,omitempty"`
	Launches         uint64    `json:"launches"`
	LastLaunch       time.Time `json:"last_launch,omitzero"`
	Updates          uint64    `json:"updates"`
	UpdateFails      uint64    `json:"update_fails"`
	Uploads          uint64    `json:"uploads"`
	Destroyed        time.Time `json:"destroyed,omitzero"`
}

type commJSON struct {
	ID       string    `json:"id,omitempty"`
	Rank     *int32    `json:"rank,omitempty"`
	Ranks    uint32    `json:"ranks,omitempty"`
	Device   *int      `json:"device,omitempty"`
	State    string    `json:"state"`
	Began    time.Time `json:"began,omitzero"`
	InitNS   int64     `json:"init_ns,omitempty"`
	Sequence uint64    `json:"sequence"`
	Failed   uint64    `json:"failed"`
	LastOp   string    `json:"last_op,omitempty"`
	Last     time.Time `json:"last,omitzero"`
	Elements uint64    `json:"last_elements,omitempty"`
	Bytes    uint64    `json:"last_bytes,omitempty"`
	Ended    time.Time `json:"ended,omitzero"`
}

type copyJSON struct {
	Direction string `json:"direction"`
	Host      string `json:"host,omitempty"`
	Count     uint64 `json:"count"`
	Bytes     uint64 `json:"bytes"`
	CallNS    int64  `json:"call_ns"`
	Estimated bool   `json:"estimated,omitempty"`
}

type callErrorJSON struct {
	Op    string    `json:"op"`
	Error string    `json:"error"`
	Code  int32     `json:"code"`
	Count uint64    `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

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

func listOf[T, J any](l tick.List[T], f func(*T) J) listJSON[J] {
	out := listJSON[J]{Count: l.All, First: []J{}}
	for i := range l.First {
		out.First = append(out.First, f(&l.First[i]))
	}
	return out
}

func stateOf(s *tick.State) stateJSON {
	j := stateJSON{PID: s.PID, Memory: memoryOf(&s.Memory), Held: []heldJSON{}, Copies: []copyJSON{}, Errors: []callErrorJSON{}, Untracked: s.Untracked}
	for _, h := range s.Held {
		j.Held = append(j.Held, heldJSON{h.Kind.String(), ordinal(h.Device), h.Bytes, h.Peak, h.Count, h.Unsized})
	}
	for _, d := range s.Devices {
		j.Devices = append(j.Devices, deviceJSON{int(d.Device) - 1, d.UUID})
	}
	j.Streams = listOf(s.Streams, func(x *tick.Stream) streamJSON {
		return streamJSON{fmt.Sprintf("%#x", x.Handle), ordinal(x.Device), x.Launches, x.Outstanding, x.Copies, x.Bytes, x.Captures, unix(x.Last)}
	})
	j.Graphs = listOf(s.Graphs, func(x *tick.Graph) graphJSON {
		return graphJSON{handle(x.Exec), handle(x.Graph), ordinal(x.Device), unix(x.Captured), x.CaptureNS, x.CaptureTID, x.CaptureLaunches, x.Cold, x.CaptureFailed,
			unix(x.Instantiated), x.InstantiateNS, x.InstantiateFails, x.Launches, unix(x.LastLaunch), x.Updates, x.UpdateFails, x.Uploads, unix(x.Destroyed)}
	})
	j.Comms = listOf(s.Comms, commOf)
	for _, c := range s.Copies {
		j.Copies = append(j.Copies, copyJSON{c.Dir.String(), c.Host.String(), c.Count, c.Bytes, c.NS, c.Estimated})
	}
	for i := range s.Errors.First {
		e := &s.Errors.First[i]
		j.Errors = append(j.Errors, callErrorJSON{e.Op.String(), e.Name(), e.Code, e.Count, unix(e.First), unix(e.Last)})
	}
	return j
}

func commOf(x *tick.Comm) commJSON {
	c := commJSON{Ranks: x.Ranks, Device: ordinal(x.Device), State: x.State.String(), Began: unix(x.Began), InitNS: x.InitNS, Sequence: x.Seq,
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
