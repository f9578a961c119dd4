package symbols

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"ingero/internal/elffile"
)

// MaxName bounds the name of a function, in bytes.
const MaxName = elffile.MaxName

// Find returns the names of the functions that begin at offsets of an ELF file, "" for none. The
// host function of a kernel has the kernel's own name or a compiler's stub name; the result is the
// kernel's name. The file may be hostile.
func Find(r io.ReaderAt, offsets []uint64) ([]string, error) {
	f, err := elffile.Open(r)
	if err != nil {
		return nil, err
	}
	wanted := make(map[uint64]*found, len(offsets))
	for _, off := range offsets {
		if addr, ok := f.Loads.Address(off); ok && wanted[addr] == nil {
			wanted[addr] = &found{}
		}
	}
	for _, kind := range []uint32{elffile.Symtab, elffile.Dynsym} {
		if err := search(f.Symbols(kind), wanted); err != nil {
			return nil, err
		}
	}
	out := make([]string, len(offsets))
	for i, off := range offsets {
		if addr, ok := f.Loads.Address(off); ok {
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

// search looks for functions at the wanted addresses.
func search(t elffile.SymbolTable, wanted map[uint64]*found) error {
	return t.Each(func(_ uint64, s *elffile.Symbol) error {
		if s.Kind() != elffile.Func {
			return nil
		}
		w := wanted[s.Value()]
		if w == nil {
			return nil
		}
		if name := Printable([]byte(t.Names.Text(uint64(s.NameAt())))); w.better(name, s.Local()) {
			w.name, w.local = name, s.Local()
		}
		return nil
	})
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
