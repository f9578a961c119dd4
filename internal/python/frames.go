package python

import (
	"encoding/binary"
	"math"
)

// object is a structure of the process, read in part.
type object struct {
	b    []byte
	from uint16 // offset of b in it
}

func (o object) word(off uint16) uint64 { return binary.LittleEndian.Uint64(o.b[off-o.from:]) }
func (o object) half(off uint16) uint32 { return binary.LittleEndian.Uint32(o.b[off-o.from:]) }

// frames follows a chain of frames, as py_step in bpf/pywalk.h does.
func (m memory) frames(f *Facts, at uint64) ([]Frame, End) {
	var out []Frame
	for range maxSteps {
		if at == 0 {
			return out, EndOK
		}
		frame, next, shim, end := m.frame(f, at)
		at = next
		switch {
		case end != EndOK:
			return out, end
		case shim && len(out) > 0 && out[len(out)-1].Code&FrameEntry == 0:
			out[len(out)-1].Code |= FrameEntry
		case shim && len(out) < MaxFrames:
			out = append(out, Frame{Code: FrameEntry})
		case shim:
		case len(out) == MaxFrames:
			return out, EndCut
		default:
			out = append(out, frame)
		}
	}
	return out, EndCut
}

// frame reads one frame, and returns the address of its caller. A shim marks the entry of the
// evaluation loop.
func (m memory) frame(f *Facts, at uint64) (out Frame, next uint64, shim bool, end End) {
	l := &f.Layout
	o := object{b: make([]byte, l.FBytes)}
	if m.read(o.b, at) != nil {
		return out, 0, false, EndFault
	}
	next = o.word(l.FPrev)
	address := o.word(l.FCode) &^ frameBits
	out.Code = address
	owner := byte(0)
	if l.Flags&flagLasti != 0 {
		out.Instr = int32(o.half(l.FInstr)) * 2
		out.Code |= FrameEntry
	} else {
		out.Instr = int32(o.word(l.FInstr) - address - uint64(l.CoCode))
		owner = o.b[l.FOwner]
		if owner >= ownerShim {
			return out, next, true, EndOK
		}
		if l.Flags&flagEntry != 0 && o.b[l.FOwner-1] != 0 {
			out.Code |= FrameEntry
		}
	}
	code, ok := m.code(l, address)
	if !ok {
		return out, 0, false, EndFault
	}
	if code.word(typeOf) != f.CodeType {
		return out, 0, false, EndStrange
	}
	if l.Flags&flagLasti == 0 && owner != ownerGen && out.Instr < int32(code.half(l.CoCode-traceApart))*2 {
		out.Code |= FrameBegins
	}
	out.Mark = m.mark(l, code)
	return out, next, false, EndOK
}

func (m memory) code(l *Layout, at uint64) (object, bool) {
	o := object{b: make([]byte, l.CoBytes), from: typeOf}
	return o, at < math.MaxInt64 && m.read(o.b, at+typeOf) == nil
}

// mark is py_mark of bpf/pywalk.h.
func (m memory) mark(l *Layout, code object) uint32 {
	if l.CoVersion != 0 {
		return code.half(l.CoVersion)
	}
	var name [16]byte
	var lines [24]byte
	if m.read(name[:], code.word(l.CoName)+strLength) != nil {
		name = [16]byte{}
	}
	if m.read(lines[:], code.word(l.CoLines)+sizeOf) != nil {
		lines = [24]byte{}
	}
	le := binary.LittleEndian
	h := uint64(code.half(l.CoFirst))
	for _, v := range [...]uint64{code.word(l.CoFile), le.Uint64(name[:]), le.Uint64(name[8:]),
		le.Uint64(lines[:]), le.Uint64(lines[16:]), code.word(l.CoQualname)} {
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return uint32(h)
}
