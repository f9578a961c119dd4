package proc

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Symbols has the functions of the CUDA and NCCL API that a file defines, exported or not.
type Symbols struct {
	Functions []elf.Symbol
	// GPUCode means that the file has GPU code as nvcc links it in, which only a CUDA runtime can
	// load. Unlike symbols, it is not stripped.
	GPUCode bool
}

// Bounds of the search of one file. Reads are buffered: a hostile file costs read time, which
// BuildID's limits bound, and no more memory than this.
const (
	symbolChunk = 192 << 10 // a multiple of symbolSize
	maxAPIName  = 256       // bytes, with the terminating NUL
	maxAPINames = 1 << 18   // places in a string table where such a name could begin
	maxAPIFuncs = 1 << 14
)

// FindSymbols searches the symbol tables of a file for functions of the API. It refuses the files
// that BuildID refuses.
func FindSymbols(r io.ReaderAt) (s Symbols, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf panics on some hostile files
			s, err = Symbols{}, fmt.Errorf("%w (%v)", errNotELF, p)
		}
	}()
	if _, err := BuildID(r); err != nil {
		return s, err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return s, fmt.Errorf("%w (%v)", errNotELF, err)
	}
	seen := map[definition]bool{}
	for _, x := range f.Sections {
		if x.Name == ".nv_fatbin" || x.Name == ".nvFatBinSegment" {
			s.GPUCode = true
		}
		if x.Type != elf.SHT_SYMTAB && x.Type != elf.SHT_DYNSYM || int(x.Link) >= len(f.Sections) {
			continue
		}
		names, err := apiNames(f.Sections[x.Link])
		if err != nil {
			return s, fmt.Errorf("section %s: %w", x.Name, err)
		}
		if len(names) == 0 {
			continue
		}
		if err := s.read(x, names, seen); err != nil {
			return s, fmt.Errorf("section %s: %w", x.Name, err)
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
func apiNames(x *elf.Section) (map[uint32]string, error) {
	names := map[uint32]string{}
	err := eachName(x, isAPI, func(at uint64, name string, _ bool) error {
		if len(names) == maxAPINames {
			return fmt.Errorf("%w: more than %d names of the CUDA API", errNotELF, maxAPINames)
		}
		names[uint32(at)] = name
		return nil
	})
	return names, err
}

// eachName calls fn for each string of a section, or end of a string, that begins like a function
// of the libraries. whole reports whether it is a whole string.
func eachName(x *elf.Section, is func(name []byte) bool, fn func(at uint64, name string, whole bool) error) error {
	last := byte(0) // of the previous piece
	return chunks(x, maxAPIName, func(at uint64, b []byte) error {
		before := func(i int) byte {
			if i == 0 {
				return last
			}
			return b[i-1]
		}
		for _, word := range [...][]byte{[]byte("cu"), []byte("__cuda"), []byte("nccl"), []byte("nvtx")} {
			for i := 0; ; i++ {
				next := bytes.Index(b[min(i, len(b)):], word)
				if next < 0 || i+next >= symbolChunk { // the next chunk has the rest
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
		last = b[min(symbolChunk, len(b))-1]
		return nil
	})
}

// definition is a symbol that .symtab and .dynsym may both have.
type definition struct {
	name  string
	value uint64
}

// symbolSize is sizeof(Elf64_Sym).
const symbolSize = 24

// read collects the functions of a table that have one of the names and are defined in the file,
// each name and address once.
func (s *Symbols) read(x *elf.Section, names map[uint32]string, seen map[definition]bool) error {
	le := binary.LittleEndian
	return chunks(x, symbolSize, func(_ uint64, b []byte) error {
		for i := 0; i < symbolChunk && i+symbolSize <= len(b); i += symbolSize {
			e := b[i : i+symbolSize]
			if elf.ST_TYPE(e[4]) != elf.STT_FUNC || le.Uint16(e[6:]) == uint16(elf.SHN_UNDEF) {
				continue
			}
			at := le.Uint32(e)
			name, value := names[at], le.Uint64(e[8:])
			if name == "" {
				continue
			}
			key := definition{name, value}
			if seen[key] {
				continue
			}
			if len(s.Functions) == maxAPIFuncs {
				return fmt.Errorf("%w: more than %d functions of the CUDA API", errNotELF, maxAPIFuncs)
			}
			seen[key] = true
			s.Functions = append(s.Functions, elf.Symbol{Name: name, Info: e[4], Other: e[5],
				Section: elf.SectionIndex(le.Uint16(e[6:])), Value: value, Size: le.Uint64(e[16:])})
		}
		return nil
	})
}

// chunks passes a section to fn in pieces of symbolChunk bytes, each with up to over bytes of the
// next one.
func chunks(x *elf.Section, over int, fn func(at uint64, b []byte) error) error {
	if x.Type == elf.SHT_NOBITS || x.Flags&elf.SHF_COMPRESSED != 0 {
		return nil
	}
	buf := make([]byte, symbolChunk+over)
	for at := uint64(0); at < x.FileSize; at += symbolChunk {
		n, err := x.ReaderAt.ReadAt(buf[:min(uint64(len(buf)), x.FileSize-at)], int64(at))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return nil
		}
		if err := fn(at, buf[:n]); err != nil {
			return err
		}
	}
	return nil
}
