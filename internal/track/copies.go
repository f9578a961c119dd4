package track

import (
	"cmp"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// memcpy takes in a copy. A copy inside another is the same copy.
func memcpy(p *process, th *thread, c *events.Call, e *effect) {
	if inside(c, copies) || c.Flags&events.CallFailed != 0 {
		return
	}
	dir, host := p.direction(c, e)
	size, _ := c.Value(events.RoleBytes)
	weight := uint64(c.Weight)
	sum := &p.copies[dir][host]
	sum.Count += weight
	sum.Bytes += size * weight
	sum.Estimated = sum.Estimated || weight > 1
	if c.Flags&events.CallUnmeasured == 0 {
		sum.NS += c.Duration * int64(weight)
	}
	x := p.stream(c)
	if x == nil {
		return
	}
	x.Copies += weight
	x.Bytes += size * weight
	x.Last = c.End()
	if dir == tick.CopyDeviceToHost && !c.Op.Row().Has(events.RoleStream) && done(c) {
		x.until(c.Start) // it has waited for earlier work
	}
}

// direction returns the direction of a copy and the kind of its host memory. It uses the addresses
// if the call does not say.
func (p *process) direction(c *events.Call, e *effect) (tick.CopyDir, tick.HostKind) {
	if e.peer {
		return tick.CopyPeer, tick.HostNone
	}
	kind, said := c.Value(events.RoleKind)
	if !said || kind >= uint64(tick.CopyUnknown) {
		return p.byAddress(c)
	}
	dir := tick.CopyDir(kind)
	switch dir {
	case tick.CopyHostToDevice:
		return dir, p.hostKind(c.Value(events.RoleSrc))
	case tick.CopyDeviceToHost:
		return dir, p.hostKind(c.Value(events.RoleDst))
	case tick.CopyDeviceToDevice:
		return dir, tick.HostNone
	}
	return dir, min(p.hostKind(c.Value(events.RoleSrc)), p.hostKind(c.Value(events.RoleDst)))
}

// byAddress finds the direction of a copy from its addresses.
func (p *process) byAddress(c *events.Call) (tick.CopyDir, tick.HostKind) {
	src, knownSrc := p.side(c.Value(events.RoleSrc))
	dst, knownDst := p.side(c.Value(events.RoleDst))
	switch {
	case !knownSrc || !knownDst:
		return tick.CopyUnknown, tick.HostUnknown
	case src == tick.HostNone && dst == tick.HostNone:
		return tick.CopyDeviceToDevice, tick.HostNone
	case src == tick.HostNone:
		return tick.CopyDeviceToHost, dst
	case dst == tick.HostNone:
		return tick.CopyHostToDevice, src
	}
	return tick.CopyHostToHost, min(src, dst)
}

// side returns the memory at an address: GPU memory (HostNone), pinned memory, or, if all
// allocations are known, pageable memory.
func (p *process) side(at uint64, known bool) (tick.HostKind, bool) {
	if !known {
		return 0, false
	}
	if s, found := p.memory.ranges.find(at); found {
		if s.host {
			return tick.HostPinned, true
		}
		return tick.HostNone, true
	}
	return tick.HostPageable, p.complete()
}

// hostKind returns the kind of a host address.
func (p *process) hostKind(at uint64, known bool) tick.HostKind {
	if k, ok := p.side(at, known); ok && k != tick.HostNone {
		return k
	}
	return tick.HostUnknown
}

// complete reports whether every held allocation is known by its addresses.
func (p *process) complete() bool {
	return !p.missedCalls && p.memory.inexact == 0 && p.memory.ranges.lack == 0
}

// failure is an operation with an error code.
type failure struct {
	op   events.Op
	code int32
}

// notReady is the result of a query for unfinished work: cudaErrorNotReady, CUDA_ERROR_NOT_READY.
const notReady = 600

// failed counts a failed call.
func (p *process) failed(c *events.Call) {
	if c.Result == notReady {
		return
	}
	k := failure{c.Op, c.Result}
	e := p.errors[k]
	if e == nil {
		if len(p.errors) >= maxErrors {
			p.untracked++
			return
		}
		e = &tick.CallError{Op: c.Op, Code: c.Result, First: c.End()}
		p.errors[k] = e
	}
	e.Count += uint64(c.Weight)
	e.Last = c.End()
}

func (p *process) errorList() tick.List[tick.CallError] {
	out := make([]tick.CallError, 0, len(p.errors))
	for _, e := range p.errors {
		out = append(out, *e)
	}
	return first(out, func(a, b tick.CallError) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Code, b.Code))
	})
}
