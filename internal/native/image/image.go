package image

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"ingero/internal/elffile"
)

// Image is an ELF file with its symbols and debug information.
type Image struct {
	// BuildID is the build id in hexadecimal, empty if the file has none.
	BuildID string
	main    *object
	debugs  func(Debug, func(File) bool)
	debug   *object // the separate debug file
	ready   bool
	symbols symbols
	mini    int // bytes of .gnu_debugdata
	dwarf   *dwarf
	listed  bool
}

// Debug describes a separate debug file to find. Empty fields are unknown.
type Debug struct {
	BuildID string
	Name    string // from .gnu_debuglink, without a directory
	CRC     uint32 // checksum of the file with that name
	Path    string // path of dwz's common file
}

// Frame is a function at an address.
type Frame struct {
	Func string // linkage name: mangled
	File string // "" if unknown
	Line int32  // 0: unknown
}

// Place is what lies at an address.
type Place struct {
	Addr   uint64  // address in the file
	Start  uint64  // start of the function, 0: unknown
	Frames []Frame // innermost first: all but the last were inlined into the next one
}

// Open reads the headers of a file, and takes ownership of it. debugs offers candidates for a
// separate debug file until one is accepted, and the image takes ownership of them. debugs may be
// nil.
func Open(f File, debugs func(d Debug, offer func(File) bool)) (*Image, error) {
	o, err := openObject(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Image{BuildID: o.buildID, main: o, debugs: debugs}, nil
}

// Close closes all files. The image must not be used afterwards.
func (m *Image) Close() error {
	errs := []error{m.main.file.Close()}
	if m.debug != nil {
		errs = append(errs, m.debug.file.Close())
	}
	if m.dwarf != nil && m.dwarf.alt != nil {
		errs = append(errs, m.dwarf.alt.o.file.Close())
	}
	return errors.Join(errs...)
}

// Bytes returns the approximate memory held, in bytes.
func (m *Image) Bytes() int {
	return 4096 + 8*len(m.symbols.index) + m.mini + m.dwarf.bytes()
}

// Layout returns the file's loaded segments. It stays valid after Close.
func (m *Image) Layout() elffile.Loads { return m.main.Loads }

// Read reads the bytes at an address, and reports whether the file has all of them.
func (m *Image) Read(b []byte, addr uint64) bool {
	l, _ := m.main.Loads.At(addr)
	return elffile.Data{R: m.main.file, Off: l.Off, Size: l.Size}.Read(b, 0) == nil
}

// base is the address to which tables are relative.
func (m *Image) base() uint64 {
	if len(m.main.Loads) == 0 {
		return 0
	}
	return m.main.Loads[0].Addr
}

// prepare reads the symbol table and looks for debug information.
func (m *Image) prepare() {
	m.ready = true
	full, info := m.main, m.main
	if m.main.Symbols(elffile.Symtab).Len() == 0 || !m.main.hasInfo() {
		m.findDebug()
		if m.debug != nil {
			info = m.debug
			if full.Symbols(elffile.Symtab).Len() == 0 {
				full = m.debug
			}
		}
	}
	m.symbols.base, m.symbols.file = m.base(), m.main.File
	if t := full.Symbols(elffile.Symtab); t.Len() > 0 {
		m.symbols.addTable(0, t)
	} else {
		m.symbols.addTable(0, m.main.Symbols(elffile.Dynsym))
		m.addMini()
	}
	m.symbols.finish()
	if m.dwarf = newDwarf(info); m.dwarf != nil {
		m.dwarf.loads = m.main.Loads
		m.findAlt(info)
	}
}

// findDebug opens the separate debug file. It must have the same build id, unless there is none to
// compare.
func (m *Image) findDebug() {
	name, crc := m.main.DebugLink()
	if m.BuildID == "" && name == "" {
		return
	}
	m.debug = m.seek(Debug{BuildID: m.BuildID, Name: name, CRC: crc}, func(o *object) bool {
		return o.Symbols(elffile.Symtab).Len() > 0 || o.hasInfo()
	})
}

func (m *Image) findAlt(info *object) {
	path, id := info.DebugAltLink()
	if path == "" {
		return
	}
	o := m.seek(Debug{BuildID: id, Path: path}, (*object).hasInfo)
	if o == nil {
		return
	}
	if m.dwarf.alt = newDwarf(o); m.dwarf.alt != nil {
		m.dwarf.alt.list(0)
	} else {
		_ = o.file.Close()
	}
}

// seek returns the first acceptable file, nil if there is none.
func (m *Image) seek(d Debug, good func(*object) bool) (found *object) {
	if m.debugs == nil {
		return nil
	}
	m.debugs(d, func(f File) bool {
		o, err := openObject(f)
		if err != nil || o.buildID != d.BuildID || !good(o) {
			_ = f.Close()
			return false
		}
		found = o
		return true
	})
	return found
}

// addMini adds the symbols of .gnu_debugdata: a compressed ELF file.
func (m *Image) addMini() {
	b, err := m.main.Section(".gnu_debugdata").All(maxMini)
	if err != nil {
		return
	}
	if b, err = unxz(b, int(min(maxMini, elffile.MaxUnpacked(uint64(len(b)))))); err != nil {
		return
	}
	if f, err := elffile.OpenDebug(bytes.NewReader(b)); err == nil && f.Symbols(elffile.Symtab).Len() > 0 {
		m.mini = len(b)
		m.symbols.addTable(1, f.Symbols(elffile.Symtab))
	}
}

// Find returns what lies at addresses of the file.
func (m *Image) Find(addrs []uint64) []Place {
	if !m.ready {
		m.prepare()
	}
	out := make([]Place, len(addrs))
	for i, addr := range addrs {
		out[i].Addr = addr
		if s, ok := m.symbols.find(addr); ok {
			out[i].Start, out[i].Frames = s.Value(), []Frame{{Func: s.name}}
		}
	}
	if m.dwarf != nil {
		m.explain(out)
	}
	return out
}

// explain adds the debug information of places.
func (m *Image) explain(out []Place) {
	d := m.dwarf
	d.refill(len(out))
	if !m.listed {
		m.listed = true
		d.list(m.base())
	}
	byUnit := map[int][]*Place{}
	for i := range out {
		if rel := out[i].Addr - m.base(); rel <= 1<<32-1 {
			if n := d.unitAt(uint32(rel)); n >= 0 {
				byUnit[n] = append(byUnit[n], &out[i])
			}
		}
	}
	for n, places := range byUnit {
		if u := d.unit(n); u != nil {
			u.fill(places, &m.symbols)
		}
	}
	if d.spent() { // over budget
		d.units, d.spans, d.open, d.openBytes = nil, nil, map[int]*loaded{}, 0
	}
}

// fill adds a unit's debug information to places.
func (u *loaded) fill(places []*Place, syms *symbols) {
	if !u.listed {
		u.list(syms.base)
	}
	slices.SortFunc(places, func(a, b *Place) int { return cmp.Compare(a.Addr, b.Addr) })
	addrs := make([]uint64, len(places))
	for i, p := range places {
		addrs[i] = p.Addr
	}
	l := u.lines()
	at := make([]place, len(places))
	if l != nil {
		at = l.find(addrs)
	}
	for i, p := range places {
		u.frames(p, syms, l, at[i])
	}
}

// frames makes the frames of a place. The place's line is in the innermost function; each outer
// function has the line of the inlined call.
func (u *loaded) frames(p *Place, syms *symbols, l *lines, at place) {
	outer := Frame{}
	if len(p.Frames) > 0 {
		outer = p.Frames[0]
	}
	var chain []die
	if off, ok := u.function(uint32(p.Addr - syms.base)); ok {
		chain = u.chain(off, p.Addr)
	}
	p.Frames = p.Frames[:0]
	for i := len(chain) - 1; i >= 1; i-- {
		f := Frame{Func: u.nameOf(&chain[i])}
		f.place(l, at)
		p.Frames = append(p.Frames, f)
		at = place{chain[i].callFile, chain[i].callLine}
	}
	if len(chain) > 0 {
		u.outer(p, &outer, &chain[0], syms)
	}
	outer.place(l, at)
	if outer.Func != "" || outer.Line != 0 || len(p.Frames) > 0 {
		p.Frames = append(p.Frames, outer)
	}
}

// outer names the outermost function. If the linker merged several functions, the debug information
// decides which one it is, unless it has only the author's internal name.
func (u *loaded) outer(p *Place, f *Frame, x *die, syms *symbols) {
	name := u.nameOf(x)
	switch {
	case f.Func == "":
		f.Func = name
		if lo, ok := u.address(x.low); ok {
			p.Start = lo
		}
	case name != f.Func && underscores(name) <= underscores(f.Func) && syms.has(p.Start, name):
		f.Func = name
	}
}

func (f *Frame) place(l *lines, at place) {
	if l == nil || at.line == 0 || at.line > 1<<31-1 {
		return
	}
	f.File = l.path(at.file)
	if f.File != "" {
		f.Line = int32(at.line)
	}
}
