package image

import (
	"slices"
	"sort"
	"strings"
)

// Limits of tables of symbols.
const (
	maxSymbols = 4 << 20 // of one image: 32 MiB
	symbolSize = 24
	maxAliases = 32 // symbols looked at for one address
	maxMini    = 32 << 20
)

// Of the ELF specification.
const (
	sttNone   = 0
	sttFunc   = 2
	sttIfunc  = 10
	stbLocal  = 0
	stbGlobal = 1
)

// symbols is an index of tables of symbols by address. Size and name stay in the file.
type symbols struct {
	base   uint64
	tables [2]symbolTable
	// index has an entry a symbol, in order: its address less base in the high half, in
	// the low one the number of its entry, above tableBit that of the second table.
	index []uint64
	cut   bool // there were more
}

const tableBit = 31

type symbolTable struct{ entries, names section }

// addTable takes in the functions of one table.
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
	at         uint32 // of its name
}

func (s *symbols) symbol(entry uint64) (x symbol, ok bool) {
	var b [symbolSize]byte
	x.table = int(entry >> tableBit & 1)
	if s.tables[x.table].entries.read(b[:], entry&(1<<tableBit-1)*symbolSize) != nil {
		return x, false
	}
	x.at, x.kind, x.bind, x.addr, x.size = le.Uint32(b[:]), b[4]&15, b[4]>>4, le.Uint64(b[8:]), le.Uint64(b[16:])
	return x, x.addr == entry>>32+s.base // the file may have been changed
}

// find returns the function that an address is in. Of several that begin where it does,
// it is the one that people would call it by.
func (s *symbols) find(addr uint64) (symbol, bool) {
	var sized, label symbol // a label has no size, and goes on to the next symbol
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

// has says whether a symbol of that name is at an address.
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

// choose takes x if it is better than what there is.
func (s *symbols) choose(best, x *symbol) {
	x.name = symbolName(s.tables[x.table].names.text(uint64(x.at)))
	if x.name != "" && (best.name == "" || x.better(best)) {
		*best = *x
	}
}

// symbolName returns a name without its version, "" if it is none of a function.
func symbolName(name string) string {
	if at := strings.IndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	if strings.HasPrefix(name, "$") || strings.HasPrefix(name, ".L") { // marks of assemblers
		return ""
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] == 0x7f {
			return ""
		}
	}
	return name
}

// better says whether a symbol of the same address is the better name: a function's, a
// global one's, the one that its author did not mark as his own, the shorter one.
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

// underscores counts those that a name begins with, but for the one of a mangled name.
func underscores(name string) int {
	if strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") {
		return 0
	}
	return len(name) - len(strings.TrimLeft(name, "_"))
}
