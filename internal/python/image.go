package python

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ingero/internal/proc"
)

// wanted has the symbols to look for.
var wanted = map[string]bool{
	"_PyRuntime": true, "Py_Version": true,
	"_thread_db_sizeof_pthread": true, "_thread_db_pthread_tid": true, // of the C library, for debuggers
}

const (
	maxWanted   = 32 // bytes of a name, with its terminator
	symbolSize  = 24 // Elf64_Sym
	symbolChunk = 4096 * symbolSize
)

// image has the wanted symbols of an ELF file.
type image struct {
	symbols map[string]uint64
	loads   []elf.ProgHeader
	runtime uint64 // address of section .PyRuntime, 0: none; 3.13 on
}

// readImage reads an ELF file, which may be hostile. The caller has checked the size of its tables
// (proc.FS.OpenMapped).
func readImage(r io.ReaderAt) (im *image, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf panics on some hostile files
			im, err = nil, fmt.Errorf("%w: %v", ErrNotPython, p)
		}
	}()
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPython, err)
	}
	im = &image{symbols: map[string]uint64{}}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			im.loads = append(im.loads, p.ProgHeader)
		}
	}
	for _, kind := range []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB} {
		for _, s := range f.Sections {
			if s.Name == ".PyRuntime" {
				im.runtime = s.Addr
			}
			if s.Type != kind || int(s.Link) >= len(f.Sections) || im.symbols["_PyRuntime"] != 0 {
				continue
			}
			if err := im.search(s, f.Sections[s.Link]); err != nil {
				return nil, err
			}
		}
	}
	return im, nil
}

// search collects the wanted symbols of a symbol table.
func (im *image) search(table, names *elf.Section) error {
	if table.Type == elf.SHT_NOBITS || table.Flags&elf.SHF_COMPRESSED != 0 || names.Flags&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	le := binary.LittleEndian
	buf := make([]byte, min(symbolChunk, table.FileSize))
	for at := uint64(0); at < table.FileSize; at += symbolChunk {
		n, err := table.ReaderAt.ReadAt(buf[:min(uint64(len(buf)), table.FileSize-at)], int64(at))
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read symbols: %w", err)
		}
		if n == 0 {
			return nil // the file is shorter than its headers claim
		}
		for b := buf[:n]; len(b) >= symbolSize; b = b[symbolSize:] {
			if elf.ST_TYPE(b[4]) != elf.STT_OBJECT || le.Uint16(b[6:]) == uint16(elf.SHN_UNDEF) {
				continue
			}
			var name [maxWanted]byte
			n, _ := names.ReaderAt.ReadAt(name[:], int64(le.Uint32(b)))
			if s := cstring(name[:n]); wanted[s] {
				im.symbols[s] = le.Uint64(b[8:])
			}
		}
	}
	return nil
}

func cstring(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return ""
}

// address returns the address of a symbol in the file.
func (im *image) address(name string) (uint64, bool) {
	at, ok := im.symbols[name]
	if !ok && name == "_PyRuntime" && im.runtime != 0 {
		return im.runtime, true
	}
	return at, ok
}

const pageMask = 4095

// base returns the load bias of the file in a process: what to add to the file's addresses. Only a
// mapping with code counts, since the file may also be mapped as data.
func (im *image) base(mapped []proc.Mapping, key proc.Key) (uint64, bool) {
	for _, m := range mapped {
		if m.Key != key || !m.Exec {
			continue
		}
		for _, l := range im.loads {
			first := l.Off &^ pageMask
			if l.Flags&elf.PF_X != 0 && m.Offset >= first && m.Offset < l.Off+l.Filesz {
				return m.Start - (m.Offset - first) - l.Vaddr&^pageMask, true
			}
		}
	}
	return 0, false
}
