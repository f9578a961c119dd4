package causal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Bounds of the tables for the last minute.
const (
	maxCalled = 256
	maxLate   = 1 << 14
	maxXids   = 1 << 10
)

// devices has the facts of the last minute's ticks about GPUs, their faults, and the ranks that use
// several GPUs.
type devices struct {
	gpus   []gpuSample
	called []called
	lates  []tick.Straggler
	xids   []tick.Xid
}

// gpuSample is the state of a GPU at a tick.
type gpuSample struct {
	from, to int64
	tick.GPU
}

// called is a collective with missing ranks, from the time the first rank entered it to the last
// tick that reported it.
type called struct {
	tick.RollCall
	to    int64
	stall string // the same for the collectives of one stall
}

// stall returns the name of the stall that a collective is part of. While one rank is missing, others
// wait for it in several communicators, and soon again in the next collective.
func (d *devices) stall(c *tick.RollCall, to int64) string {
	for i := range d.called {
		x := &d.called[i]
		misses := func(m tick.Missing) bool {
			return slices.ContainsFunc(x.Missing, func(o tick.Missing) bool { return o.PID == m.PID })
		}
		if c.Since <= x.to+soon && x.Since <= to && slices.ContainsFunc(c.Missing, misses) {
			return x.stall
		}
	}
	return fmt.Sprintf("%x %d", c.Comm, c.Seq)
}

// note takes in a tick.
func (d *devices) note(t *tick.Tick) {
	to := t.Time.UnixNano()
	old := to - windowSeconds*1e9
	for i := range t.GPUs {
		d.gpus = append(d.gpus, gpuSample{to - int64(t.Window), to, t.GPUs[i]})
	}
	for i := range t.RollCalls {
		c := &t.RollCalls[i]
		at := slices.IndexFunc(d.called, func(x called) bool { return x.Comm == c.Comm && x.Seq == c.Seq })
		if at < 0 {
			at, d.called = len(d.called), append(d.called, called{stall: d.stall(c, to)})
		}
		d.called[at].RollCall, d.called[at].to = *c, to
	}
	d.lates = append(d.lates, t.Lates...)
	d.xids = append(d.xids, t.Xids...)
	d.gpus = recent(d.gpus, maxCalled*8, func(g *gpuSample) bool { return g.to < old })
	d.called = recent(d.called, maxCalled, func(c *called) bool { return c.to < old })
	d.lates = recent(d.lates, maxLate, func(l *tick.Straggler) bool { return l.To < old })
	d.xids = recent(d.xids, maxXids, func(x *tick.Xid) bool { return x.Time < old })
}

// recent drops the old entries of a list, and keeps the latest most of the others.
func recent[T any](list []T, most int, old func(*T) bool) []T {
	list = slices.DeleteFunc(list, func(x T) bool { return old(&x) })
	if len(list) > most {
		list = append(list[:0], list[len(list)-most:]...)
	}
	return list
}

// deviceOf names the GPU that a process launches on as all processes of the machine would: by the
// machine's number, or by its UUID if that is unknown. It returns "" if the GPU is unknown, or the
// process uses several.
func (w *Window) deviceOf(pid uint32) string {
	if b := w.History(pid); b != nil {
		return b.deviceAt(w.Now())
	}
	return ""
}

// deviceAt is deviceOf at a time: as of the end of the last second before it. A second in which a GPU
// fails may lack the states of the GPUs.
func (b *ProcessHistory) deviceAt(ns int64) (device string) {
	for i := range b.Seconds {
		if s := &b.Seconds[i]; s.To <= ns || i == 0 && s.From <= ns {
			device = s.device
		}
	}
	return device
}

// launchedOn returns the processes that launched on a GPU, given by its address without the function,
// just before a time. It returns none if the GPU is divided into MIG instances: which of them a
// process uses is unknown.
func (w *Window) launchedOn(bus string, ns int64) (pids []uint32) {
	at := slices.IndexFunc(w.devices.gpus, func(g gpuSample) bool { return strings.HasPrefix(g.Bus, bus+".") })
	if at < 0 || w.devices.gpus[at].MIG {
		return nil
	}
	for _, b := range w.Histories() {
		if isGPU(b.deviceAt(ns), &w.devices.gpus[at].GPU) {
			pids = append(pids, b.PID)
		}
	}
	return pids
}

// deviceIn returns the GPU that a process launches on, as of a tick.
func deviceIn(t *tick.Tick, p *tick.Process, s *tick.State) string {
	ordinal := int16(0)
	for i := 0; s != nil && i < len(s.Streams.First); i++ {
		switch d := s.Streams.First[i].Device; {
		case s.Streams.First[i].Launches == 0 || d == 0:
		case ordinal != 0 && ordinal != d:
			return ""
		default:
			ordinal = d
		}
	}
	for i := 0; s != nil && i < len(s.Devices); i++ {
		if d := &s.Devices[i]; d.Device == ordinal {
			return numbered(t, "GPU-"+d.UUID)
		}
	}
	if len(t.GPUs) == 1 && !t.GPUs[0].Lost && !(t.GPUs[0].MIG && strings.HasPrefix(p.Devices, "MIG-")) {
		return strconv.Itoa(t.GPUs[0].Index)
	}
	if ordinal == 0 && len(t.GPUs) == 0 && p.Rank == 0 {
		ordinal = 1 // a program that is no rank seldom chooses another than the first
	}
	name := physical(p.Devices, ordinal)
	if _, err := strconv.Atoi(name); err == nil && (p.Runtime != "" || p.Job != "") {
		return "" // a container or a batch job may number its own GPUs
	}
	return numbered(t, name)
}

// physical maps a process's device number plus one to the machine's, by CUDA_VISIBLE_DEVICES. An
// unknown number, 0, is known if only one GPU is visible.
func physical(visible string, ordinal int16) string {
	list := strings.Split(visible, ",")
	switch at := int(ordinal) - 1; {
	case visible == "" && at >= 0:
		return strconv.Itoa(at)
	case visible != "" && len(list) == 1 && at <= 0, visible != "" && at >= 0 && at < len(list):
		return strings.TrimSpace(list[max(at, 0)])
	}
	return ""
}

// numbered returns the machine's number of a GPU with a name or UUID, or the name if it is unknown.
func numbered(t *tick.Tick, name string) string {
	for i := range t.GPUs {
		if g := &t.GPUs[i]; isGPU(name, g) {
			return strconv.Itoa(g.Index)
		}
	}
	return name
}

// isGPU reports whether a process's device is the monitored GPU g.
func isGPU(device string, g *tick.GPU) bool {
	return device != "" && (device == strconv.Itoa(g.Index) || g.UUID != "" && strings.HasPrefix(g.UUID, device))
}

// called returns the last known name of a process.
func (w *Window) called(pid uint32) events.Name {
	if name, ok := w.name(pid); ok {
		return name
	}
	if b := w.History(pid); b != nil {
		return events.NameOf(b.Comm)
	}
	return events.Name{}
}

// stateAge is the largest delay between a GPU's state and its reported throttle reasons, ns.
const stateAge = 1e9

// throttled returns why the clocks of a GPU were low in [from, to], and how low, if they were not
// low before.
func (w *Window) throttled(device string, from, to int64) (why []string, clock string) {
	before := map[string]bool{}
	for i := range w.devices.gpus {
		g := &w.devices.gpus[i]
		if !isGPU(device, &g.GPU) {
			continue
		}
		at := g.Time.UnixNano()
		for _, w := range g.Throttle {
			switch {
			case w == "idle":
			case at < from-stateAge:
				before[w] = true
			case at <= to+stateAge && !before[w] && !slices.Contains(why, w):
				why = append(why, w)
				if g.ClockSM != nil && g.ClockSMMax != nil {
					clock = fmt.Sprintf("%d of %d MHz", *g.ClockSM/1e6, *g.ClockSMMax/1e6)
				}
			}
		}
	}
	slices.Sort(why)
	return why, clock
}

// neighbours returns the processes that used the same GPU more in [from, to] than before, sorted by
// launches per second, the busiest first.
func (w *Window) neighbours(pid uint32, device string, from, to int64) (out []neighbour) {
	if device == "" || w.divided(device) {
		return nil
	}
	for _, b := range w.Histories() {
		if b.PID == pid || w.deviceOf(b.PID) != device {
			continue
		}
		var during, before rate
		for i := range b.Seconds {
			s := &b.Seconds[i]
			switch n := launchesIn(s); {
			case w.unseen(b.PID, s.From, s.To)&govern.LaunchCounts != 0: // some launches are unknown
			case s.From >= from-500_000_000 && s.To <= to+1_500_000_000:
				during.add(n, s.To-s.From)
			case s.To <= from:
				before.add(n, s.To-s.From)
			}
		}
		if d := during.perSecond(); d >= leastLaunches && d >= 2*before.perSecond() {
			out = append(out, neighbour{b, d})
		}
	}
	slices.SortStableFunc(out, func(a, b neighbour) int { return cmp.Compare(b.launches, a.launches) })
	return out
}

// divided reports whether a device is a whole GPU with MIG instances: which instance a process uses is unknown.
func (w *Window) divided(device string) bool {
	for i := range w.devices.gpus {
		if g := &w.devices.gpus[i].GPU; g.MIG && isGPU(device, g) {
			return true
		}
	}
	return false
}

// leastLaunches is the launch rate per second from which a process can keep a GPU from another.
const leastLaunches = 20

// neighbour is another process on a GPU.
type neighbour struct {
	*ProcessHistory
	launches float64 // per second
}

type rate struct {
	n, ns float64
}

func (r *rate) add(n uint64, ns int64) { r.n, r.ns = r.n+float64(n), r.ns+float64(ns) }

func (r *rate) perSecond() float64 { return 1e9 * r.n / max(r.ns, 1) }

// launchesIn returns a second's launches and copies.
func launchesIn(s *Second) uint64 { return s.callsOf(events.ClassLaunch, events.ClassMemcpy) }

// callsOf returns a second's calls of some classes: the larger of the runtime's and the driver's
// count, since runtime calls make driver calls.
func (s *Second) callsOf(classes ...events.Class) uint64 {
	var runtime, driver uint64
	for i := range s.Ops {
		r := s.Ops[i].Op.Row()
		switch {
		case r == nil || !slices.Contains(classes, r.Class):
		case r.Op.Source() == events.SourceDriver:
			driver += s.Ops[i].Calls
		default:
			runtime += s.Ops[i].Calls
		}
	}
	return max(runtime, driver)
}
