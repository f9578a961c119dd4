package image

import (
	"errors"
	"slices"
	"sort"
	"strings"

	"ingero/internal/elffile"
)

// Limits of symbol tables.
const (
	maxSymbols = 4 << 20 // per image: 32 MiB
	maxAliases = 32      // symbols to compare for one address
	maxMini    = 32 << 20
)

var errFull = errors.New("too many symbols")

// symbols is an index of symbol tables by address. Size and name stay in the file.
type symbols struct {
	base   uint64
	file   *elffile.File // the file whose addresses these are; the tables may be another file's
	tables [2]elffile.SymbolTable
	// index has one entry per symbol, sorted: its address less base in the high half, and the
	// number of its table entry in the low one, with tableBit set for the second table.
	index []uint64
	cut   bool // truncated
}

const tableBit = 31

// addTable adds the functions of one table.
func (s *symbols) addTable(n int, t elffile.SymbolTable) {
	s.tables[n] = t
	err := t.Each(func(id uint64, x *elffile.Symbol) error {
		if x.Kind() != elffile.Func && x.Kind() != elffile.IFunc && x.Kind() != elffile.None || !x.Defined() || !s.file.Loads.Code(x.Value()) || x.Value()-s.base > 1<<32-1 {
			return nil
		}
		if len(s.index) >= maxSymbols || id >= 1<<tableBit {
			return errFull
		}
		s.index = append(s.index, (x.Value()-s.base)<<32|uint64(n)<<tableBit|id)
		return nil
	})
	s.cut = s.cut || err != nil
}

func (s *symbols) finish() {
	slices.Sort(s.index)
	s.index = slices.Clip(s.index)
}

// symbol is one entry of a table, with its name once it is read.
type symbol struct {
	elffile.Symbol
	name  string
	table int
}

func (s *symbols) symbol(entry uint64) (x symbol, ok bool) {
	var err error
	x.table = int(entry >> tableBit & 1)
	x.Symbol, err = s.tables[x.table].Symbol(entry & (1<<tableBit - 1))
	return x, err == nil && x.Value() == entry>>32+s.base // the file may have changed
}

// nameOf reads the name of a symbol.
func (s *symbols) nameOf(x *symbol) string {
	return symbolName(s.tables[x.table].Names.Text(uint64(x.NameAt())))
}

// find returns the function that contains an address. Of several that begin there, it returns the
// one with the most common name.
func (s *symbols) find(addr uint64) (symbol, bool) {
	var sized, label symbol // a label has no size, and extends to the next symbol or the end of its section
	if addr < s.base || addr-s.base > 1<<32-1 {
		return sized, false
	}
	n := sort.Search(len(s.index), func(i int) bool { return s.index[i]>>32 > addr-s.base })
	for i := n - 1; i >= 0 && i >= n-maxAliases; i-- {
		x, ok := s.symbol(s.index[i])
		if sized.name != "" && x.Value() != sized.Value() {
			break
		}
		switch {
		case !ok:
		case addr-x.Value() < x.Size():
			s.choose(&sized, &x)
		case x.Size() == 0 && s.index[i]>>32 == s.index[n-1]>>32 && !s.cut && s.inSectionOf(&x, addr):
			s.choose(&label, &x)
		}
	}
	if sized.name == "" {
		sized = label
	}
	return sized, sized.name != ""
}

// inSectionOf reports whether an address is in the section of a symbol.
func (s *symbols) inSectionOf(x *symbol, addr uint64) bool {
	of := s.file.SectionAt(x.Value())
	return of.Contains(addr)
}

// has reports whether a symbol with a name is at an address.
func (s *symbols) has(addr uint64, name string) bool {
	if addr < s.base || name == "" {
		return false
	}
	n := sort.Search(len(s.index), func(i int) bool { return s.index[i]>>32 >= addr-s.base })
	for _, entry := range s.index[n:min(n+maxAliases, len(s.index))] {
		x, ok := s.symbol(entry)
		if x.Value() != addr {
			break
		}
		if ok && s.nameOf(&x) == name {
			return true
		}
	}
	return false
}

// choose replaces best by x if x is better.
func (s *symbols) choose(best, x *symbol) {
	x.name = s.nameOf(x)
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
	if a, b := x.Kind() == elffile.None, o.Kind() == elffile.None; a != b {
		return b
	}
	if a, b := x.Local(), o.Local(); a != b {
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
