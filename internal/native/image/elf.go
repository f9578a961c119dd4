package image

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ErrFormat means that a file is not a supported ELF file.
var ErrFormat = errors.New("not a 64-bit little-endian ELF file")

// Limits of headers.
const (
	maxSegments = 256
	maxSections = 1 << 14
	maxNames    = 1 << 20 // bytes of the section names
	maxNotes    = 64 << 10
	maxBuildID  = 64
)

// Constants of the ELF specification and its GNU extensions (elf.h).
const (
	ptLoad        = 1
	ptNote        = 4
	pfExec        = 1
	shtSymtab     = 2
	shtNobits     = 8
	shtDynsym     = 11
	shfCompressed = 1 << 11
	ntBuildID     = 3
)

var le = binary.LittleEndian

// File is the file of an image.
type File interface {
	io.ReaderAt
	io.Closer
}

// object is an ELF file.
type object struct {
	file     File
	loads    Layout
	sections map[string]section
	symtab   section
	dynsym   section
	strings  [2]section // string tables of symtab and dynsym
	buildID  string
}

// Layout has the loaded segments of a file, by address.
type Layout []load

// load is a loaded segment.
type load struct {
	off, addr, size uint64
	exec            bool
}

func openObject(f File) (*object, error) {
	o := &object{file: f, sections: map[string]section{}}
	var h [64]byte
	if err := readAt(f, h[:], 0); err != nil {
		return nil, err
	}
	if string(h[:4]) != "\x7fELF" || h[4] != 2 || h[5] != 1 {
		return nil, ErrFormat
	}
	n, size := int(le.Uint16(h[56:])), le.Uint16(h[54:])
	if n > maxSegments || n > 0 && size != 56 {
		return nil, fmt.Errorf("%w: %d segments of %d bytes", ErrFormat, n, size)
	}
	b := make([]byte, n*56)
	if err := readAt(f, b, le.Uint64(h[32:])); err != nil {
		return nil, err
	}
	for ; len(b) > 0; b = b[56:] {
		o.segment(b)
	}
	slices.SortFunc(o.loads, func(a, b load) int { return cmp.Compare(a.addr, b.addr) })
	return o, o.readSections(h[:])
}

func (o *object) segment(b []byte) {
	off, addr, size := le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[32:])
	switch le.Uint32(b) {
	case ptLoad:
		o.loads = append(o.loads, load{off, addr, size, le.Uint32(b[4:])&pfExec != 0})
	case ptNote:
		if o.buildID == "" && size <= maxNotes && within(o.file, off, size) {
			notes := make([]byte, size)
			if readAt(o.file, notes, off) == nil {
				o.buildID = buildID(notes, le.Uint64(b[48:]))
			}
		}
	}
}

// buildID finds the build id among notes, in hexadecimal.
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
		if kind == ntBuildID && string(b[12:12+name]) == "GNU\x00" && desc > 0 && desc <= maxBuildID {
			return hex.EncodeToString(b[at : at+desc])
		}
		b = b[min(up(at+desc), uint64(len(b))):]
	}
	return ""
}

func (o *object) readSections(h []byte) error {
	off, size, n, names := le.Uint64(h[40:]), le.Uint16(h[58:]), int(le.Uint16(h[60:])), int(le.Uint16(h[62:]))
	if off == 0 || n == 0 {
		return nil
	}
	if n > maxSections || size != 64 {
		return fmt.Errorf("%w: %d sections of %d bytes", ErrFormat, n, size)
	}
	if !within(o.file, off, uint64(n)*64) {
		return fmt.Errorf("%w: truncated sections", ErrFormat)
	}
	b := make([]byte, n*64)
	if err := readAt(o.file, b, off); err != nil {
		return err
	}
	at := func(i int) section {
		s := b[i*64:]
		off, size := le.Uint64(s[24:]), le.Uint64(s[32:])
		if le.Uint32(s[4:]) == shtNobits || !within(o.file, off, size) {
			return section{}
		}
		return section{r: o.file, off: off, size: size, packed: le.Uint64(s[8:])&shfCompressed != 0}
	}
	var text []byte
	if names < n {
		if s := at(names); s.size <= maxNames {
			text = make([]byte, s.size)
			if readAt(o.file, text, s.off) != nil {
				text = nil
			}
		}
	}
	for i := range n {
		link := int(le.Uint32(b[i*64+40:]))
		switch kind := le.Uint32(b[i*64+4:]); {
		case kind == shtSymtab && link < n && at(i).size > 0:
			o.symtab, o.strings[0] = at(i), at(link)
		case kind == shtDynsym && link < n && at(i).size > 0:
			o.dynsym, o.strings[1] = at(i), at(link)
		}
		if name := int(le.Uint32(b[i*64:])); name < len(text) {
			if end := bytes.IndexByte(text[name:], 0); end > 0 && bytes.Contains(text[name:name+end], []byte("debug")) {
				o.sections[string(text[name:name+end])] = at(i)
			}
		}
	}
	return nil
}

// Address returns the address of a file offset.
func (all Layout) Address(off uint64) (uint64, bool) {
	for i := range all {
		if l := &all[i]; off >= l.off && off-l.off < l.size {
			return off - l.off + l.addr, true
		}
	}
	return 0, false
}

// code reports whether an address is one of instructions. What the linker discarded has invalid
// addresses: 0, 1, or the last.
func (o *object) code(addr uint64) bool {
	for i := range o.loads {
		if l := &o.loads[i]; l.exec && addr >= l.addr && addr-l.addr < l.size {
			return true
		}
	}
	return false
}

func (o *object) hasInfo() bool {
	return o.sections[".debug_info"].size+o.sections[".zdebug_info"].size > 0
}

// link returns the name and checksum of the separate debug file (.gnu_debuglink).
func (o *object) link() (name string, crc uint32) {
	b, err := o.sections[".gnu_debuglink"].all(4096)
	if err != nil {
		return "", 0
	}
	end := bytes.IndexByte(b, 0)
	if end <= 0 || (end+4)&^3+4 > len(b) || bytes.IndexByte(b[:end], '/') >= 0 {
		return "", 0
	}
	return string(b[:end]), le.Uint32(b[(end+4)&^3:])
}

// alt returns the path and build id of the file to which dwz moved common parts
// (.gnu_debugaltlink).
func (o *object) alt() (path, id string) {
	b, err := o.sections[".gnu_debugaltlink"].all(4096)
	if err != nil {
		return "", ""
	}
	end := bytes.IndexByte(b, 0)
	if end <= 0 || end+1 >= len(b) || len(b)-end-1 > maxBuildID {
		return "", ""
	}
	return string(b[:end]), hex.EncodeToString(b[end+1:])
}
