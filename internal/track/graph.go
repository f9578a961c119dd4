package track

import (
	"cmp"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// graphs has the graphs of a process.
type graphs struct {
	execs    map[uint64]*tick.Graph
	captured map[uint64]*tick.Graph // by graph handle, until they are destroyed
	ended    []tick.Graph           // latest graphs that were destroyed, or failed to be captured
	dropped  int                    // of gone, beyond the limit
	at       uint64
	last     *tick.Graph // graph of handle at
}

func (g *graphs) reset() {
	*g = graphs{execs: map[uint64]*tick.Graph{}, captured: map[uint64]*tick.Graph{}}
}

func beginCapture(p *process, th *thread, c *events.Call, _ *effect) {
	if !done(c) || nested(c) {
		return
	}
	x := &tick.Graph{Number: p.number(), Captured: c.Start, CaptureTID: c.TID, Device: c.Device}
	x.CaptureStream, _ = c.Value(events.RoleStream)
	x.CaptureMode = c.Tag // the first version has none: 0, which is global
	if stream := p.stream(c); stream != nil {
		stream.Captures++
		x.Cold = stream.Launches == 0
	}
	th.capture = x
}

// endCapture takes in the end of a capture. The driver's call inside the runtime's comes first, and
// has the same graph.
func endCapture(p *process, th *thread, c *events.Call, _ *effect) {
	x := th.capture
	if nested(c) || x == nil || c.Flags&events.CallUnmeasured != 0 {
		return
	}
	th.capture = nil
	x.CaptureNS = c.End() - x.Captured
	handle, ok := c.Value(events.RoleGraph)
	if !done(c) || !ok || handle == 0 {
		x.CaptureFailed = true
		p.graphs.end(*x)
		return
	}
	x.Graph = handle
	if len(p.graphs.captured) >= maxHandles {
		p.untracked++
		return
	}
	p.graphs.captured[handle] = x
}

func instantiate(p *process, _ *thread, c *events.Call, _ *effect) {
	if nested(c) {
		return
	}
	g := &p.graphs
	handle, _ := c.Value(events.RoleGraph)
	from := g.captured[handle]
	if c.Flags&events.CallFailed != 0 {
		if from != nil {
			from.InstantiateFails++
		}
		return
	}
	exec, ok := c.Value(events.RoleExec)
	if !ok || exec == 0 {
		return
	}
	x := g.exec(p, exec, true)
	if x == nil {
		return
	}
	if from != nil {
		number := x.Number
		if *x = *from; from.Exec != 0 { // not the first one made from that graph
			x.Number = number
		}
		from.Exec = exec
	}
	x.Exec, x.Graph, x.Device = exec, handle, c.Device
	x.Instantiated, x.InstantiateNS = c.Start, c.Duration
}

// exec returns the executable graph of a handle; with fresh, a new one that replaces it.
func (g *graphs) exec(p *process, handle uint64, fresh bool) *tick.Graph {
	if g.last != nil && g.at == handle && !fresh {
		return g.last
	}
	x := g.execs[handle]
	switch {
	case x == nil && len(g.execs) >= maxHandles:
		p.untracked++
		return nil
	case x == nil || fresh:
		x = &tick.Graph{Number: p.number(), Exec: handle}
		g.execs[handle] = x
	}
	g.at, g.last = handle, x
	return x
}

func (g *graphs) launched(p *process, exec uint64, c *events.Call) {
	if x := g.exec(p, exec, false); x != nil {
		x.Launches += uint64(c.Weight)
		x.LastLaunch = c.Start
		if x.Device == 0 {
			x.Device = c.Device
		}
	}
}

// update takes in an executable graph that was changed in place, or failed to be.
func update(p *process, _ *thread, c *events.Call, _ *effect) {
	exec, ok := c.Value(events.RoleExec)
	if nested(c) || !ok {
		return
	}
	if x := p.graphs.exec(p, exec, false); x != nil {
		x.Updates++
		if c.Flags&events.CallFailed != 0 {
			x.UpdateFails++
		}
	}
}

func upload(p *process, _ *thread, c *events.Call, _ *effect) {
	if exec, ok := c.Value(events.RoleExec); done(c) && ok && !nested(c) {
		if x := p.graphs.exec(p, exec, false); x != nil {
			x.Uploads++
		}
	}
}

func dropExec(p *process, _ *thread, c *events.Call, _ *effect) {
	exec, ok := c.Value(events.RoleExec)
	if !done(c) || !ok || nested(c) {
		return
	}
	if x := p.graphs.execs[exec]; x != nil {
		x.Destroyed = c.End()
		p.graphs.end(*x)
		delete(p.graphs.execs, exec)
		p.graphs.last = nil
	}
}

// dropGraph takes in a destroyed graph. Executable graphs made from it stay.
func dropGraph(p *process, _ *thread, c *events.Call, _ *effect) {
	handle, ok := c.Value(events.RoleGraph)
	if !done(c) || !ok || nested(c) {
		return
	}
	if x := p.graphs.captured[handle]; x != nil {
		delete(p.graphs.captured, handle)
		if x.Exec == 0 {
			x.Destroyed = c.End()
			p.graphs.end(*x)
		}
	}
}

// end keeps the latest of the graphs that are gone.
func (g *graphs) end(x tick.Graph) {
	if len(g.ended) >= maxListed {
		g.ended = append(g.ended[:0], g.ended[1:]...)
		g.dropped++
	}
	g.ended = append(g.ended, x)
}

func (g *graphs) list() tick.List[tick.Graph] {
	out := append(make([]tick.Graph, 0, len(g.execs)+len(g.captured)+len(g.ended)), g.ended...)
	for _, x := range g.execs {
		out = append(out, *x)
	}
	for _, x := range g.captured {
		if x.Exec == 0 {
			out = append(out, *x)
		}
	}
	l := first(out, func(a, b tick.Graph) int {
		return cmp.Or(cmp.Compare(b.Launches, a.Launches), cmp.Compare(b.Instantiated, a.Instantiated),
			cmp.Compare(b.Captured, a.Captured), cmp.Compare(a.Exec, b.Exec))
	})
	l.All += g.dropped
	return l
}
