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

// described has the structures that were found, by short name.
type described struct {
	data  *dwarf.Data
	left  int // work that may still be done: see maxWork
	nulls int // ends of lists of children since the last entry
	found map[string]structure
}

// structure is a structure of the debug information.
type structure struct {
	size    int64
	members map[string]member
}

// member is a member of a structure: its offset, and the entry of its type.
type member struct {
	offset int64
	kind   dwarf.Offset
}

// findStructures reads the outermost entries until it has found all structures.
func findStructures(data *dwarf.Data) (*described, error) {
	d := &described{data: data, left: maxWork, found: map[string]structure{}}
	for r := data.Reader(); ; {
		e, err := d.next(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoDebug, err)
		}
		if e == nil || d.complete() {
			return d, nil
		}
		if e.Tag == dwarf.TagCompileUnit || e.Tag == dwarf.TagPartialUnit {
			continue
		}
		if err := d.skip(r, e); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoDebug, err)
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		short := structures[name]
		if _, ok := d.found[short]; ok || short == "" {
			continue
		}
		if s, err := d.structure(e.Offset); err == nil {
			d.found[short] = s
		}
	}
}

// next reads the next entry, nil at the end.
func (d *described) next(r *dwarf.Reader) (*dwarf.Entry, error) {
	if d.left <= 0 {
		return nil, errDebugBounds
	}
	d.left--
	e, err := r.Next()
	if e == nil || err != nil {
		return nil, err
	}
	if d.nulls++; e.Tag != 0 {
		d.nulls = 0
	}
	if d.nulls > maxNested { // of an invalid entry, debug/dwarf returns such ends forever
		return nil, errDebugBounds
	}
	d.left -= len(e.Field)
	for _, f := range e.Field {
		if s, ok := f.Val.(string); ok {
			d.left -= len(s)
		}
	}
	return e, nil
}

// skip moves the reader behind the children of an entry. [dwarf.Reader.SkipChildren] recurses.
func (d *described) skip(r *dwarf.Reader, e *dwarf.Entry) error {
	for depth := 0; ; {
		switch to, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset); {
		case e.Tag == 0:
			depth--
		case e.Children && ok && to > e.Offset:
			r.Seek(to)
		case e.Children:
			depth++
		}
		if depth <= 0 {
			return nil
		}
		var err error
		if e, err = d.next(r); err != nil || e == nil {
			return err
		}
	}
}

// maxAliases bounds the typedefs and qualifiers of a structure.
const maxAliases = 8

var errNoStructure = errors.New("not a structure")

// structure reads the structure at an entry, or of which the entry is a typedef.
func (d *described) structure(at dwarf.Offset) (structure, error) {
	r := d.data.Reader()
	for range maxAliases + 1 {
		r.Seek(at)
		e, err := d.next(r)
		if err != nil || e == nil {
			return structure{}, errors.Join(errNoStructure, err)
		}
		switch e.Tag {
		case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType:
			var ok bool
			if at, ok = e.Val(dwarf.AttrType).(dwarf.Offset); !ok {
				return structure{}, errNoStructure
			}
		case dwarf.TagStructType, dwarf.TagUnionType:
			return d.members(r, e)
		default:
			return structure{}, errNoStructure
		}
	}
	return structure{}, errNoStructure
}

// members reads the members of the structure that the reader has just read.
func (d *described) members(r *dwarf.Reader, e *dwarf.Entry) (structure, error) {
	if incomplete, _ := e.Val(dwarf.AttrDeclaration).(bool); incomplete {
		return structure{}, errNoStructure
	}
	s := structure{members: map[string]member{}}
	s.size, _ = e.Val(dwarf.AttrByteSize).(int64)
	for e.Children {
		m, err := d.next(r)
		if err != nil || m == nil {
			return structure{}, errors.Join(errNoStructure, err)
		}
		if m.Tag == 0 {
			break
		}
		if err := d.skip(r, m); err != nil {
			return structure{}, err
		}
		if name, ok := m.Val(dwarf.AttrName).(string); ok && m.Tag == dwarf.TagMember {
			var x member
			x.offset, _ = m.Val(dwarf.AttrDataMemberLoc).(int64) // a union's have none
			x.kind, _ = m.Val(dwarf.AttrType).(dwarf.Offset)
			s.members[name] = x
		}
	}
	return s, nil
}

// complete reports whether d has all structures that a version has.
func (d *described) complete() bool {
	for _, name := range []string{"runtime", "interp", "thread", "code", "ascii", "compact"} {
		if !d.has(name) {
			return false
		}
	}
	if d.objects() {
		return d.has("object")
	}
	return d.has("frame") && (!d.cframes() || d.has("cframe"))
}

func (d *described) has(name string) bool {
	_, ok := d.found[name]
	return ok
}

// objects reports whether frames are objects: up to 3.10.
func (d *described) objects() bool {
	_, ok := d.offset("thread", "frame")
	return ok
}

// cframes reports whether thread states reach their frame through a cframe: 3.11, 3.12.
func (d *described) cframes() bool {
	_, ok := d.offset("thread", "cframe")
	return ok && !d.objects()
}

// offset returns the offset of a member, adding up the offsets of nested structures.
func (d *described) offset(name string, members ...string) (uint16, bool) {
	s := d.found[name]
	sum := int64(0)
	for i, m := range members {
		field, ok := s.members[m]
		if !ok {
			return 0, false
		}
		sum += field.offset
		if i < len(members)-1 {
			var err error
			if s, err = d.structure(field.kind); err != nil {
				return 0, false
			}
		}
	}
	return uint16(sum), sum >= 0 && sum <= math.MaxUint16
}

// first returns the offset of the first path that exists.
func (d *described) first(name string, paths ...string) (uint16, bool) {
	for _, p := range paths {
		if off, ok := d.offset(name, strings.Split(p, ".")...); ok {
			return off, true
		}
	}
	return 0, false
}

// offsets assembles the offsets from the structures.
func (d *described) offsets() (offsets, error) {
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
		*to = uint16(min(max(d.found[name].size, 0), math.MaxUint16))
	}
	if missing != "" || l.StrASCII == 0 || l.StrCompact == 0 {
		return offsets{}, fmt.Errorf("%w:%s", errNoDebug, missing)
	}
	return o, nil
}

// gil finds the offset of the GIL.
func (d *described) gil(o *offsets) {
	if off, ok := d.first("runtime", "ceval.gil"); ok {
		o.gil, o.gilLocation = off, gilInRuntime
	} else if off, ok := d.first("interp", "ceval.gil"); ok {
		o.gil, o.gilLocation = off, gilByPointer
	}
}

// frame sets the offsets of frames: objects up to 3.10, separate structures later.
func (d *described) frame(l *Layout, take func(to *uint16, name string, paths ...string)) {
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
