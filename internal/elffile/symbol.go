package elffile

import "fmt"

// Kinds of symbol tables.
const (
	Symtab = 2  // .symtab
	Dynsym = 11 // .dynsym
)

// Kinds of symbols.
const (
	None   = 0
	Object = 1
	Func   = 2
	IFunc  = 10
)

const (
	symbolSize   = 24 // sizeof(Elf64_Sym)
	symbolChunk  = 2048 * symbolSize
	maxFunctions = 1 << 20 // of one table
	maxVersions  = 1 << 15 // versions have 15 bits
	maxVerdef    = 1 << 20 // bytes of .gnu.version_d
	maxDynamic   = 1 << 20 // bytes of .dynamic
	dtSoname     = 14
)

// SymbolTable is a symbol table. The zero value is empty.
type SymbolTable struct {
	Names   Data
	entries Data
}

// Symbol is an entry of a symbol table (Elf64_Sym).
type Symbol [symbolSize]byte

// NameAt returns the offset of the symbol's name in the names of its table.
func (s *Symbol) NameAt() uint32 { return le.Uint32(s[:]) }

// Kind returns the kind of the symbol: None, Object, Func, IFunc or another one.
func (s *Symbol) Kind() byte { return s[4] & 15 }

// Local reports whether the symbol is invisible to other files.
func (s *Symbol) Local() bool { return s[4]>>4 == 0 }

// Defined reports whether the file defines the symbol.
func (s *Symbol) Defined() bool { return le.Uint16(s[6:]) != 0 }

// Value returns the address of the symbol.
func (s *Symbol) Value() uint64 { return le.Uint64(s[8:]) }

// Size returns the size of the symbol in bytes, 0 if it is unknown.
func (s *Symbol) Size() uint64 { return le.Uint64(s[16:]) }

// Function is a function that a file defines.
type Function struct {
	Name, Version string
	Value, Size   uint64
}

// Version is a version that a file defines for its symbols. That of the file itself is the base.
type Version struct {
	Name  string
	Base  bool
	index uint16
}

// Symbols returns the first table of a kind, an empty one if there is none.
func (f *File) Symbols(kind uint32) SymbolTable {
	s := f.ofKind(kind)
	names := f.names(&s)
	if s.Compressed() || names.Compressed() {
		return SymbolTable{}
	}
	return SymbolTable{names.Data, s.Data}
}

// Len returns the number of symbols.
func (t SymbolTable) Len() uint64 { return t.entries.Size / symbolSize }

// Symbol reads the symbol with an index.
func (t SymbolTable) Symbol(i uint64) (s Symbol, err error) {
	if i >= t.Len() {
		return s, errBounds
	}
	return s, t.entries.Read(s[:], i*symbolSize)
}

// Each calls fn for each symbol until fn returns an error, and returns that or the error of a read.
// The symbol is valid until fn returns.
func (t SymbolTable) Each(fn func(i uint64, s *Symbol) error) error {
	end := t.Len() * symbolSize
	buf := make([]byte, min(end, symbolChunk))
	for at := uint64(0); at < end; at += uint64(len(buf)) {
		b := buf[:min(uint64(len(buf)), end-at)]
		if err := t.entries.Read(b, at); err != nil {
			return fmt.Errorf("read symbols: %w", err)
		}
		for i := at / symbolSize; len(b) > 0; i, b = i+1, b[symbolSize:] {
			if err := fn(i, (*Symbol)(b)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Functions returns the functions that a table defines. Those of Dynsym have their versions.
func (f *File) Functions(kind uint32) (out []Function, err error) {
	t := f.Symbols(kind)
	if t.Len() == 0 {
		return nil, nil
	}
	names, err := t.Names.All(maxTable)
	if err != nil {
		return nil, fmt.Errorf("read names of symbols: %w", err)
	}
	var numbers []byte
	versions := map[uint16]string{}
	if s := f.ofKind(shtVersym); kind == Dynsym && s.Size > 0 {
		if numbers, err = s.All(maxTable); err != nil {
			return nil, fmt.Errorf("read versions of symbols: %w", err)
		}
		for _, v := range f.Versions() {
			versions[v.index] = v.Name
		}
	}
	room := maxTable // names may overlap
	err = t.Each(func(i uint64, s *Symbol) error {
		if s.Kind() != Func || !s.Defined() {
			return nil
		}
		text := name(names, s.NameAt(), MaxName)
		if room -= len(text); room < 0 || len(out) == maxFunctions {
			return fmt.Errorf("%w: more than %d functions, or names of %d bytes", ErrFormat, maxFunctions, maxTable)
		}
		x := Function{Name: string(text), Value: s.Value(), Size: s.Size()}
		if 2*i+2 <= uint64(len(numbers)) {
			if n := le.Uint16(numbers[2*i:]) & 0x7fff; n > 1 { // 0 and 1: local, and without a version
				x.Version = versions[n]
			}
		}
		out = append(out, x)
		return nil
	})
	return out, err
}

// Versions returns the versions that the file defines.
func (f *File) Versions() (out []Version) {
	s := f.ofKind(shtVerdef)
	b, err := s.All(maxVerdef)
	if err != nil {
		return nil
	}
	names, err := f.names(&s).All(maxTable)
	if err != nil {
		return nil
	}
	for len(b) >= 20 && len(out) < maxVersions && le.Uint16(b) == 1 {
		v := Version{Base: b[2]&1 != 0, index: le.Uint16(b[4:])}
		if aux := uint64(le.Uint32(b[12:])); aux+4 <= uint64(len(b)) {
			v.Name = string(name(names, le.Uint32(b[aux:]), maxName))
		}
		out = append(out, v)
		next := uint64(le.Uint32(b[16:]))
		if next == 0 || next > uint64(len(b)) {
			break
		}
		b = b[next:]
	}
	return out
}

// Soname returns the name of the library in its dynamic section, empty if it has none.
func (f *File) Soname() string {
	s := f.ofKind(shtDynamic)
	b, err := s.All(maxDynamic)
	if err != nil {
		return ""
	}
	for ; len(b) >= 16; b = b[16:] {
		if le.Uint64(b) == dtSoname {
			return f.names(&s).Text(le.Uint64(b[8:]))
		}
	}
	return ""
}
