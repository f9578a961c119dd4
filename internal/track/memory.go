package track

import (
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// allocation is one that was not freed.
type allocation struct {
	bytes  uint64
	end    int64 // Unix ns: return of the allocating call
	refs   int32 // of physical memory: its handle, unless released, and its mappings
	device int16
	kind   tick.MemoryKind
	sized  bool
}

// ranged reports whether it is a range of addresses.
func (a *allocation) ranged(at place) bool {
	return !at.handle && a.sized && a.kind != tick.MemoryArray
}

// mapping is a mapping of physical memory.
type mapping struct{ handle, bytes uint64 }

// place separates addresses from handles of physical memory, which may be any numbers.
type place struct {
	at     uint64
	handle bool
}

// memory is the ledger of a process.
type memory struct {
	tick.Memory  // only the sums
	inexact      tick.Inexact
	live         map[place]allocation
	maps         map[uint64]mapping
	ranges       ranges
	freed        map[place]struct{} // addresses freed and not allocated again
	fifo         []place            // the latest of freed, in order
	fifoAt       int
	pendingFrees int // pending frees of allocations whose address was reused
	kinds        map[kindKey]*tick.Held
	growth       growth
}

type kindKey struct {
	kind   tick.MemoryKind
	device int16
}

func (m *memory) reset() {
	*m = memory{live: map[place]allocation{}, maps: map[uint64]mapping{}, freed: map[place]struct{}{}, kinds: map[kindKey]*tick.Held{}}
}

// entries returns the size of the ledger, in allocations.
func (m *memory) entries() int { return len(m.live) + len(m.maps) }

// allocate takes in an allocation.
func allocate(p *process, th *thread, c *events.Call, e *effect) {
	m := &p.memory
	if inside(c, allocates) {
		return
	}
	m.Used = true
	size, sized := sizeOf(c, e)
	if c.Flags&events.CallFailed != 0 {
		if outOfMemory(c) && !(e.loose && m.LastOOM.Time >= c.Start) { // else the driver's call inside has failed the same way
			m.oom(c, size, sized)
		}
		return
	}
	if c.Flags&events.CallUnmeasured != 0 {
		return // count has recorded it
	}
	at, ok := c.Value(e.role())
	if !ok || at == 0 {
		if size > 0 || !ok {
			m.inexact |= tick.InexactUnread
		}
		return
	}
	if x, there := m.live[place{at: at}]; there && e.loose && x.end >= c.Start {
		return // the driver's call inside has the size
	}
	a := allocation{bytes: size, sized: sized, end: c.End(), kind: e.kind, device: c.Device}
	if device, said := c.Value(events.RoleDevice); said {
		a.device = ordinal(device, true)
	} else if e.kind.Host() {
		a.device = 0
	}
	if e.kind == tick.MemoryPhysical {
		a.refs = 1
	}
	m.add(p, place{at, e.kind == tick.MemoryPhysical}, a)
}

// sizeOf returns the size of an allocation in bytes.
func sizeOf(c *events.Call, e *effect) (uint64, bool) {
	pitch, padded := c.Value(events.RolePitch)
	if height, ok := c.Value(events.RoleHeight); padded && ok && pitch > 0 && !e.loose && c.Flags&events.CallFailed == 0 {
		return pitch * height, true
	}
	return c.Value(events.RoleBytes)
}

func outOfMemory(c *events.Call) bool { return c.Result == 2 } // cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY

func (m *memory) add(p *process, at place, a allocation) {
	m.Allocs++
	if old, ok := m.live[at]; ok { // its free has not arrived yet
		m.drop(p, at, old)
		m.pendingFrees++
	} else if p.all.allocations >= maxAllocations {
		m.Untracked++
		m.inexact |= tick.InexactFull
		return
	}
	m.live[at] = a
	p.all.allocations++
	delete(m.freed, at)
	if a.ranged(at) {
		m.ranges.insert(at.at, a.bytes, a.kind.Host())
	}
	m.growth.level(a.end, m.GPU.Bytes)
	k := kindKey{a.kind, a.device}
	if m.kinds[k] == nil {
		m.kinds[k] = &tick.Held{}
	}
	grow(m.kinds[k], &a)
	if a.kind.Host() {
		grow(&m.Host, &a)
	} else {
		grow(&m.GPU, &a)
	}
}

func grow(h *tick.Held, a *allocation) {
	h.Count++
	h.Bytes += a.bytes
	h.Peak = max(h.Peak, h.Bytes)
	if !a.sized {
		h.Unsized++
	}
}

func shrink(h *tick.Held, a *allocation) {
	h.Count--
	h.Bytes -= a.bytes
	if !a.sized {
		h.Unsized--
	}
}

// drop removes an allocation.
func (m *memory) drop(p *process, at place, a allocation) {
	delete(m.live, at)
	p.all.allocations--
	if a.ranged(at) {
		m.ranges.remove(at.at)
	}
	shrink(m.kinds[kindKey{a.kind, a.device}], &a)
	if a.kind.Host() {
		shrink(&m.Host, &a)
	} else {
		shrink(&m.GPU, &a)
	}
}

// release takes in a free.
func release(p *process, th *thread, c *events.Call, e *effect) {
	m := &p.memory
	if inside(c, frees) {
		return
	}
	v, ok := c.Value(e.role())
	if c.Flags&events.CallUnmeasured != 0 {
		return // count has recorded it
	}
	if !ok {
		m.inexact |= tick.InexactUnread
		return
	}
	if v == 0 { // freeing nothing is allowed
		return
	}
	m.Used = true
	at := place{v, e.kind == tick.MemoryPhysical}
	a, held := m.live[at]
	_, before := m.freed[at]
	switch {
	case c.Flags&events.CallFailed != 0:
		if before || held && c.Start < a.end {
			m.DoubleFrees++
		} else if !held {
			m.UnknownFrees++
		}
	case held && c.Start < a.end, !held && before && m.pendingFrees > 0: // of an earlier allocation at this address
		m.Frees++
		m.pendingFrees -= min(m.pendingFrees, 1)
	case held && at.handle && a.refs > 1:
		a.refs-- // it is mapped
		m.live[at] = a
	case held:
		m.Frees++
		m.growth.level(c.End(), m.GPU.Bytes)
		m.drop(p, at, a)
		m.growth.floor(m.GPU.Bytes)
		m.remember(at)
	case at.handle: // memory of another process
	default: // allocated before the attach, or in a call without a record
		m.UnknownFrees++
	}
}

// remember records a freed address, and evicts the oldest if the table is full.
func (m *memory) remember(at place) {
	if len(m.fifo) < maxFreed {
		m.fifo = append(m.fifo, at)
	} else {
		delete(m.freed, m.fifo[m.fifoAt])
		m.fifo[m.fifoAt] = at
		m.fifoAt = (m.fifoAt + 1) % maxFreed
	}
	m.freed[at] = struct{}{}
}

// retain takes in another reference to physical memory, with the same handle number.
func retain(p *process, _ *thread, c *events.Call, _ *effect) {
	h, ok := c.Value(events.RoleHandle)
	if a, held := p.memory.live[place{h, true}]; ok && held && done(c) {
		a.refs++
		p.memory.live[place{h, true}] = a
	}
}

// mapMemory takes in a mapping of physical memory.
func mapMemory(p *process, _ *thread, c *events.Call, _ *effect) {
	m := &p.memory
	h, ok := c.Value(events.RoleHandle)
	at, there := c.Value(events.RolePtr)
	size, sized := c.Value(events.RoleBytes)
	if c.Flags&(events.CallFailed|events.CallUnmeasured) != 0 || !ok || !there || !sized {
		return
	}
	a, held := m.live[place{h, true}]
	if _, again := m.maps[at]; !held || again || p.all.allocations >= maxAllocations {
		return // unknown memory
	}
	a.refs++
	m.live[place{h, true}] = a
	m.maps[at] = mapping{h, size}
	p.all.allocations++
	m.ranges.insert(at, size, false)
}

// unmapMemory takes in an unmapped range of addresses.
func unmapMemory(p *process, _ *thread, c *events.Call, _ *effect) {
	m := &p.memory
	at, ok := c.Value(events.RolePtr)
	size, sized := c.Value(events.RoleBytes)
	if c.Flags&(events.CallFailed|events.CallUnmeasured) != 0 || !ok || !sized {
		return
	}
	for end := at + size; at < end; {
		x, ok := m.maps[at]
		if !ok || x.bytes == 0 {
			return
		}
		delete(m.maps, at)
		p.all.allocations--
		m.ranges.remove(at)
		k := place{x.handle, true}
		if a, held := m.live[k]; held {
			if a.refs--; a.refs <= 0 {
				m.Frees++
				m.growth.level(c.End(), m.GPU.Bytes)
				m.drop(p, k, a)
				m.growth.floor(m.GPU.Bytes)
			} else {
				m.live[k] = a
			}
		}
		at += x.bytes
	}
}

// freeAll frees the memory held on a device, or, with device 0, all memory.
func (m *memory) freeAll(p *process, device int16) {
	for at, a := range m.live {
		if device == 0 || a.device == device || a.kind.Host() && len(p.contexts) <= 1 {
			m.drop(p, at, a)
			m.Released++
		}
	}
	if device == 0 {
		p.all.allocations -= len(m.maps)
		clear(m.maps)
		m.ranges = ranges{}
	}
	clear(m.freed)
	m.fifo, m.fifoAt = m.fifo[:0], 0
	m.growth.floor(m.GPU.Bytes)
}

func (m *memory) state() tick.Memory {
	out := m.Memory
	out.Inexact = m.inexact
	out.Growth = m.growth.estimate(m.GPU.Bytes)
	return out
}

func (m *memory) list() []tick.Kind {
	var out []tick.Kind
	for k, h := range m.kinds {
		out = append(out, tick.Kind{Kind: k.kind, Device: k.device, Held: *h})
	}
	slices.SortFunc(out, tick.ByBytes)
	return out
}
