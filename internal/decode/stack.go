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
	pythonSize = stackSize + int(unsafe.Sizeof(bpf.IngeroStackRecord{}.Ip)) + int(unsafe.Offsetof(bpf.IngeroPyWalk{}.Frames))
	ipSize     = int(unsafe.Sizeof(bpf.IngeroStackRecord{}.Ip[0]))
	pySize     = int(unsafe.Sizeof(bpf.IngeroPyFrame{}))
)

// Stacks decodes one record of a stack and appends it. b is not kept. On error nothing is
// appended.
func Stacks(dst []tick.RawStack, b []byte, clock Clock) ([]tick.RawStack, error) {
	if len(b) < stackSize || b[0] != uint8(bpf.IngeroRecordKindRECORD_STACK) {
		return dst, fmt.Errorf("stack of %d bytes: %w", len(b), ErrRecord)
	}
	r := (*bpf.IngeroStackRecord)(unsafe.Pointer(&b[0]))
	natives, pythons := int(r.Natives), 0
	if len(b) >= pythonSize {
		pythons = int(r.Py.N)
	}
	switch {
	case r.Id == 0, natives == 0 && pythons == 0, natives > len(r.Ip), pythons > len(r.Py.Frames), len(b) < stackSize+natives*ipSize,
		pythons > 0 && len(b) < pythonSize+pythons*pySize:
		return dst, fmt.Errorf("stack %d of %d and %d frames in %d bytes: %w", r.Id, natives, pythons, len(b), ErrRecord)
	}
	s := tick.RawStack{Time: clock.Wall(r.TimeNs), ID: r.Id, PID: r.Tgid, TID: r.Tid, IPs: slices.Clone(r.Ip[:natives]), End: r.End}
	if len(b) >= pythonSize {
		s.Py, s.PyEpoch, s.PyEnd = make([]tick.PyFrame, pythons), r.Py.Epoch, r.Py.End
		for i := range s.Py {
			f := &r.Py.Frames[i]
			s.Py[i] = tick.PyFrame{Code: f.Code, Mark: f.Mark, Instr: f.Instr}
		}
	}
	return append(dst, s), nil
}
