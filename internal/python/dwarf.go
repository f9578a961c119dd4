package python

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"ingero/internal/elffile"
)

// maxDebug bounds the debug information that is read, in bytes: libpython's has 20 MB.
const maxDebug = 256 << 20

var errNoDebug = fmt.Errorf("%w: no debugging information for CPython", errNoSource)

// structures maps the names of structures, which vary by version, to short names.
var structures = map[string]string{
	"pyruntimestate": "runtime", "_PyRuntimeState": "runtime",
	"_is": "interp", "_ts": "thread", "_PyCFrame": "cframe", "_cframe": "cframe",
	"_frame": "object", "_PyInterpreterFrame": "frame", "PyCodeObject": "code",
	"PyASCIIObject": "ascii", "PyCompactUnicodeObject": "compact",
}

// dwarfOffsets reads the offsets from debug information, for builds that differ from the defaults
// of their version. The offsets are checked like those of all other sources.
func dwarfOffsets(r io.ReaderAt) (o offsets, err error) {
	defer func() {
		if p := recover(); p != nil { // a hostile file
			o, err = offsets{}, fmt.Errorf("%w: %v", errNoDebug, p)
		}
	}()
	f, err := elffile.Open(r)
	if err != nil {
		return o, fmt.Errorf("%w: %w", errNoDebug, err)
	}
	d, err := debugInfo(f)
	if err != nil {
		return o, fmt.Errorf("%w: %w", errNoDebug, err)
	}
	found, err := findStructures(d)
	if err != nil {
		return o, err
	}
	return found.offsets()
}

// debugInfo reads the sections of debug information.
func debugInfo(f *elffile.File) (*dwarf.Data, error) {
	sections := map[string][]byte{}
	room := uint64(maxDebug)
	for i := range f.Sections {
		s := &f.Sections[i]
		name, ok := strings.CutPrefix(strings.Replace(s.Name, ".z", ".", 1), ".debug_")
		if !ok || s.Size == 0 {
			continue
		}
		b, err := s.Contents(room)
		if err != nil {
			return nil, err
		}
		sections[name] = b
		room -= uint64(len(b))
	}
	d, err := dwarf.New(sections["abbrev"], nil, nil, sections["info"], sections["line"], nil, sections["ranges"], sections["str"])
	if err != nil {
		return nil, err
	}
	if b := sections["types"]; b != nil {
		err = d.AddTypes("types", b)
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		err = errors.Join(err, d.AddSection(".debug_"+name, sections[name]))
	}
	return d, err
}

// described maps short names to structures.
type described map[string]*dwarf.StructType

// findStructures reads the outermost entries until it has found all structures.
func findStructures(d *dwarf.Data) (described, error) {
	out := described{}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoDebug, err)
		}
		if e == nil || out.complete() {
			return out, nil
		}
		if e.Tag == dwarf.TagCompileUnit {
			continue
		}
		r.SkipChildren()
		name, _ := e.Val(dwarf.AttrName).(string)
		short := structures[name]
		if short == "" || out[short] != nil || e.Tag != dwarf.TagStructType && e.Tag != dwarf.TagTypedef {
			continue
		}
		t, err := d.Type(e.Offset)
		if err != nil {
			continue
		}
		if s, ok := t.(*dwarf.StructType); ok && !s.Incomplete {
			out[short] = s
		}
		if alias, ok := t.(*dwarf.TypedefType); ok {
			if s, ok := alias.Type.(*dwarf.StructType); ok && !s.Incomplete {
				out[short] = s
			}
		}
	}
}

// complete reports whether d has all structures that a version has.
func (d described) complete() bool {
	for _, name := range []string{"runtime", "interp", "thread", "code", "ascii", "compact"} {
		if d[name] == nil {
			return false
		}
	}
	if d.objects() {
		return d["object"] != nil
	}
	return d["frame"] != nil && (!d.cframes() || d["cframe"] != nil)
}

// objects reports whether frames are objects: up to 3.10.
func (d described) objects() bool {
	_, ok := d.offset("thread", "frame")
	return ok
}

// cframes reports whether thread states reach their frame through a cframe: 3.11, 3.12.
func (d described) cframes() bool {
	_, ok := d.offset("thread", "cframe")
	return ok && !d.objects()
}

// offset returns the offset of a member, adding up the offsets of nested structures.
func (d described) offset(name string, members ...string) (uint16, bool) {
	s := d[name]
	sum := int64(0)
	for i, m := range members {
		if s == nil {
			return 0, false
		}
		var field *dwarf.StructField
		for _, f := range s.Field {
			if f.Name == m {
				field = f
			}
		}
		if field == nil {
			return 0, false
		}
		sum += field.ByteOffset
		if i < len(members)-1 {
			s, _ = plain(field.Type).(*dwarf.StructType)
		}
	}
	return uint16(sum), sum >= 0 && sum <= math.MaxUint16
}

// plain strips typedefs and qualifiers off a type.
func plain(t dwarf.Type) dwarf.Type {
	for {
		alias, ok := t.(*dwarf.TypedefType)
		if !ok {
			return t
		}
		t = alias.Type
	}
}

// first returns the offset of the first path that exists.
func (d described) first(name string, paths ...string) (uint16, bool) {
	for _, p := range paths {
		if off, ok := d.offset(name, strings.Split(p, ".")...); ok {
			return off, true
		}
	}
	return 0, false
}

// offsets assembles the offsets from the structures.
func (d described) offsets() (offsets, error) {
	var o offsets
	l := &o.Layout
	missing := ""
	take := func(to *uint16, name string, paths ...string) {
		off, ok := d.first(name, paths...)
		if !ok {
			missing += " " + name + "." + paths[0]
		}
		*to = off
	}
	take(&l.InterpHead, "runtime", "interpreters.head")
	take(&l.InterpNext, "interp", "next")
	take(&l.InterpThreads, "interp", "threads.head", "tstate_head")
	take(&l.TsID, "thread", "thread_id")
	take(&l.TsFrame, "thread", "current_frame", "frame", "cframe")
	take(&l.CoFirst, "code", "co_firstlineno")
	take(&l.CoFile, "code", "co_filename")
	take(&l.CoName, "code", "co_name")
	take(&l.CoQualname, "code", "co_qualname", "co_name")
	take(&l.CoLines, "code", "co_linetable")
	take(&l.CoCode, "code", "co_code_adaptive", "co_code")
	l.CoVersion, _ = d.first("code", "co_version")
	o.tsNative, _ = d.first("thread", "native_thread_id")
	if d.cframes() {
		l.Flags |= flagCFrame
		take(&l.CframeFrame, "cframe", "current_frame")
	}
	d.frame(l, take)
	l.TsBytes = max(l.TsID, l.TsFrame, tsInterp) + 8
	l.FBytes = (max(l.FOwner, l.FInstr) + 8) &^ 7
	d.gil(&o)
	for name, to := range map[string]*uint16{"ascii": &l.StrASCII, "compact": &l.StrCompact} {
		if s := d[name]; s != nil {
			*to = uint16(min(s.ByteSize, math.MaxUint16))
		}
	}
	if missing != "" || l.StrASCII == 0 || l.StrCompact == 0 {
		return offsets{}, fmt.Errorf("%w:%s", errNoDebug, missing)
	}
	return o, nil
}

// gil finds the offset of the GIL.
func (d described) gil(o *offsets) {
	if off, ok := d.first("runtime", "ceval.gil"); ok {
		o.gil, o.gilLocation = off, gilInRuntime
	} else if off, ok := d.first("interp", "ceval.gil"); ok {
		o.gil, o.gilLocation = off, gilByPointer
	}
}

// frame sets the offsets of frames: objects up to 3.10, separate structures later.
func (d described) frame(l *Layout, take func(to *uint16, name string, paths ...string)) {
	if d.objects() {
		l.Flags |= flagLasti
		take(&l.FCode, "object", "f_code")
		take(&l.FPrev, "object", "f_back")
		take(&l.FInstr, "object", "f_lasti")
		l.CoBytes = max(l.CoLines, l.CoName, l.CoFile, l.CoFirst)
	} else {
		take(&l.FCode, "frame", "f_executable", "f_code")
		take(&l.FPrev, "frame", "previous")
		take(&l.FInstr, "frame", "instr_ptr", "prev_instr")
		take(&l.FOwner, "frame", "owner")
		if _, ok := d.offset("frame", "is_entry"); ok {
			l.Flags |= flagEntry
		}
		l.CoBytes = l.CoCode - 8
	}
}
