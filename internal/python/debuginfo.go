package python

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ingero/internal/elffile"
)

// Bounds on the debug information that is read. libpython's has 20 MB, less than half of which is in
// these sections.
const (
	maxDebug  = 64 << 20 // bytes of all sections
	maxUnits  = 1 << 14
	maxValues = 64      // attributes of an entry
	maxString = 1 << 16 // bytes of a name
	maxNested = 1 << 10
	maxWork   = 1 << 26 // attributes of all entries that are read, and bytes of their names
)

// debugSections are the sections that describe structures.
var debugSections = []string{"abbrev", "info", "str", "addr", "line_str", "str_offsets", "rnglists"}

var errDebugBounds = errors.New("debugging information out of bounds")

// debugInfo reads the sections of debug information.
func debugInfo(f *elffile.File) (*dwarf.Data, error) {
	sections := map[string][]byte{}
	room := uint64(maxDebug)
	for i := range f.Sections {
		s := &f.Sections[i]
		name, ok := strings.CutPrefix(strings.Replace(s.Name, ".z", ".", 1), ".debug_")
		if !ok || s.Size == 0 || !slices.Contains(debugSections, name) {
			continue
		}
		b, err := s.Contents(room)
		if err != nil {
			return nil, err
		}
		sections[name] = b
		room -= uint64(len(b))
	}
	return parseDebug(sections)
}

// parseDebug parses the sections of debug information.
func parseDebug(sections map[string][]byte) (*dwarf.Data, error) {
	if err := checkDebug(sections); err != nil {
		return nil, err
	}
	d, err := dwarf.New(sections["abbrev"], nil, nil, sections["info"], nil, nil, nil, sections["str"])
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		err = errors.Join(err, d.AddSection(".debug_"+name, sections[name]))
	}
	return d, err
}

// checkDebug refuses sections for which [dwarf.New], or reading one entry, may take much more work
// than their size: tables of abbreviations that overlap, and huge names or entries.
func checkDebug(sections map[string][]byte) error {
	for _, name := range []string{"str", "line_str"} {
		for b := sections[name]; len(b) > 0; {
			n := bytes.IndexByte(b, 0)
			if n < 0 || n > maxString {
				return fmt.Errorf("%w: a name in .debug_%s", errDebugBounds, name)
			}
			b = b[n+1:]
		}
	}
	tables, err := abbreviations(sections["abbrev"])
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	for b, n := sections["info"], 0; len(b) > 0; n++ {
		if len(b) < 12 || n == maxUnits {
			return fmt.Errorf("%w: %d units, %d bytes", errDebugBounds, n, len(b))
		}
		size, version, at := uint64(le.Uint32(b)), le.Uint16(b[4:]), uint64(le.Uint32(b[6:]))
		if version == 5 {
			at = uint64(le.Uint32(b[8:]))
		}
		if version < 2 || version > 5 || size < 8 || size > uint64(len(b)-4) { // 64-bit DWARF too: no libpython has 4 GiB of it
			return fmt.Errorf("%w: a unit of version %d, %d bytes", errDebugBounds, version, size)
		}
		if _, ok := slices.BinarySearch(tables, at); !ok {
			return fmt.Errorf("%w: abbreviations at %#x", errDebugBounds, at)
		}
		b = b[4+size:]
	}
	return nil
}

// abbreviations returns the offsets of all tables of abbreviations, in order.
func abbreviations(b []byte) (tables []uint64, err error) {
	size := len(b)
	next := func() (v uint64) { // LEB128, as debug/dwarf reads it
		for shift := 0; len(b) > 0; shift += 7 {
			last := b[0]
			b = b[1:]
			if v |= uint64(last&0x7f) << shift; last < 0x80 {
				return v
			}
		}
		err = fmt.Errorf("%w: abbreviations without end", errDebugBounds)
		return 0
	}
	for len(b) > 0 && err == nil {
		tables = append(tables, uint64(size-len(b)))
		for uint32(next()) != 0 && err == nil {
			next()                 // tag
			b = b[min(1, len(b)):] // whether it has children
			for n := 0; err == nil; n++ {
				attr, form := next(), next()
				if attr == 0 && form == 0 {
					break
				}
				if form == formImplicitConst {
					next()
				}
				if n == maxValues {
					err = fmt.Errorf("%w: an entry of more than %d values", errDebugBounds, maxValues)
				}
			}
		}
	}
	return tables, err
}

const formImplicitConst = 0x21 // DW_FORM_implicit_const: its value is in the abbreviation
