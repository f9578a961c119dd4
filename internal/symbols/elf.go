package symbols

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of an ELF file. Memory use does not depend on the file's contents: its tables are read
// through a buffer.
const (
	maxSegments = 256
	maxSections = 1 << 14
	maxSymtab   = 256 << 20 // bytes: ten million symbols
	// MaxName bounds the name of a function, in bytes.
	MaxName = 16 << 10

	headerSize  = 64
	segmentSize = 56
	sectionSize = 64
	symbolSize  = 24
)

// Constants of the ELF specification.
const (
	ptLoad    = 1
	shtSymtab = 2
	shtDynsym = 11
	sttFunc   = 2
	stbLocal  = 0
)

var errELF = errors.New("not an ELF file with readable symbols")

// Find returns the names of the functions that begin at offsets of an ELF file, "" for none. The
// host function of a kernel has the kernel's own name or a compiler's stub name; the result is the
// kernel's name. The file may be hostile.
func Find(r io.ReaderAt, offsets []uint64) ([]string, error) {
	f := elfFile{r: r}
	if err := f.open(); err != nil {
		return nil, err
	}
	wanted := make(map[uint64]*found, len(offsets))
	for _, off := range offsets {
		if addr, ok := f.address(off); ok && wanted[addr] == nil {
			wanted[addr] = &found{}
		}
	}
	for i := range f.tables {
		if err := f.search(&f.tables[i], wanted); err != nil {
			return nil, err
		}
	}
	out := make([]string, len(offsets))
	for i, off := range offsets {
		if addr, ok := f.address(off); ok {
			out[i] = kernelOf(wanted[addr].name)
		}
	}
	return out, nil
}

// found is the best name of an address so far.
type found struct {
	name  string
	local bool
}

// better reports whether another name is preferred: global symbols before local ones, then the
// first, so that the result is deterministic.
func (f *found) better(name string, local bool) bool {
	switch {
	case name == "":
		return false
	case f.name == "":
		return true
	case f.local != local:
		return f.local
	}
	return name < f.name
}

type elfFile struct {
	r      io.ReaderAt
	loads  []load
	tables []symtab
}

// load is a loaded segment of the file.
type load struct{ off, addr, size uint64 }

// symtab is a symbol table and its string table.
type symtab struct{ off, size, names, namesSize uint64 }

func (f *elfFile) open() error {
	var h [headerSize]byte
	if err := f.read(h[:], 0); err != nil {
		return err
	}
	if string(h[:4]) != "\x7fELF" || h[4] != 2 || h[5] != 1 {
		return errELF
	}
	le := binary.LittleEndian
	n, size := int(le.Uint16(h[56:])), le.Uint16(h[54:])
	if n > maxSegments || n > 0 && size != segmentSize {
		return fmt.Errorf("%w: %d segments of %d bytes", errELF, n, size)
	}
	b := make([]byte, n*segmentSize)
	if err := f.read(b, le.Uint64(h[32:])); err != nil {
		return err
	}
	for ; len(b) > 0; b = b[segmentSize:] {
		if le.Uint32(b) == ptLoad {
			f.loads = append(f.loads, load{le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[32:])})
		}
	}
	return f.sections(le.Uint64(h[40:]), int(le.Uint16(h[60:])), le.Uint16(h[58:]))
}

// sections finds the symbol tables.
func (f *elfFile) sections(off uint64, n int, size uint16) error {
	if off == 0 || n == 0 {
		return nil
	}
	if n > maxSections || size != sectionSize {
		return fmt.Errorf("%w: %d sections of %d bytes", errELF, n, size)
	}
	b := make([]byte, n*sectionSize)
	if err := f.read(b, off); err != nil {
		return err
	}
	le := binary.LittleEndian
	for i := range n {
		s := b[i*sectionSize:]
		kind, names := le.Uint32(s[4:]), int(le.Uint32(s[40:]))
		if kind != shtSymtab && kind != shtDynsym || names >= n || names < 0 {
			continue
		}
		str := b[names*sectionSize:]
		t := symtab{le.Uint64(s[24:]), le.Uint64(s[32:]), le.Uint64(str[24:]), le.Uint64(str[32:])}
		if t.size > maxSymtab {
			return fmt.Errorf("%w: %d bytes of symbols", errELF, t.size)
		}
		f.tables = append(f.tables, t)
		if len(f.tables) == 4 { // there are two at most
			break
		}
	}
	return nil
}

// address returns the virtual address of a file offset, as symbols have it.
func (f *elfFile) address(off uint64) (uint64, bool) {
	for _, l := range f.loads {
		if off >= l.off && off-l.off < l.size {
			return off - l.off + l.addr, true
		}
	}
	return 0, false
}

// search looks for symbols at the wanted addresses.
func (f *elfFile) search(t *symtab, wanted map[uint64]*found) error {
	buf := make([]byte, min(t.size, 2048*symbolSize))
	for at := uint64(0); at < t.size; at += uint64(len(buf)) {
		b := buf[:min(uint64(len(buf)), t.size-at)]
		if err := f.read(b, t.off+at); err != nil {
			return err
		}
		for ; len(b) >= symbolSize; b = b[symbolSize:] {
			if b[4]&15 != sttFunc {
				continue
			}
			w := wanted[binary.LittleEndian.Uint64(b[8:])]
			if w == nil {
				continue
			}
			name, local := f.name(t, binary.LittleEndian.Uint32(b)), b[4]>>4 == stbLocal
			if w.better(name, local) {
				w.name, w.local = name, local
			}
		}
	}
	return nil
}

// name returns a symbol's name, "" if it has no readable one.
func (f *elfFile) name(t *symtab, at uint32) string {
	if uint64(at) >= t.namesSize {
		return ""
	}
	buf := make([]byte, 256)
	for {
		n := min(uint64(len(buf)), t.namesSize-uint64(at))
		if f.read(buf[:n], t.names+uint64(at)) != nil {
			return ""
		}
		if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
			return Printable(buf[:end])
		}
		if n < uint64(len(buf)) || len(buf) >= MaxName {
			return ""
		}
		buf = make([]byte, min(4*len(buf), MaxName))
	}
}

func (f *elfFile) read(b []byte, off uint64) error {
	if off > 1<<62 {
		return fmt.Errorf("%w: offset %#x", errELF, off)
	}
	if _, err := f.r.ReadAt(b, int64(off)); err != nil {
		return fmt.Errorf("%w: %w", errELF, err)
	}
	return nil
}

// Printable returns b as a string if it can be a function's name: ASCII without spaces. Otherwise
// it returns "".
func Printable(b []byte) string {
	for _, ch := range b {
		if ch <= ' ' || ch >= 0x7f {
			return ""
		}
	}
	return string(b)
}

// stub is the prefix that makes a kernel's name its host function's: nvcc adds it to the mangled
// name, clang before mangling.
const stub = "__device_stub__"

// kernelOf returns the kernel's name for the name of a host function.
func kernelOf(name string) string {
	if rest, ok := strings.CutPrefix(name, stub); ok {
		if strings.HasPrefix(rest, "Z") { // shares the underscore of _Z
			return "_" + rest
		}
		return rest
	}
	at := strings.Index(name, stub)
	if at < 0 || !strings.HasPrefix(name, "_Z") {
		return name
	}
	// The digits before the stub are its length. The first of them may belong to the enclosing
	// name.
	for digits := at - 2; digits >= max(at-5, 0); digits-- {
		n, err := strconv.Atoi(name[digits:at])
		if err != nil {
			break
		}
		if n <= len(stub) || n > len(name)-at {
			continue
		}
		kernel := fmt.Sprintf("%s%d%s", name[:digits], n-len(stub), name[at+len(stub):])
		if Demangle(kernel) != kernel {
			return kernel
		}
	}
	return name
}
