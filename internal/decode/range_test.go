package decode_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"ingero/internal/bpf"
	"ingero/internal/decode"
	"ingero/internal/tick"
)

// rangeRecord returns an NVTX call as the kernel writes it.
func rangeRecord(name string) []byte {
	r := bpf.IngeroRangeRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_RANGE), Flags: 0xff, Op: 0x0701, Tgid: 7, Tid: 8, Lost: 3, TimeNs: 5000, Id: 0x1234, Domain: 9}
	r.Account = bpf.IngeroAccount{BornNs: 1000, CallsNs: 3000, SyncNs: 2000, Off: bpf.IngeroSums{Runnable: 100, Blocked: 2500},
		InCalls: bpf.IngeroSums{Blocked: 2400}, InSync: bpf.IngeroSums{Blocked: 1900}}
	for i := range min(len(name), len(r.Name)) {
		r.Name[i] = int8(name[i])
	}
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
}

// All fields of a record are decoded, for any bytes in the name.
func TestRanges(t *testing.T) {
	for name, want := range map[string]string{
		"train step": "train step", "": "", "\x1b[2J\xff": "\x1b[2J\xff", "a\x00b": "a",
		strings.Repeat("x", 300): strings.Repeat("x", tick.MaxRangeName),
	} {
		var b tick.Batch
		if err := decode.Record(&b, rangeRecord(name), decode.Clock{Offset: 1}); err != nil {
			t.Fatal(err)
		}
		r := &b.Ranges[0]
		if string(r.Name[:r.Length]) != want || r.Time != 5001 || r.PID != 7 || r.TID != 8 || r.Op != 0x0701 || r.Lost != 3 || r.ID != 0x1234 || r.Domain != 9 ||
			r.Flags != tick.RangeReturned|tick.RangeCut|tick.RangeUnaccounted {
			t.Errorf("%q: %+v", name, r)
		}
		if r.InCalls != (tick.Times{OnCPU: 600, Blocked: 2400}) || r.Sync != (tick.Times{OnCPU: 100, Blocked: 1900}) || r.Between != (tick.Times{OnCPU: 800, Runnable: 100, Blocked: 100}) {
			t.Errorf("times %+v %+v %+v", r.InCalls, r.Sync, r.Between)
		}
	}
	var b tick.Batch
	whole := rangeRecord("x")
	for n := 1; n < len(whole); n++ {
		if err := decode.Record(&b, whole[:n], decode.Clock{}); !errors.Is(err, decode.ErrRecord) || len(b.Ranges) != 0 {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}
