package elffile

import (
	"cmp"
	"encoding/hex"
	"io"
	"slices"
)

const (
	maxNotes     = 64 << 10 // bytes of one segment of notes
	maxBuildID   = 64       // bytes; SHA-1 has 20
	ntGNUBuildID = 3
)

// Segment is a segment of a file. Size counts its bytes in the file.
type Segment struct {
	Off, Addr, Size uint64
	Exec            bool
	align           uint64
}

// Loads are the loaded segments of a file, by address.
type Loads []Segment

func (f *File) addSegments(b []byte) {
	for ; len(b) > 0; b = b[segmentSize:] {
		s := Segment{Off: le.Uint64(b[8:]), Addr: le.Uint64(b[16:]), Size: le.Uint64(b[32:]), Exec: le.Uint32(b[4:])&pfExec != 0, align: le.Uint64(b[48:])}
		switch le.Uint32(b) {
		case ptLoad:
			f.Loads = append(f.Loads, s)
		case ptNote:
			f.notes = append(f.notes, s)
		case ptGNUEHFrame:
			f.Unwind = s
		}
	}
	slices.SortStableFunc(f.Loads, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
}

// Address returns the address of a file offset.
func (all Loads) Address(off uint64) (uint64, bool) {
	for i := range all {
		if l := &all[i]; off >= l.Off && off-l.Off < l.Size {
			return off - l.Off + l.Addr, true
		}
	}
	return 0, false
}

// At returns what the file has from an address on, to the end of the segment.
func (all Loads) At(addr uint64) (Segment, bool) {
	for _, l := range all {
		if l.contains(addr) {
			past := addr - l.Addr
			return Segment{Off: l.Off + past, Addr: addr, Size: l.Size - past, Exec: l.Exec}, true
		}
	}
	return Segment{}, false
}

// Code reports whether an address is one of instructions. What the linker discarded has invalid
// addresses: 0, 1, or the last.
func (all Loads) Code(addr uint64) bool {
	for i := range all {
		if all[i].Exec && all[i].contains(addr) {
			return true
		}
	}
	return false
}

func (l *Segment) contains(addr uint64) bool { return addr >= l.Addr && addr-l.Addr < l.Size }

// Bias returns what to subtract from an address in a mapping of code to get the file's own address.
// The mapping shows the file from offset on at start.
func (all Loads) Bias(start, offset uint64) (uint64, bool) {
	const page = 64 << 10 // the largest page size
	for _, l := range all {
		if l.Exec && offset < l.Off+l.Size && offset+page > l.Off {
			return start - offset + l.Off - l.Addr, true
		}
	}
	return 0, false
}

// BuildID returns the build id of a file, as File.BuildID does. It refuses the files that Open
// refuses.
func BuildID(r io.ReaderAt) (string, error) {
	f, err := Open(r)
	if err != nil {
		return "", err
	}
	return f.BuildID(), nil
}

// BuildID returns the build id of the file in hexadecimal, empty if it has none. Files with equal
// build id and size have equal content.
func (f *File) BuildID() string {
	for _, s := range f.notes {
		d := Data{f.r, s.Off, s.Size}
		if !within(f.r, s.Off, s.Size) {
			continue
		}
		if b, err := d.All(maxNotes); err == nil {
			if id := buildID(b, s.align); id != "" {
				return id
			}
		}
	}
	return ""
}

// buildID finds the build id among notes.
func buildID(b []byte, align uint64) string {
	if align != 8 {
		align = 4
	}
	up := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(b) >= 12 {
		name, desc, kind := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		at := up(12 + name)
		if at+desc > uint64(len(b)) {
			return ""
		}
		if kind == ntGNUBuildID && string(b[12:12+name]) == "GNU\x00" && desc > 0 && desc <= maxBuildID {
			return hex.EncodeToString(b[at : at+desc])
		}
		b = b[min(up(at+desc), uint64(len(b))):]
	}
	return ""
}
