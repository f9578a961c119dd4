package proc

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ingero/pkg/events"
)

// mmap2Bytes makes a PERF_RECORD_MMAP2 as the kernel does.
func mmap2Bytes(path string) []byte {
	ne := binary.NativeEndian
	b := ne.AppendUint32(nil, perfRecordMmap2)
	b = ne.AppendUint16(b, 2) // user mode
	b = ne.AppendUint16(b, 0)
	for _, v := range []uint32{812, 815} { // pid, tid
		b = ne.AppendUint32(b, v)
	}
	for _, v := range []uint64{0x7f0000001000, 0x2000, 0x21000} { // addr, len, pgoff
		b = ne.AppendUint64(b, v)
	}
	b = ne.AppendUint32(b, 0xfe) // major, minor
	b = ne.AppendUint32(b, 1)
	b = ne.AppendUint64(b, 1835302) // inode and generation
	b = ne.AppendUint64(b, 5)
	b = ne.AppendUint32(b, unix.PROT_READ|unix.PROT_EXEC)
	b = ne.AppendUint32(b, unix.MAP_PRIVATE)
	b = append(b, path...)
	b = append(b, make([]byte, 8-len(path)&7)...)
	b = ne.AppendUint64(b, 1_234_567_890) // time
	ne.PutUint16(b[6:], uint16(len(b)))
	return b
}

func TestDecodeMmap2(t *testing.T) {
	const path = "/usr/lib/libcudart.so.12"
	var got MapEvent
	if !decodeMmap2(mmap2Bytes(path), 2, Names{}, &got) {
		t.Fatal("not taken")
	}
	want := MapEvent{Time: 1_234_567_890, PID: 812, TID: 815, Library: Library{Lib: events.LibCudart, Mapping: Mapping{
		Start: 0x7f0000001000, End: 0x7f0000003000, Offset: 0x21000,
		Key: Key{Dev: unix.Mkdev(0xfe, 1), Inode: 1835302}, Path: path, Exec: true}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

func TestDecodeMmap2LeavesOut(t *testing.T) {
	for _, tt := range []struct {
		name   string
		path   string
		misc   uint16
		change func([]byte) []byte
	}{
		{name: "another library", path: "/usr/lib/libc.so.6"},
		{name: "no file", path: "//anon"},
		{name: "build id in place of the inode", misc: perfMiscMmapBuildID},
		{name: "not executable", change: func(b []byte) []byte { b[64] = unix.PROT_READ; return b }},
		{name: "process of another namespace", change: func(b []byte) []byte { clear(b[8:16]); return b }},
		{name: "cut off", change: func(b []byte) []byte { return b[:70] }},
		{name: "no inode", change: func(b []byte) []byte { clear(b[48:56]); return b }},
		{name: "wraps around", change: func(b []byte) []byte { b[31] = 0xff; b[23] = 0xff; return b }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.path == "" {
				tt.path = "/usr/lib/libcudart.so.12"
			}
			rec := mmap2Bytes(tt.path)
			if tt.change != nil {
				rec = tt.change(rec)
			}
			var ev MapEvent
			if n := testing.AllocsPerRun(10, func() {
				if decodeMmap2(rec, tt.misc, Names{}, &ev) {
					t.Errorf("taken: %+v", ev)
				}
			}); n != 0 {
				t.Errorf("%v allocations, want none", n)
			}
		})
	}
}
