package decode

import (
	"structs"
	"unsafe"

	"ingero/internal/bpf"
)

// The kernel cuts stacks behind what they have. They are read by these parts of their
// structures, each behind a check of the length: a pointer to the whole would reach beyond
// the record, and the whole is too large to be copied. A test compares the parts with it.

// stackHead is the part of bpf.IngeroStackRecord that each stack has.
type stackHead struct {
	_       structs.HostLayout
	Kind    uint8
	End     uint8
	Natives uint8
	Pad     uint8
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

// list is the first n values of bytes that are long enough for them.
func list[T uint64 | bpf.IngeroPyFrame](b []byte, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}
