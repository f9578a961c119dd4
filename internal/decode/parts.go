package decode

import (
	"structs"
	"unsafe"

	"ingero/internal/bpf"
)

// The kernel truncates stacks after the last frame. They are read by these parts of their
// structures, each behind a length check: a pointer to the whole would reach beyond the record, and
// the whole is too large to copy. A test compares the parts with the structures.

// stackHead is the part of bpf.IngeroStackRecord that every stack has.
type stackHead struct {
	_       structs.HostLayout
	Kind    uint8
	End     uint8
	Natives uint8
	Own     uint8
	Id      uint32
	Tgid    uint32
	Tid     uint32
	TimeNs  uint64
}

// pyHead is the part of bpf.IngeroPyWalk before its frames.
type pyHead struct {
	_       structs.HostLayout
	Epoch   uint32
	N       uint32
	End     uint32
	Interps uint32
	Self    uint64
	Interp  uint64
	Thread  uint64
	Found   uint64
	Frame   uint64
	Raw     [len(bpf.IngeroPyWalk{}.Raw)]uint64
}

// list returns the first n values in b, which must be long enough.
func list[T uint64 | bpf.IngeroPyFrame](b []byte, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}
