package python

import (
	"bytes"
	"fmt"
	"io"

	"ingero/internal/elffile"
	"ingero/internal/proc"
)

// wanted has the symbols to look for.
var wanted = map[string]bool{
	"_PyRuntime": true, "Py_Version": true,
	"_thread_db_sizeof_pthread": true, "_thread_db_pthread_tid": true, // of the C library, for debuggers
}

const maxWanted = 32 // bytes of a name, with its terminator

// image has the wanted symbols of an ELF file.
type image struct {
	symbols map[string]uint64
	loads   elffile.Loads
	runtime uint64 // address of section .PyRuntime, 0: none; 3.13 on
}

// readImage reads an ELF file, which may be hostile.
func readImage(r io.ReaderAt) (*image, error) {
	f, err := elffile.Open(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPython, err)
	}
	im := &image{symbols: map[string]uint64{}, loads: f.Loads, runtime: f.Section(".PyRuntime").Addr}
	for _, kind := range []uint32{elffile.Dynsym, elffile.Symtab} {
		if im.symbols["_PyRuntime"] != 0 {
			break
		}
		if err := im.search(f.Symbols(kind)); err != nil {
			return nil, err
		}
	}
	return im, nil
}

// search collects the wanted symbols of a symbol table.
func (im *image) search(table elffile.SymbolTable) error {
	buf := make([]byte, maxWanted)
	return table.Each(func(_ uint64, s *elffile.Symbol) error {
		if s.Kind() != elffile.Object || !s.Defined() {
			return nil
		}
		b, err := table.Names.Some(buf, uint64(s.NameAt()), maxWanted)
		if err != nil {
			return nil
		}
		if name := cstring(b); wanted[name] {
			im.symbols[name] = s.Value()
		}
		return nil
	})
}

func cstring(b []byte) string {
	return string(b[:max(0, bytes.IndexByte(b, 0))])
}

// address returns the address of a symbol in the file.
func (im *image) address(name string) (uint64, bool) {
	at, ok := im.symbols[name]
	if !ok && name == "_PyRuntime" && im.runtime != 0 {
		return im.runtime, true
	}
	return at, ok
}

// base returns the load bias of the file in a process: what to add to the file's addresses. Only a
// mapping with code counts, since the file may also be mapped as data.
func (im *image) base(mapped []proc.Mapping, key proc.Key) (uint64, bool) {
	for _, m := range mapped {
		if m.Key != key || !m.Exec {
			continue
		}
		if bias, ok := im.loads.Bias(m.Start, m.Offset); ok {
			return bias, true
		}
	}
	return 0, false
}
