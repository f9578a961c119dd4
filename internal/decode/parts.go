package decode

import (
	"structs"
	"unsafe"

	"ingero/internal/bpf"
)

// The kernel cuts some records behind what they need. Such a record is read by these
// parts of its structure, each behind a check of the length: a pointer to the whole
// structure would reach beyond the record. A test compares them with the structures.

// callHead is the part of bpf.IngeroCallRecord that each call has.
type callHead struct {
	_          structs.HostLayout
	Kind       uint8
	WeightLog2 uint8
	Op         uint16
	Other      uint16
	Flags      uint16
	Tgid       uint32
	Tid        uint32
	StartNs    uint64
	Arg        [4]uint64
	Tag        uint32
	Stack      uint32
}

// callTimes is the part that follows in the record of a measured call.
type callTimes struct {
	_           structs.HostLayout
	Gap         uint32
	GapOnCpu    uint32
	DurationNs  uint64
	GapRunnable uint32
	OnCpu       uint32
	Runnable    uint32
	Result      int32
}

// callThrottled is the part that follows if a call or the gap before it was throttled.
type callThrottled struct {
	_            structs.HostLayout
	Throttled    uint32
	GapThrottled uint32
}

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
