package decode

import (
	"fmt"
	"slices"
	"unsafe"

	"ingero/internal/bpf"
)

// ABI is the number of the layout of bpf/abi.h that this package decodes. Increment it with every
// change of a structure in [Shapes], even one that keeps its size; package tape documents the other
// steps.
const ABI = 6

// Shapes returns the size in bytes of each structure that raw tapes hold.
func Shapes() map[string]int {
	size := map[string]uintptr{
		"call": unsafe.Sizeof(bpf.IngeroCallRecord{}), "wait": unsafe.Sizeof(bpf.IngeroWaitRecord{}),
		"ended": unsafe.Sizeof(bpf.IngeroThreadRecord{}), "text": unsafe.Sizeof(bpf.IngeroTextRecord{}),
		"range": unsafe.Sizeof(bpf.IngeroRangeRecord{}), "stack": unsafe.Sizeof(bpf.IngeroStackRecord{}),
		"python-code": unsafe.Sizeof(bpf.IngeroPyCodeRecord{}), "process": unsafe.Sizeof(bpf.IngeroProcRecord{}),
		"counts": unsafe.Sizeof(bpf.IngeroCounts{}), "thread": unsafe.Sizeof(bpf.IngeroThread{}),
		"host-key": unsafe.Sizeof(bpf.IngeroHostKey{}), "host-sum": unsafe.Sizeof(bpf.IngeroHostSum{}),
	}
	out := map[string]int{}
	for name, n := range size {
		out[name] = int(n)
	}
	return out
}

// ThreadFrom2 converts the state of a thread of layout 2, in which calls have no stack of their gap.
func ThreadFrom2(b []byte) ([]byte, error) {
	const (
		added   = int(unsafe.Sizeof(bpf.IngeroCallRecord{}) - unsafe.Offsetof(bpf.IngeroCallRecord{}.GapStack))
		counted = int(unsafe.Offsetof(bpf.IngeroThread{}.Counted)+unsafe.Sizeof(bpf.IngeroCallRecord{})) - added
		open    = int(unsafe.Offsetof(bpf.IngeroThread{}.Open)) - added
	)
	var t bpf.IngeroThread
	each := int(unsafe.Sizeof(t.Open[0])) - added
	end := open + len(t.Open)*each
	if len(b) != int(unsafe.Sizeof(t))-added*(1+len(t.Open)) {
		return nil, fmt.Errorf("thread of %d bytes in layout 2: %w", len(b), ErrRecord)
	}
	none := make([]byte, added)
	out := slices.Concat(b[:counted], none, b[counted:open])
	for at := open; at < end; at += each {
		out = append(append(out, b[at:at+each]...), none...)
	}
	return append(out, b[end:]...), nil
}

// RenameRecord replaces the names of processes in a record of either ring by the results of rename,
// cut to 15 bytes. It changes b in place.
func RenameRecord(b []byte, rename func(comm string) string) {
	if len(b) == 0 {
		return
	}
	switch kind := bpf.IngeroRecordKind(b[0]); {
	case kind == bpf.IngeroRecordKindRECORD_WAIT && len(b) >= waitSize:
		RenameComm(&(*bpf.IngeroWaitRecord)(unsafe.Pointer(&b[0])).Who.Comm, rename)
	case kind == bpf.IngeroRecordKindRECORD_THREAD && len(b) >= threadSize:
		RenameComm(&(*bpf.IngeroThreadRecord)(unsafe.Pointer(&b[0])).Comm, rename)
	case procKinds[b[0]] != 0 && len(b) >= procSize:
		RenameComm(&(*bpf.IngeroProcRecord)(unsafe.Pointer(&b[0])).Comm, rename)
	}
}

// WithoutPaths returns a record without file paths: of a Python code object only its kind. Stacks
// on a raw tape already have names.
func WithoutPaths(b []byte) []byte {
	if len(b) > 0 && bpf.IngeroRecordKind(b[0]) == bpf.IngeroRecordKindRECORD_PY_CODE {
		return b[:1]
	}
	return b
}

// RenameComm replaces one name; an empty one stays.
func RenameComm(comm *[16]int8, rename func(comm string) string) {
	was := text(*comm)
	if was == "" {
		return
	}
	name := rename(was)
	*comm = [16]int8{}
	for i := range min(len(name), len(comm)-1) {
		comm[i] = int8(name[i])
	}
}

// value is a type of the kernel's maps that raw tapes contain. It has no pointers.
type value interface {
	bpf.IngeroCounts | bpf.IngeroThread | bpf.IngeroHostKey | bpf.IngeroHostSum
}

// Bytes returns the memory of a value.
func Bytes[T value](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Fill sets a value from the result of [Bytes].
func Fill[T value](v *T, b []byte) error {
	to := Bytes(v)
	if len(b) != len(to) {
		return fmt.Errorf("value of %d bytes instead of %d: %w", len(b), len(to), ErrRecord)
	}
	copy(to, b)
	return nil
}
