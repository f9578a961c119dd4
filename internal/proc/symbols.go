package proc

import (
	"bytes"
	"fmt"
	"io"

	"ingero/internal/elffile"
)

// Symbols has the functions of the CUDA and NCCL API that a file defines, exported or not. Functions is
// never nil.
type Symbols struct {
	Functions []elffile.Function
	// GPUCode means that the file has GPU code as nvcc links it in, which only a CUDA runtime can
	// load. Unlike symbols, it is not stripped.
	GPUCode bool
}

// Bounds of the search of one file. Reads are buffered: a hostile file costs read time, which
// elffile.Open's limits bound, and no more memory than this.
const (
	nameChunk   = 192 << 10
	maxAPIName  = 256     // bytes, with the terminating NUL
	maxAPINames = 1 << 18 // places in a string table where such a name could begin
	maxAPIFuncs = 1 << 14
)

// FindSymbols searches the symbol tables of a file for functions of the API. It refuses the files
// that elffile.Open refuses.
func FindSymbols(r io.ReaderAt) (Symbols, error) {
	s := Symbols{Functions: []elffile.Function{}}
	f, err := elffile.Open(r)
	if err != nil {
		return s, err
	}
	for i := range f.Sections {
		if x := &f.Sections[i]; x.Name == ".nv_fatbin" || x.Name == ".nvFatBinSegment" {
			s.GPUCode = true
		}
	}
	seen := map[definition]bool{}
	for _, kind := range []uint32{elffile.Dynsym, elffile.Symtab} {
		table := f.Symbols(kind)
		names, err := apiNames(table.Names)
		if err != nil {
			return s, err
		}
		if len(names) == 0 {
			continue
		}
		if err := s.read(table, names, seen); err != nil {
			return s, err
		}
	}
	return s, nil
}

// apiPrefixes are the prefixes of the API's names; a capital follows.
var apiPrefixes = [...][]byte{[]byte("cu"), []byte("cuda"), []byte("__cuda"), []byte("nccl")}

// isAPI reports whether a name is one of the API: cuInit, cudaMalloc, __cudaRegisterFunction,
// ncclSend.
func isAPI(name []byte) bool {
	for _, p := range apiPrefixes {
		if rest, ok := bytes.CutPrefix(name, p); ok && len(rest) > 0 && rest[0] >= 'A' && rest[0] <= 'Z' {
			return true
		}
	}
	return false
}

// apiNames finds the offsets of API names in a string table. A name may be the end of a longer one,
// since linkers merge such strings.
func apiNames(x elffile.Data) (map[uint32]string, error) {
	names := map[uint32]string{}
	err := eachName(x, isAPI, func(at uint64, name string, _ bool) error {
		if len(names) == maxAPINames {
			return fmt.Errorf("%w: more than %d names of the CUDA API", elffile.ErrFormat, maxAPINames)
		}
		names[uint32(at)] = name
		return nil
	})
	return names, err
}

// eachName calls fn for each string of data, or end of a string, that begins like a function
// of the libraries. whole reports whether it is a whole string.
func eachName(x elffile.Data, is func(name []byte) bool, fn func(at uint64, name string, whole bool) error) error {
	last := byte(0) // of the previous piece
	return chunks(x, func(at uint64, b []byte) error {
		before := func(i int) byte {
			if i == 0 {
				return last
			}
			return b[i-1]
		}
		for _, word := range [...][]byte{[]byte("cu"), []byte("__cuda"), []byte("nccl"), []byte("nvtx")} {
			for i := 0; ; i++ {
				next := bytes.Index(b[min(i, len(b)):], word)
				if next < 0 || i+next >= nameChunk { // the next chunk has the rest
					break
				}
				i += next
				end := bytes.IndexByte(b[i:min(len(b), i+maxAPIName)], 0)
				if end < 0 || !is(b[i:i+end]) {
					continue
				}
				if err := fn(at+uint64(i), string(b[i:i+end]), before(i) == 0); err != nil {
					return err
				}
			}
		}
		last = b[min(nameChunk, len(b))-1]
		return nil
	})
}

// definition is a symbol that .symtab and .dynsym may both have.
type definition struct {
	name  string
	value uint64
}

// read collects the functions of a table that have one of the names and are defined in the file,
// each name and address once.
func (s *Symbols) read(table elffile.SymbolTable, names map[uint32]string, seen map[definition]bool) error {
	return table.Each(func(_ uint64, x *elffile.Symbol) error {
		if x.Kind() != elffile.Func || !x.Defined() {
			return nil
		}
		key := definition{names[x.NameAt()], x.Value()}
		if key.name == "" || seen[key] {
			return nil
		}
		if len(s.Functions) == maxAPIFuncs {
			return fmt.Errorf("%w: more than %d functions of the CUDA API", elffile.ErrFormat, maxAPIFuncs)
		}
		seen[key] = true
		s.Functions = append(s.Functions, elffile.Function{Name: key.name, Value: x.Value(), Size: x.Size()})
		return nil
	})
}

// chunks passes data to fn in pieces of nameChunk bytes, each with up to maxAPIName bytes of the
// next one.
func chunks(x elffile.Data, fn func(at uint64, b []byte) error) error {
	buf := make([]byte, min(x.Size, nameChunk+maxAPIName))
	for at := uint64(0); at < x.Size; at += nameChunk {
		b, err := x.Some(buf, at, len(buf))
		if err != nil {
			return err
		}
		if err := fn(at, b); err != nil {
			return err
		}
	}
	return nil
}
