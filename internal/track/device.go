package track

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// thread is the state on which a thread's next calls depend.
type thread struct {
	device  int16       // as in events.Call
	stack   []int16     // devices of the contexts below the current one
	group   int         // depth of ncclGroupStart
	capture *tick.Graph // capture in progress
	last    int64       // Unix ns: start of its last call
}

// maxStack bounds a thread's stack of contexts.
const maxStack = 64

// threadState returns the state of a thread. A thread beyond the limit has an empty state.
func (p *process) threadState(tid uint32) *thread {
	if p.thread != nil && p.tid == tid {
		return p.thread
	}
	th := p.threads[tid]
	if th == nil {
		th = &thread{device: p.initial()}
		if len(p.threads) < maxThreads {
			p.threads[tid] = th
		} else {
			p.untracked++
		}
	}
	p.tid, p.thread = tid, th
	return th
}

// Threads forgets the threads that have ended, so that others have room and none inherits their
// devices. Call it after the last calls of these threads.
func (t *Tracker) Threads(threads []tick.Thread) {
	for i := range threads {
		if p := t.procs[threads[i].PID]; p != nil && threads[i].Ended {
			p.endThread(&threads[i])
		}
	}
}

// endThread forgets a thread, unless another one with its number has made calls since.
func (p *process) endThread(x *tick.Thread) {
	if th := p.threads[x.TID]; th != nil && th.last < x.Until {
		delete(p.threads, x.TID)
	}
	if p.tid == x.TID {
		p.thread = nil
	}
}

// initial returns the device of a thread that has chosen none: the first one, as in the runtime. It
// is unknown if earlier calls were not seen.
func (p *process) initial() int16 {
	if p.missedCalls {
		return 0
	}
	return 1
}

// known records that all calls of the process are seen after all.
func (p *process) known() {
	for _, th := range p.threads {
		if th.device == 0 {
			th.device = 1
		}
	}
}

// ordinal converts a device number to the form of events.Call.
func ordinal(v uint64, known bool) int16 {
	if !known || v > 1<<10 {
		return 0
	}
	return int16(v) + 1
}

// done reports whether a call is known to have succeeded.
func done(c *events.Call) bool {
	return c.Flags&(events.CallFailed|events.CallUnmeasured) == 0
}

// choose takes in a chosen device, or a thread's query of its device.
func choose(_ *process, th *thread, c *events.Call, _ *effect) {
	if done(c) {
		th.device = ordinal(c.Value(events.RoleDevice))
		c.Device = th.device
	}
}

// maxDevices bounds the devices of a process.
const maxDevices = 64

// identify takes in the device of an ordinal: the runtime queries all devices that the process can
// see. The result has 16 bytes, in two halves.
func identify(p *process, _ *thread, c *events.Call, _ *effect) {
	at := ordinal(c.Value(events.RoleDevice))
	if !done(c) || at == 0 || c.Flags&events.CallArgsPartial != 0 || len(p.uuids) >= maxDevices {
		return
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], c.Args[1])
	binary.LittleEndian.PutUint64(b[8:], c.Args[2])
	d := tick.Device{Device: at, UUID: fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])}
	i := slices.IndexFunc(p.uuids, func(x tick.Device) bool { return x.Device >= at })
	switch {
	case i < 0:
		p.uuids = append(p.uuids, d)
	case p.uuids[i].Device == at:
		p.uuids[i] = d
	default:
		p.uuids = slices.Insert(p.uuids, i, d)
	}
}

// learn takes in the device of a context that was created or retained.
func learn(p *process, _ *thread, c *events.Call, _ *effect) {
	ctx, ok := c.Value(events.RoleContext)
	device := ordinal(c.Value(events.RoleDevice))
	if !done(c) || !ok || device == 0 {
		return
	}
	if _, there := p.contexts[ctx]; !there && len(p.contexts) >= maxHandles {
		p.untracked++
		return
	}
	p.contexts[ctx] = device
}

// create takes in a new context, which becomes current.
func create(p *process, th *thread, c *events.Call, e *effect) {
	learn(p, th, c, e)
	push(p, th, c, e)
}

// enter takes in another current context. No context means no device.
func enter(p *process, th *thread, c *events.Call, _ *effect) {
	if ctx, ok := c.Value(events.RoleContext); done(c) {
		th.device = 0
		if ok {
			th.device = p.contexts[ctx]
		}
		c.Device = th.device
	}
}

func push(p *process, th *thread, c *events.Call, e *effect) {
	if !done(c) {
		return
	}
	if len(th.stack) < maxStack {
		th.stack = append(th.stack, th.device)
	}
	enter(p, th, c, e)
}

func pop(p *process, th *thread, c *events.Call, _ *effect) {
	if !done(c) {
		return
	}
	n := len(th.stack)
	if n == 0 { // a push that was not seen
		th.device = p.only()
		return
	}
	th.device, th.stack = th.stack[n-1], th.stack[:n-1]
}

// only returns the device of a process that is known to use a single one.
func (p *process) only() int16 {
	var one int16
	for _, d := range p.contexts {
		if one != 0 && d != one {
			return 0
		}
		one = d
	}
	return one
}

// leave takes in that a context was destroyed, with its allocations.
func leave(p *process, _ *thread, c *events.Call, _ *effect) {
	ctx, ok := c.Value(events.RoleContext)
	if !done(c) || !ok {
		return
	}
	device, known := p.contexts[ctx]
	delete(p.contexts, ctx)
	for _, d := range p.contexts {
		if d == device {
			known = false // another context of the device: it is unknown which one has what
		}
	}
	if known {
		p.memory.freeAll(p, device)
		p.streams.leave(device)
	}
}

// restart takes in a device reset: everything on it is gone.
func restart(p *process, th *thread, c *events.Call, _ *effect) {
	if !done(c) {
		return
	}
	device, known := c.Value(events.RoleDevice)
	on := ordinal(device, known)
	if on == 0 {
		on = th.device
	}
	if on == 0 && p.memory.several() {
		return // unknown which one
	}
	p.memory.freeAll(p, on)
	p.streams.leave(on)
}

// several reports whether memory is held on more than one device, or on an unknown one.
func (m *memory) several() bool {
	var one int16
	for k, h := range m.kinds {
		if k.kind.Host() || h.Count == 0 {
			continue
		}
		if one != 0 && one != k.device {
			return true
		}
		one = k.device
	}
	return false
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
