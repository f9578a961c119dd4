package decode

import (
	"errors"
	"reflect"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The parts for reading truncated records match the fields of their structures.
func TestPartsAreThoseOfTheStructure(t *testing.T) {
	for _, tt := range []struct {
		whole, part any
		end         int // of the part
	}{
		{bpf.IngeroStackRecord{}, stackHead{}, stackSize},
		{bpf.IngeroPyWalk{}, pyHead{}, pythonSize - walkAt},
	} {
		whole, part := reflect.TypeOf(tt.whole), reflect.TypeOf(tt.part)
		for i := 1; i < part.NumField(); i++ { // the first field is the layout marker
			if got, want := part.Field(i), whole.Field(i); got.Name != want.Name || got.Type != want.Type || got.Offset != want.Offset {
				t.Errorf("%v: %s %v at %d, want %s %v at %d", part, got.Name, got.Type, got.Offset, want.Name, want.Type, want.Offset)
			}
		}
		if int(part.Size()) != tt.end {
			t.Errorf("%v has %d bytes, want %d", part, part.Size(), tt.end)
		}
	}
}

// edge returns a function that places bytes directly before unreadable memory.
func edge(t *testing.T) func(b []byte) []byte {
	t.Helper()
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	if err := unix.Mprotect(mem[2*page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return func(b []byte) []byte {
		at := mem[2*page-len(b) : 2*page : 2*page]
		copy(at, b)
		return at
	}
}

// Nothing after the end of a truncated record is read, and a record that is too short for its
// contents is malformed.
func TestNothingBehindARecordIsRead(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	call := func(flags bpf.IngeroCallFlags) []byte {
		return raw(&bpf.IngeroCallRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_CALL), Flags: uint16(flags)})
	}
	stack := func(natives uint8, pythons uint32) []byte {
		r := bpf.IngeroStackRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_STACK), Id: 1, Natives: natives}
		r.Py.N = pythons
		return raw(&r)
	}
	for _, tt := range []struct {
		name  string
		whole []byte
		least int // shortest valid length
	}{
		{"call", call(0), recordSize},
		{"call, throttled", call(bpf.IngeroCallFlagsCALL_THROTTLED), throttledSize},
		{"call, with the stack of its gap", call(bpf.IngeroCallFlagsCALL_GAP_STACK), fullSize},
		{"call, unmeasured", call(bpf.IngeroCallFlagsCALL_UNMEASURED | bpf.IngeroCallFlagsCALL_THROTTLED), unmeasuredSize},
		{"call, folded", call(bpf.IngeroCallFlagsCALL_UNMEASURED | bpf.IngeroCallFlagsCALL_FOLDED), unmeasuredSize},
		{"wait", raw(&bpf.IngeroWaitRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_WAIT), State: uint8(events.WaitBlocked)}), waitSize},
		{"thread", raw(&bpf.IngeroThreadRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_THREAD)}), threadSize},
		{"text", textBytes("name\x00", 5), textSize + 5},
		{"range", raw(&bpf.IngeroRangeRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_RANGE)}), rangeSize},
		{"stack", stack(5, 0), stackSize + 5*ipSize},
		{"longest stack", stack(uint8(maxNatives), 0), stackSize + maxNatives*ipSize},
		{"process", raw(&bpf.IngeroProcRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_EXIT)}), procSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			put := edge(t)
			for n := range len(tt.whole) + 1 {
				b := put(tt.whole[:n])
				RenameRecord(b, func(comm string) string { return comm })
				var batch tick.Batch
				err := Record(&batch, b, Clock{})
				if tt.name == "process" {
					_, err = Proc(b, Clock{})
				}
				if want := n < tt.least; errors.Is(err, ErrRecord) != want {
					t.Fatalf("%d of %d bytes: %v", n, len(tt.whole), err)
				}
			}
		})
	}
}

// The same for stacks with Python frames, complete or truncated.
func TestNothingBehindPythonFramesIsRead(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	put := edge(t)
	for _, pythons := range []int{1, 2, maxPythons} {
		r := bpf.IngeroStackRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_STACK), Id: 1, Natives: 2}
		r.Py.N = uint32(pythons)
		whole, least := raw(&r), pythonSize+pythons*pySize
		for n := range len(whole) + 1 {
			got, err := Stacks(nil, put(whole[:n]), Clock{})
			// One that ends before the walk has no Python frames.
			want := n < stackSize+2*ipSize || n >= pythonSize && n < least
			if errors.Is(err, ErrRecord) != want {
				t.Fatalf("%d frames, %d of %d bytes: %v", pythons, n, len(whole), err)
			}
			if !want && (len(got[0].IPs) != 2 || len(got[0].Py) != pythons*min(n/least, 1)) {
				t.Fatalf("%d frames, %d of %d bytes: %+v", pythons, n, len(whole), got)
			}
		}
	}
}
