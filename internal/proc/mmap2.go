package proc

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Constants of linux/perf_event.h.
const (
	perfRecordLost      = 2
	perfRecordMmap2     = 10
	perfRecordLostSamp  = 13
	perfMiscMmapBuildID = 1 << 14
	mmap2Fixed          = 72 // bytes before the file name, header included
	sampleID            = 8  // bytes after the name: PERF_SAMPLE_TIME only
)

// decodeMmap2 decodes a PERF_RECORD_MMAP2 that a time follows. It returns false for invalid
// records, and, without allocating, for mappings that are not executable or of no CUDA library.
func decodeMmap2(rec []byte, misc uint16, names Names, ev *MapEvent) bool {
	if len(rec) < mmap2Fixed+sampleID || misc&perfMiscMmapBuildID != 0 {
		return false
	}
	ne := binary.NativeEndian
	if prot := ne.Uint32(rec[64:]); prot&unix.PROT_EXEC == 0 {
		return false
	}
	path := rec[mmap2Fixed : len(rec)-sampleID]
	if i := bytes.IndexByte(path, 0); i >= 0 {
		path = path[:i]
	}
	m := mapLine{
		start: ne.Uint64(rec[16:]), offset: ne.Uint64(rec[32:]),
		major: ne.Uint32(rec[40:]), minor: ne.Uint32(rec[44:]), inode: ne.Uint64(rec[48:]),
		exec: true, path: path,
	}
	m.end = m.start + ne.Uint64(rec[24:])
	if m.inode == 0 || m.end < m.start {
		return false
	}
	lib, inside, ok := names.match(path, m.key())
	pid := ne.Uint32(rec[8:])
	if !ok || int32(pid) <= 0 { // 0 and -1: a process outside this PID namespace
		return false
	}
	*ev = MapEvent{
		Time: int64(ne.Uint64(rec[len(rec)-sampleID:])),
		PID:  pid, TID: ne.Uint32(rec[12:]),
		Library: Library{Mapping: m.mapping(), Lib: lib, Inside: inside},
	}
	return true
}
