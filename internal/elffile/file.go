package elffile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrFormat means that a file is not a supported ELF file.
var ErrFormat = errors.New("not a 64-bit little-endian ELF file")

// Limits of a file. Real libraries stay a hundred times below.
const (
	maxSegments = 256
	maxSections = 1 << 14
	maxNames    = 1 << 20   // bytes of all names of sections
	maxName     = 256       // bytes of the name of a section or version
	maxTable    = 64 << 20  // bytes of one table of symbols, strings, versions or dynamic entries
	maxSymbols  = 256 << 20 // bytes of all symbol tables and their names: a library has two
)

// The supported machines.
const (
	X86   = 62  // EM_X86_64
	ARM64 = 183 // EM_AARCH64
)

// Constants of the ELF specification and its GNU extensions (elf.h).
const (
	headerSize  = 64
	segmentSize = 56
	sectionSize = 64

	ptLoad       = 1
	ptNote       = 4
	ptGNUEHFrame = 0x6474e550
	pfExec       = 1

	shtProgbits = 1
	shtStrtab   = 3
	shtDynamic  = 6
	shtNote     = 7
	shtNobits   = 8
	shtGNUFirst = 0x6ffffff5 // .. shtVersym: hashes, versions
	shtVerdef   = 0x6ffffffd
	shtVersym   = 0x6fffffff

	shfWrite      = 1 << 0
	shfAlloc      = 1 << 1
	shfExec       = 1 << 2
	shfCompressed = 1 << 11
)

var le = binary.LittleEndian

// File is an ELF file. Its methods read from the reader that was opened.
type File struct {
	Machine  int   // X86, ARM64, or another one
	Loads    Loads // loaded segments, by address
	Sections []Section
	Unwind   Segment // .eh_frame_hdr, as the run-time linker finds it; zero if there is none
	notes    []Segment
	r        io.ReaderAt
}

// Open reads the headers of a file. It refuses files whose tables are larger than those of any real
// library.
func Open(r io.ReaderAt) (*File, error) {
	f, err := OpenDebug(r)
	if err == nil {
		err = f.checkTables()
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenDebug opens a file as Open does, but with tables of any size: the symbols of a separate debug
// file may have gigabytes. Its caller reads them in pieces.
func OpenDebug(r io.ReaderAt) (*File, error) {
	var h [headerSize]byte
	if err := readAt(r, h[:], 0); err != nil {
		return nil, err
	}
	if string(h[:4]) != "\x7fELF" || h[4] != 2 || h[5] != 1 {
		return nil, ErrFormat
	}
	f := &File{Machine: int(le.Uint16(h[18:])), r: r}
	b, err := headers(r, "program", le.Uint64(h[32:]), h[54:], segmentSize, maxSegments)
	if err != nil {
		return nil, err
	}
	f.addSegments(b)
	off := le.Uint64(h[40:])
	if off == 0 {
		return f, nil
	}
	if b, err = headers(r, "section", off, h[58:], sectionSize, maxSections); err != nil {
		return nil, err
	}
	if len(b) == 0 { // the first entry has the count, above 65279
		return nil, fmt.Errorf("%w: too many sections", ErrFormat)
	}
	f.addSections(b, int(le.Uint16(h[62:])))
	return f, nil
}

// headers reads a table of headers. The ELF header has the size and the number of the entries.
func headers(r io.ReaderAt, kind string, off uint64, h []byte, size, most int) ([]byte, error) {
	got, n := int(le.Uint16(h)), int(le.Uint16(h[2:]))
	if n > most || n > 0 && got != size {
		return nil, fmt.Errorf("%w: %d %s headers of %d bytes", ErrFormat, n, kind, got)
	}
	b := make([]byte, n*size)
	if n == 0 {
		return nil, nil
	}
	if err := readAt(r, b, off); err != nil {
		return nil, fmt.Errorf("read %s headers: %w", kind, err)
	}
	return b, nil
}

// addSections parses the section headers. names is the index of the table of their names.
func (f *File) addSections(b []byte, names int) {
	f.Sections = make([]Section, len(b)/sectionSize)
	whole, last := true, uint64(0)
	for i := range f.Sections {
		h := b[i*sectionSize:]
		s := &f.Sections[i]
		*s = Section{kind: le.Uint32(h[4:]), flags: le.Uint64(h[8:]), Addr: le.Uint64(h[16:]), link: int(le.Uint32(h[40:]))}
		s.Off, s.claimed = le.Uint64(h[24:]), le.Uint64(h[32:])
		if s.kind != shtNobits && s.claimed > 0 {
			s.R, s.Size = f.r, s.claimed
			whole = whole && s.Off <= 1<<62 && s.Size <= 1<<62
			last = max(last, s.Off+s.Size)
		}
	}
	whole = whole && within(f.r, 0, last)
	for i := range f.Sections {
		if s := &f.Sections[i]; !whole && !within(f.r, s.Off, s.Size) {
			s.Data = Data{}
		}
	}
	if names >= len(f.Sections) {
		return
	}
	text, err := f.Sections[names].All(maxNames)
	if err != nil {
		return
	}
	for i := range f.Sections {
		f.Sections[i].Name = string(name(text, le.Uint32(b[i*sectionSize:]), maxName))
	}
}

// checkTables refuses tables that are too large.
func (f *File) checkTables() error {
	symbols := uint64(0)
	for i := range f.Sections {
		s := &f.Sections[i]
		names, table := uint64(0), s.kind == Symtab || s.kind == Dynsym
		switch {
		case s.kind == shtStrtab, s.kind == shtNote:
		case table, s.kind == shtDynamic, s.kind >= shtGNUFirst && s.kind <= shtVersym:
			names = f.names(s).claimed
		default:
			continue
		}
		if s.claimed > maxTable || names > maxTable {
			return fmt.Errorf("%w: section %d has %d bytes, with names of %d", ErrFormat, i, s.claimed, names)
		}
		if table {
			symbols += s.claimed + names
		}
	}
	if symbols > maxSymbols {
		return fmt.Errorf("%w: its tables of symbols have %d bytes", ErrFormat, symbols)
	}
	return nil
}

// Section returns the first section with a name, the zero Section if there is none.
func (f *File) Section(name string) Section {
	return f.first(func(s *Section) bool { return s.Name == name })
}

// SectionAt returns the section that is loaded at an address, the zero Section if there is none.
func (f *File) SectionAt(addr uint64) Section {
	return f.first(func(s *Section) bool { return s.flags&shfAlloc != 0 && s.Contains(addr) })
}

func (f *File) ofKind(kind uint32) Section {
	return f.first(func(s *Section) bool { return s.kind == kind && s.Size > 0 })
}

func (f *File) first(is func(*Section) bool) Section {
	for i := range f.Sections {
		if is(&f.Sections[i]) {
			return f.Sections[i]
		}
	}
	return Section{}
}

// names returns the section with the names of another one's entries.
func (f *File) names(s *Section) Section {
	if s.link >= len(f.Sections) {
		return Section{}
	}
	return f.Sections[s.link]
}
