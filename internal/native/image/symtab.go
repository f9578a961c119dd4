package image

import (
	"slices"
	"sort"
	"strings"
)

// Limits of symbol tables.
const (
	maxSymbols = 4 << 20 // per image: 32 MiB
	symbolSize = 24
	maxAliases = 32 // symbols to compare for one address
	maxMini    = 32 << 20
)

// Constants of the ELF specification.
const (
	sttNone   = 0
	sttFunc   = 2
	sttIfunc  = 10
	stbLocal  = 0
	stbGlobal = 1
)

// symbols is an index of symbol tables by address. Size and name stay in the file.
type symbols struct {
	base   uint64
	tables [2]symbolTable
	// index has one entry per symbol, sorted: its address less base in the high half, and the
	// number of its table entry in the low one, with tableBit set for the second table.
	index []uint64
	cut   bool // truncated
}

const tableBit = 31

type symbolTable struct{ entries, names section }

// addTable adds the functions of one table.
func (s *symbols) addTable(n int, t symbolTable, o *object) {
	s.tables[n] = t
	buf := make([]byte, min(t.entries.size, 2048*symbolSize))
	room := uint64(maxSymbols)
	for at := uint64(0); at < t.entries.size && len(buf) > 0; at += uint64(len(buf)) {
		b := buf[:min(uint64(len(buf)), t.entries.size-at)]
		if t.entries.read(b, at) != nil {
			s.cut = true
			return
		}
		for i := uint64(0); len(b) >= symbolSize; i, b = i+1, b[symbolSize:] {
			kind, addr := b[4]&15, le.Uint64(b[8:])
			if kind != sttFunc && kind != sttIfunc && kind != sttNone || le.Uint16(b[6:]) == 0 || !o.code(addr) || addr-s.base > 1<<32-1 {
				continue
			}
			id := at/symbolSize + i
			if uint64(len(s.index)) >= room || id >= 1<<tableBit {
				s.cut = true
				return
			}
			s.index = append(s.index, (addr-s.base)<<32|uint64(n)<<tableBit|id)
		}
	}
}

func (s *symbols) finish() {
	slices.Sort(s.index)
	s.index = slices.Clip(s.index)
}

// symbol is one entry of a table.
type symbol struct {
	name       string
	addr, size uint64
	kind, bind byte
	table      int
	at         uint32 // offset of its name
}

func (s *symbols) symbol(entry uint64) (x symbol, ok bool) {
	var b [symbolSize]byte
	x.table = int(entry >> tableBit & 1)
	if s.tables[x.table].entries.read(b[:], entry&(1<<tableBit-1)*symbolSize) != nil {
		return x, false
	}
	x.at, x.kind, x.bind, x.addr, x.size = le.Uint32(b[:]), b[4]&15, b[4]>>4, le.Uint64(b[8:]), le.Uint64(b[16:])
	return x, x.addr == entry>>32+s.base // the file may have changed
}

// find returns the function that contains an address. Of several that begin there, it returns the
// one with the most common name.
func (s *symbols) find(addr uint64) (symbol, bool) {
	var sized, label symbol // a label has no size, and extends to the next symbol
	if addr < s.base || addr-s.base > 1<<32-1 {
		return sized, false
	}
	n := sort.Search(len(s.index), func(i int) bool { return s.index[i]>>32 > addr-s.base })
	for i := n - 1; i >= 0 && i >= n-maxAliases; i-- {
		x, ok := s.symbol(s.index[i])
		if sized.name != "" && x.addr != sized.addr {
			break
		}
		switch {
		case !ok:
		case addr-x.addr < x.size:
			s.choose(&sized, &x)
		case x.size == 0 && s.index[i]>>32 == s.index[n-1]>>32 && !s.cut:
			s.choose(&label, &x)
		}
	}
	if sized.name == "" {
		sized = label
	}
	return sized, sized.name != ""
}

// has reports whether a symbol with a name is at an address.
func (s *symbols) has(addr uint64, name string) bool {
	if addr < s.base || name == "" {
		return false
	}
	n := sort.Search(len(s.index), func(i int) bool { return s.index[i]>>32 >= addr-s.base })
	for _, entry := range s.index[n:min(n+maxAliases, len(s.index))] {
		x, ok := s.symbol(entry)
		if x.addr != addr {
			break
		}
		if ok && symbolName(s.tables[x.table].names.text(uint64(x.at))) == name {
			return true
		}
	}
	return false
}

// choose replaces best by x if x is better.
func (s *symbols) choose(best, x *symbol) {
	x.name = symbolName(s.tables[x.table].names.text(uint64(x.at)))
	if x.name != "" && (best.name == "" || x.better(best)) {
		*best = *x
	}
}

// symbolName returns a name without its version, "" if it is not a function's.
func symbolName(name string) string {
	if at := strings.IndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	if strings.HasPrefix(name, "$") || strings.HasPrefix(name, ".L") { // assembler labels
		return ""
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] == 0x7f {
			return ""
		}
	}
	return name
}

// better reports whether a symbol of the same address has the better name: a function's, a global
// one, one without the author's mark of an internal name, the shorter one.
func (x *symbol) better(o *symbol) bool {
	if a, b := x.kind == sttNone, o.kind == sttNone; a != b {
		return b
	}
	if a, b := x.bind == stbLocal, o.bind == stbLocal; a != b {
		return b
	}
	if a, b := underscores(x.name), underscores(o.name); a != b {
		return a < b
	}
	if len(x.name) != len(o.name) {
		return len(x.name) < len(o.name)
	}
	return x.name < o.name
}

// underscores counts the leading underscores of a name, except that of a mangled name.
func underscores(name string) int {
	if strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") {
		return 0
	}
	return len(name) - len(strings.TrimLeft(name, "_"))
}
