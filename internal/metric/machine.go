package metric

import (
	"slices"
	"strings"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// machine sums up events of the machine, its GPUs and the agent.
type machine struct {
	copied  map[uint32]*copies // by pid, as of the last tick
	copies  copies             // of all processes, including ended ones
	xids    map[xidKey]uint64
	ecc     map[xidKey]*eccErrors
	host    map[tick.HostEvent]*tick.HostSum
	drops   map[string]uint64
	cpu     uint64
	records uint64
}

type copies [tick.CopyDirs][tick.HostKinds]uint64

type xidKey struct{ what, device, kind string }

// eccErrors are the memory errors of a GPU: the driver's count at the last tick, and the sum since the
// session began.
type eccErrors struct{ last, sum int64 }

func (c *machine) init() {
	c.copied, c.xids = map[uint32]*copies{}, map[xidKey]uint64{}
	c.ecc = map[xidKey]*eccErrors{}
	c.host, c.drops = map[tick.HostEvent]*tick.HostSum{}, map[string]uint64{}
}

// state adds the state that each process's calls imply: its memory, its copies.
func (m *Meter) state(t *tick.Tick) {
	c := &m.machine
	now := make(map[uint32]*copies, len(t.States))
	for i := range t.States {
		s := &t.States[i]
		now[s.PID] = c.copy(s)
		m.procs.raise(s.PID, &sums{ooms: s.Memory.OOMs})
		p := m.procs.byPID[s.PID]
		if p == nil || !s.Memory.Used {
			continue
		}
		p.state = &memory{gpu: s.Memory.GPU, host: s.Memory.Host}
		if s.Memory.Growth.Leak {
			p.state.growth = s.Memory.Growth.Low / 60
		}
	}
	c.copied = now
	for dir := range c.copies {
		for kind, n := range c.copies[dir] {
			if n > 0 {
				host := tick.HostKind(kind).String()
				if host == "" {
					host = "none"
				}
				m.set(CopyBytes, float64(n), tick.CopyDir(dir).String(), host)
			}
		}
	}
	m.procs.each(func(p *process) {
		if p.state != nil {
			m.set(MemoryHeld, float64(p.state.gpu.Bytes), p.withLabels("gpu")...)
			m.set(MemoryHeld, float64(p.state.host.Bytes), p.withLabels("host")...)
			m.set(MemoryPeak, float64(p.state.gpu.Peak), p.withLabels("gpu")...)
			m.set(MemoryPeak, float64(p.state.host.Peak), p.withLabels("host")...)
			growth := p.state.growth
			if !p.last.Equal(m.time) { // it has ended
				growth = 0
			}
			m.set(MemoryGrowth, growth, p.labels...)
		}
		if p.state != nil || p == &m.procs.others {
			m.set(MemoryOOMs, float64(p.ooms), p.labels...)
		}
	})
}

// copy adds a process's copies since the last tick.
func (c *machine) copy(s *tick.State) *copies {
	var now copies
	for i := range s.Copies {
		x := &s.Copies[i]
		if x.Dir < tick.CopyDirs && x.Host < tick.HostKinds {
			now[x.Dir][x.Host] += x.Bytes
		}
	}
	was := c.copied[s.PID]
	for dir := range now {
		for kind, n := range now[dir] {
			if was != nil && was[dir][kind] <= n {
				n -= was[dir][kind]
			}
			c.copies[dir][kind] += n
		}
	}
	return &now
}

// gpus makes the points of the GPUs' states and faults.
func (m *Meter) gpus(t *tick.Tick) {
	c := &m.machine
	for i := range t.GPUs {
		g := &t.GPUs[i]
		labels := gpuLabels(g)
		for _, x := range []struct {
			id ID
			v  *float64
		}{{GPUBusy, g.Busy}, {GPUMemoryBusy, g.MemBusy}, {GPUTemperature, g.Temperature}, {GPUPower, g.Power}, {GPUPowerLimit, g.PowerLimit},
			{GPUMemoryUsed, floatPtr(g.MemUsed)}, {GPUMemoryLimit, floatPtr(g.MemTotal)}, {GPUClock, floatPtr(g.ClockSM)}} {
			if x.v != nil {
				m.set(x.id, *x.v, labels...)
			}
		}
		for _, why := range g.Throttle {
			m.set(GPUThrottled, 1, append([]string{text(why)}, labels...)...)
		}
		lost := 0.0
		if g.Lost {
			lost = 1
		}
		m.set(GPULost, lost, labels...)
		for _, x := range []struct {
			what string
			n    *int64
		}{{"ecc-corrected", g.ECCCorrected}, {"ecc-uncorrected", g.ECCLost}} {
			if x.n != nil {
				c.eccCount(m, xidKey{x.what, labels[0], labels[1]}, *x.n)
			}
		}
	}
	for i := range t.Xids {
		c.xid(m, t, &t.Xids[i])
	}
	for k, n := range c.xids {
		m.set(GPUErrors, float64(n), k.what, k.device, k.kind)
	}
	for k, x := range c.ecc {
		m.set(GPUErrors, float64(x.sum), k.what, k.device, k.kind)
	}
}

// eccCount takes in a count of memory errors. It counts from the load of the driver, so it may not begin
// at 0, and falls when the driver is loaded again.
func (c *machine) eccCount(m *Meter, k xidKey, n int64) {
	x := c.ecc[k]
	switch {
	case x == nil && len(c.ecc) >= 2*mostGPUs:
		m.over[GPUErrors]++
		return
	case x == nil:
		x = &eccErrors{last: n}
		c.ecc[k] = x
	case n < x.last:
		x.sum += n
	default:
		x.sum += n - x.last
	}
	x.last = n
}

// xid counts a fault.
func (c *machine) xid(m *Meter, t *tick.Tick, x *tick.Xid) {
	k := xidKey{"xid-" + number(x.Code), text(x.Bus), "gpu"}
	if x.Switch {
		k.what, k.kind = "s"+k.what, "nvswitch"
	}
	if x.Injected { // it must not trigger alerts
		k.what = "injected-" + k.what
	}
	for i := range t.GPUs {
		if g := &t.GPUs[i]; x.Bus != "" && strings.HasPrefix(g.Bus, x.Bus) && !x.Switch {
			k.device = gpuLabels(g)[0]
		}
	}
	k.device += text(strings.TrimPrefix(x.Device(), x.Bus)) // its MIG instances
	if _, known := c.xids[k]; !known && len(c.xids) >= mostXids-2*mostGPUs {
		m.over[GPUErrors]++
		k = xidKey{Other, "", "gpu"}
	}
	c.xids[k]++
}

// gpuLabels returns a GPU's labels, in the order of byGPU.
func gpuLabels(g *tick.GPU) []string {
	id := g.UUID
	if id == "" {
		id = g.Bus
	}
	index := ""
	if g.Index >= 0 {
		index = number(uint32(g.Index))
	}
	return []string{text(id), "gpu", text(g.Name), index}
}

func floatPtr(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

// host makes the points of the machine's state and activity.
func (m *Meter) host(t *tick.Tick) {
	h := &t.Host
	m.set(CPUBusy, h.CPU)
	if h.MemTotal > 0 {
		m.set(MemoryBusy, 1-float64(h.MemAvail)/float64(h.MemTotal))
	}
	if h.SwapTotal > 0 {
		m.set(SwapBusy, float64(h.SwapUsed)/float64(h.SwapTotal))
	}
	sums := m.machine.host
	for i := range t.HostSums {
		x := &t.HostSums[i]
		if x.Kind.Row().Name == "" {
			continue
		}
		to := sums[x.Kind]
		if to == nil {
			to = &tick.HostSum{}
			sums[x.Kind] = to
		}
		to.Count, to.NS, to.Bytes = to.Count+x.Count, to.NS+x.NS, to.Bytes+x.Bytes
	}
	for kind, x := range sums {
		row := kind.Row()
		if row.One != "" {
			m.set(HostEvents, float64(x.Count), row.Name)
		}
		if row.NS != "" {
			m.set(HostTime, seconds(x.NS), row.Name)
		}
		if row.Bytes {
			m.set(HostBytes, float64(x.Bytes), row.Name)
		}
	}
}

// agent makes the points of drops, and of the agent's own cost.
func (m *Meter) agent(t *tick.Tick) {
	c := &m.machine
	for _, d := range t.Drops {
		if _, known := c.drops[d.Reason]; !known && len(c.drops) >= mostReasons {
			m.over[Drops]++
			continue
		}
		c.drops[d.Reason] = max(c.drops[d.Reason], d.Count)
	}
	for reason, n := range c.drops {
		m.set(Drops, float64(n), text(reason))
	}
	rise(&c.cpu, uint64(t.Self.CPU))
	rise(&c.records, t.Records)
	m.set(AgentCPU, seconds(c.cpu))
	m.set(AgentMemory, float64(t.Self.RSS))
	m.set(AgentRecords, float64(c.records))
	m.overhead(&t.Overhead)
	m.set(AgentBuild, 1, text(m.Version), text(m.Node))
}

// overhead makes the points of the tracing overhead, if it has a limit.
func (m *Meter) overhead(o *tick.Overhead) {
	if !(o.Budget > 0) {
		return
	}
	m.set(OverheadBudget, o.Budget)
	m.set(OverheadFloor, o.Floor.Share)
	for _, x := range []struct {
		part  string
		share float64
	}{{"probes", o.Probes}, {"stacks", o.Stacks}, {"agent", o.Agent}, {"tracepoints", o.Tracepoints}} {
		m.set(OverheadShare, x.share, x.part)
	}
	for i := range govern.Steps {
		left := 0.0
		if slices.Contains(o.Shed, govern.Steps[i].Name) {
			left = 1
		}
		m.set(OverheadShed, left, govern.Steps[i].Name)
	}
}
