package image

import (
	"path"
	"strings"
)

// Limits of a line program.
const (
	maxProgram = 16 << 20 // bytes
	maxPaths   = 1 << 16  // directories, or files
)

// Opcodes (DWARF 5, 6.2.5).
const (
	lnsCopy          = 1
	lnsAdvancePC     = 2
	lnsAdvanceLine   = 3
	lnsSetFile       = 4
	lnsSetColumn     = 5
	lnsConstAddPC    = 8
	lnsFixedAdvance  = 9
	lnsSetISA        = 12
	lneEndSequence   = 1
	lneSetAddress    = 2
	lnctPath         = 1
	lnctDirectory    = 2
	lengthOfExtended = 0
)

// lines is the line program of a unit.
type lines struct {
	u       *loaded
	version int
	dirs    []string
	files   []sourceFile
	c       cursor // at the program
	minInst uint64
	lineMin int64
	lineRng uint64
	opBase  byte
	lengths [256]byte
}

type sourceFile struct {
	name string
	dir  uint64
}

// place is a source line.
type place struct {
	file uint64 // 0 in DWARF 4: unknown
	line uint64
}

// lines reads the header of the unit's line program, nil if it has none.
func (u *loaded) lines() *lines {
	s := u.d.sec[secLine]
	if !u.hasLine {
		return nil
	}
	var small [16]byte
	b, err := s.Some(small[:], u.line, 12)
	if err != nil {
		return nil
	}
	c := cursor{b: b}
	length := uint64(c.u32())
	wide := length == 1<<32-1
	if wide {
		length = c.u64()
	}
	if c.bad || length > maxProgram {
		return nil
	}
	if b, err = s.Some(nil, u.line+uint64(c.off), int(length)); err != nil || uint64(len(b)) < length {
		return nil
	}
	l := &lines{u: u, c: cursor{b: b}}
	if !l.header(wide) {
		return nil
	}
	return l
}

func (l *lines) header(wide bool) bool {
	c := &l.c
	l.version = int(c.u16())
	if l.version < 2 || l.version > 5 {
		return false
	}
	if l.version == 5 {
		c.skip(2) // sizes of addresses and selectors
	}
	length := c.word(wide)
	if length > uint64(len(c.b)-c.off) {
		return false
	}
	program := c.off + int(length)
	l.minInst = uint64(c.u8())
	if l.version >= 4 {
		c.skip(1) // operations per instruction: one on these machines
	}
	c.skip(1)
	l.lineMin, l.lineRng, l.opBase = int64(int8(c.u8())), uint64(c.u8()), c.u8()
	if l.lineRng == 0 || l.opBase == 0 {
		return false
	}
	for i := 1; i < int(l.opBase); i++ {
		l.lengths[i] = c.u8()
	}
	if l.version == 5 {
		l.paths5(wide)
	} else {
		l.paths()
	}
	c.off = program
	return !c.bad
}

// paths reads the tables of DWARF 4 and before, which lack entry 0.
func (l *lines) paths() {
	l.dirs, l.files = append(l.dirs, l.u.dir), append(l.files, sourceFile{})
	for len(l.dirs) < maxPaths {
		s := l.c.text()
		if len(s) == 0 {
			break
		}
		l.dirs = append(l.dirs, string(s))
	}
	for len(l.files) < maxPaths {
		s := l.c.text()
		if len(s) == 0 {
			break
		}
		l.files = append(l.files, sourceFile{string(s), l.c.uleb()})
		l.c.uleb()
		l.c.uleb()
	}
}

func (l *lines) paths5(wide bool) {
	u := *l.u
	u.header.wide = wide
	l.entries(&u, func(name string, _ uint64) { l.dirs = append(l.dirs, name) })
	l.entries(&u, func(name string, dir uint64) { l.files = append(l.files, sourceFile{name, dir}) })
}

// entries reads one table of DWARF 5.
func (l *lines) entries(u *loaded, add func(name string, dir uint64)) {
	c := &l.c
	var format [16][2]uint64
	n := int(c.u8())
	if n > len(format) {
		c.bad = true
		return
	}
	for i := range n {
		format[i] = [2]uint64{c.uleb(), c.uleb()}
	}
	count := c.uleb()
	if count > maxPaths || n == 0 {
		c.bad = c.bad || count > 0
		return
	}
	for range count {
		var name string
		var dir uint64
		for _, f := range format[:n] {
			v := u.value(c, uint16(f[1]), 0)
			switch f[0] {
			case lnctPath:
				name = u.string(v)
			case lnctDirectory:
				dir = v.u
			}
		}
		if c.bad {
			return
		}
		add(name, dir)
	}
}

// path returns the path of a file as the compiler saw it, "" if unknown.
func (l *lines) path(file uint64) string {
	if file >= uint64(len(l.files)) || l.files[file].name == "" {
		return ""
	}
	f := &l.files[file]
	dir := ""
	if f.dir < uint64(len(l.dirs)) {
		dir = l.dirs[f.dir]
	}
	if strings.HasPrefix(f.name, "/") {
		return path.Clean(f.name)
	}
	if !strings.HasPrefix(dir, "/") {
		dir = l.u.dir + "/" + dir
	}
	return path.Clean(dir + "/" + f.name)
}

// find runs the program and returns the lines of addresses, which must be sorted.
func (l *lines) find(addrs []uint64) []place {
	out := make([]place, len(addrs))
	c := l.c
	fresh := row{line: 1, file: 1}
	now, last := fresh, row{}
	begun, wanted := false, false
	emit := func() {
		if begun && wanted {
			fillLines(out, addrs, &last, now.addr)
		}
		if !begun {
			wanted = l.u.d.loads.Code(now.addr) // false if the linker discarded it
		}
		begun, last = true, now
	}
	for c.off < len(c.b) && !c.bad {
		op := c.u8()
		if op >= l.opBase {
			n := uint64(op - l.opBase)
			now.addr += n / l.lineRng * l.minInst
			now.line += uint64(l.lineMin + int64(n%l.lineRng))
			emit()
			continue
		}
		switch op {
		case lengthOfExtended:
			n := c.uleb()
			e := cursor{b: c.take(int(min(n, 1<<31-1)))}
			switch e.u8() {
			case lneEndSequence:
				emit()
				now, begun = fresh, false
			case lneSetAddress:
				now.addr = e.u64()
			}
		case lnsCopy:
			emit()
		case lnsAdvancePC:
			now.addr += c.uleb() * l.minInst
		case lnsAdvanceLine:
			now.line += uint64(c.sleb())
		case lnsSetFile:
			now.file = c.uleb()
		case lnsConstAddPC:
			now.addr += uint64(255-l.opBase) / l.lineRng * l.minInst
		case lnsFixedAdvance:
			now.addr += uint64(c.u16())
		default:
			for range l.lengths[op] {
				c.uleb()
			}
		}
	}
	return out
}

type row struct{ addr, file, line uint64 }

// fillLines gives the addresses from a row to the next one the row's line.
func fillLines(out []place, addrs []uint64, r *row, end uint64) {
	if end <= r.addr {
		return
	}
	lo, hi := 0, len(addrs)
	for lo < hi {
		if mid := (lo + hi) / 2; addrs[mid] < r.addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for ; lo < len(addrs) && addrs[lo] < end; lo++ {
		out[lo] = place{file: r.file, line: r.line}
	}
}
