package decode

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

// stackRecord returns a record as the kernel emits it, truncated after its last frame.
func stackRecord(r *bpf.IngeroStackRecord) []byte {
	b := unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r))
	if r.Py.N > 0 {
		return b[:min(pythonSize+int(r.Py.N)*pySize, len(b))]
	}
	return b[:min(stackSize+int(r.Natives)*ipSize, len(b))]
}

func TestStacks(t *testing.T) {
	full := func(natives uint8, pythons uint32) *bpf.IngeroStackRecord {
		r := &bpf.IngeroStackRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_STACK), Id: 9, Tgid: 7, Tid: 8, TimeNs: 100, Natives: natives, Own: 1, End: 3}
		for i := range r.Ip {
			r.Ip[i] = uint64(i + 1)
		}
		r.Py.N, r.Py.Epoch, r.Py.End = pythons, 3, 1
		for i := range r.Py.Frames {
			r.Py.Frames[i] = bpf.IngeroPyFrame{Code: uint64(i + 1), Mark: 5, Instr: int32(i)}
		}
		return r
	}
	for _, natives := range []uint8{1, 2, 65} {
		for _, pythons := range []uint32{0, 1, 128} {
			got, err := Stacks(nil, stackRecord(full(natives, pythons)), Clock{Offset: 1000})
			if err != nil {
				t.Fatal(err)
			}
			want := tick.RawStack{Time: 1100, ID: 9, PID: 7, TID: 8, End: 3, Own: true}
			for i := range int(natives) {
				want.IPs = append(want.IPs, uint64(i+1))
			}
			if pythons > 0 {
				want.PyEpoch, want.PyEnd = 3, 1
			}
			for i := range int(pythons) {
				want.Py = append(want.Py, tick.PyFrame{Code: uint64(i + 1), Mark: 5, Instr: int32(i)})
			}
			if d := cmp.Diff([]tick.RawStack{want}, got); d != "" {
				t.Errorf("%d and %d frames (-want +got):\n%s", natives, pythons, d)
			}
		}
	}
	none := full(2, 0) // no Python frames, but a reason
	if got, err := Stacks(nil, unsafe.Slice((*byte)(unsafe.Pointer(none)), pythonSize), Clock{}); err != nil || got[0].PyEnd != 1 || len(got[0].Py) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	strange := map[string][]byte{"empty": {}, "short": stackRecord(full(5, 0))[:stackSize+8], "python cut": stackRecord(full(5, 9))[:pythonSize+8],
		"no frames": stackRecord(full(0, 0)), "too many": stackRecord(full(66, 0)), "too many of Python": stackRecord(full(5, 129))}
	for name, b := range strange {
		if got, err := Stacks(nil, b, Clock{}); !errors.Is(err, ErrRecord) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func BenchmarkStacks(b *testing.B) {
	r := bpf.IngeroStackRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_STACK), Id: 1, Natives: 20}
	r.Py.N = 20
	in := stackRecord(&r)
	stacks := make([]tick.RawStack, 0, 1)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if stacks, err = Stacks(stacks[:0], in, Clock{}); err != nil {
			b.Fatal(err)
		}
	}
}
