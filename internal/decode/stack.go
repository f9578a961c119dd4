package decode

import (
	"fmt"
	"slices"
	"unsafe"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

const (
	stackSize  = int(unsafe.Offsetof(bpf.IngeroStackRecord{}.Ip))
	walkAt     = int(unsafe.Offsetof(bpf.IngeroStackRecord{}.Py))
	pythonSize = walkAt + int(unsafe.Offsetof(bpf.IngeroPyWalk{}.Frames))
	ipSize     = int(unsafe.Sizeof(bpf.IngeroStackRecord{}.Ip[0]))
	pySize     = int(unsafe.Sizeof(bpf.IngeroPyFrame{}))
	maxNatives = len(bpf.IngeroStackRecord{}.Ip)
	maxPythons = len(bpf.IngeroPyWalk{}.Frames)
)

// Stacks decodes one record of a stack and appends it. b is not kept. On error nothing is appended.
func Stacks(dst []tick.RawStack, b []byte, clock Clock) ([]tick.RawStack, error) {
	if len(b) < stackSize || b[0] != uint8(bpf.IngeroRecordKindRECORD_STACK) {
		return dst, fmt.Errorf("stack of %d bytes: %w", len(b), ErrRecord)
	}
	r := (*stackHead)(unsafe.Pointer(&b[0]))
	natives, pythons := int(r.Natives), 0
	var walk *pyHead
	if len(b) >= pythonSize {
		walk = (*pyHead)(unsafe.Pointer(&b[walkAt]))
		pythons = int(walk.N)
	}
	switch {
	case r.Id == 0, natives == 0 && pythons == 0, natives > maxNatives, pythons > maxPythons, len(b) < stackSize+natives*ipSize,
		pythons > 0 && len(b) < pythonSize+pythons*pySize:
		return dst, fmt.Errorf("stack %d of %d and %d frames in %d bytes: %w", r.Id, natives, pythons, len(b), ErrRecord)
	}
	s := tick.RawStack{Time: clock.Wall(r.TimeNs), ID: r.Id, PID: r.Tgid, TID: r.Tid, IPs: slices.Clone(list[uint64](b[stackSize:], natives)), End: r.End, Own: r.Own != 0}
	if walk != nil {
		s.Py, s.PyEpoch, s.PyEnd = make([]tick.PyFrame, pythons), walk.Epoch, walk.End
		for i, f := range list[bpf.IngeroPyFrame](b[pythonSize:], pythons) {
			s.Py[i] = tick.PyFrame{Code: f.Code, Mark: f.Mark, Instr: f.Instr}
		}
	}
	return append(dst, s), nil
}
