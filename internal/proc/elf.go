package proc

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Limits of an ELF file. Real libraries stay a hundred times below. Without limits, a hostile
// sparse file could make its readers allocate as much as it claims to have.
const (
	maxProgs     = 256
	maxSections  = 1 << 14
	maxTable     = 64 << 20  // bytes of one table of symbols, strings, versions or dynamic entries
	maxSymbols   = 256 << 20 // bytes of all symbol tables and their names: a library has two
	maxNotes     = 64 << 10  // bytes of one segment of notes
	maxBuildID   = 64        // bytes; SHA-1 has 20
	elfHeaderLen = 64
)

var errNotELF = errors.New("not a 64-bit little-endian ELF file")

// Constants of the ELF specification and its GNU extensions (elf.h).
const (
	ptNote       = 4
	ntGNUBuildID = 3
	shtSymtab    = 2
	shtStrtab    = 3
	shtDynamic   = 6
	shtNote      = 7
	shtDynsym    = 11
	shtGNUFirst  = 0x6ffffff5 // .. shtGNULast: hashes, versions
	shtGNULast   = 0x6fffffff
)

// BuildID returns the build id of an ELF file in hexadecimal, empty if it has none. Files with
// equal build id and size have equal content. It refuses files whose tables are larger than any
// real library's, and reads only headers and notes.
func BuildID(r io.ReaderAt) (string, error) {
	var h [elfHeaderLen]byte
	if _, err := r.ReadAt(h[:], 0); err != nil {
		if errors.Is(err, io.EOF) {
			return "", errNotELF
		}
		return "", err
	}
	if string(h[:4]) != "\x7fELF" || h[4] != 2 || h[5] != 1 {
		return "", errNotELF
	}
	le := binary.LittleEndian
	progs := table{off: le.Uint64(h[32:]), size: le.Uint16(h[54:]), count: le.Uint16(h[56:])}
	sections := table{off: le.Uint64(h[40:]), size: le.Uint16(h[58:]), count: le.Uint16(h[60:])}
	if err := checkSections(r, sections); err != nil {
		return "", err
	}
	if progs.count > maxProgs || progs.count > 0 && progs.size != 56 {
		return "", fmt.Errorf("%w: %d program headers of %d bytes", errNotELF, progs.count, progs.size)
	}
	for i := range int(progs.count) {
		var p [56]byte
		if _, err := r.ReadAt(p[:], progs.offset(i)); err != nil {
			return "", fmt.Errorf("read program header %d: %w", i, err)
		}
		if le.Uint32(p[0:]) != ptNote {
			continue
		}
		if id := noteBuildID(r, le.Uint64(p[8:]), le.Uint64(p[32:]), le.Uint64(p[48:])); id != "" {
			return id, nil
		}
	}
	return "", nil
}

type table struct {
	off         uint64
	size, count uint16
}

// offset returns the offset of entry i. An overflow makes it negative, and the read fails.
func (t table) offset(i int) int64 { return int64(t.off + uint64(i)*uint64(t.size)) }

// checkSections refuses tables that are too large, since symbol readers read them whole.
func checkSections(r io.ReaderAt, t table) error {
	if t.off == 0 {
		return nil
	}
	// A count of 0 with a table means that the first entry has the count, above 65279.
	if t.count == 0 || t.count > maxSections || t.size != 64 {
		return fmt.Errorf("%w: %d section headers of %d bytes", errNotELF, t.count, t.size)
	}
	buf := make([]byte, int(t.count)*int(t.size))
	if _, err := r.ReadAt(buf, int64(t.off)); err != nil {
		return fmt.Errorf("read section headers: %w", err)
	}
	le := binary.LittleEndian
	symbols := uint64(0)
	for i := range int(t.count) {
		s := buf[i*64:]
		kind, size, names := le.Uint32(s[4:]), le.Uint64(s[32:]), uint64(0)
		switch {
		case kind == shtStrtab, kind == shtNote:
		case kind == shtSymtab, kind == shtDynsym, kind == shtDynamic, kind >= shtGNUFirst && kind <= shtGNULast:
			// debug/elf also reads the linked section of names, whatever its type.
			if link := le.Uint32(s[40:]); link < uint32(t.count) {
				names = le.Uint64(buf[link*64+32:])
			}
		default:
			continue
		}
		if size > maxTable || names > maxTable {
			return fmt.Errorf("%w: section %d has %d bytes, with names of %d", errNotELF, i, size, names)
		}
		if kind == shtSymtab || kind == shtDynsym {
			symbols += size + names
		}
	}
	if symbols > maxSymbols {
		return fmt.Errorf("%w: its tables of symbols have %d bytes", errNotELF, symbols)
	}
	return nil
}

// noteBuildID finds the build id in a segment of notes.
func noteBuildID(r io.ReaderAt, off, size, align uint64) string {
	if size > maxNotes || int64(off) < 0 {
		return ""
	}
	if align != 8 {
		align = 4
	}
	b := make([]byte, size)
	if _, err := r.ReadAt(b, int64(off)); err != nil {
		return ""
	}
	for len(b) >= 12 {
		nameLen := uint64(binary.LittleEndian.Uint32(b))
		descLen := uint64(binary.LittleEndian.Uint32(b[4:]))
		kind := binary.LittleEndian.Uint32(b[8:])
		desc := roundUp(12+nameLen, align)
		end := desc + descLen
		if end > uint64(len(b)) {
			return ""
		}
		if kind == ntGNUBuildID && string(b[12:12+nameLen]) == "GNU\x00" && descLen > 0 && descLen <= maxBuildID {
			return hex.EncodeToString(b[desc:end])
		}
		b = b[min(roundUp(end, align), uint64(len(b))):]
	}
	return ""
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }
