package proc

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Symbols is what a file says of functions of the CUDA and NCCL API that it
// defines itself, exported or not.
type Symbols struct {
	Functions []elf.Symbol
	// GPUCode says that it holds GPU code as nvcc links it in, which only a CUDA
	// runtime can load. Unlike symbols, that is not stripped.
	GPUCode bool
}

// Bounds of one file's search. What is read goes through a buffer; a hostile file
// costs its reading, of which BuildID's limits are the bound, and no more memory than this.
const (
	symbolChunk = 192 << 10 // a multiple of symbolSize
	maxAPIName  = 256       // bytes, with the NUL at its end
	maxAPINames = 1 << 18   // places in a table of strings where such a name could begin
	maxAPIFuncs = 1 << 14
)

// FindSymbols looks through the symbol tables of a file for functions of the API.
// It refuses what BuildID does.
func FindSymbols(r io.ReaderAt) (s Symbols, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf on a hostile file
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

// apiPrefixes begin the names of the API; a capital follows.
var apiPrefixes = [...][]byte{[]byte("cu"), []byte("cuda"), []byte("__cuda"), []byte("nccl")}

// isAPI tells whether a name is one of the API: cuInit, cudaMalloc,
// __cudaRegisterFunction, ncclSend.
func isAPI(name []byte) bool {
	for _, p := range apiPrefixes {
		if rest, ok := bytes.CutPrefix(name, p); ok && len(rest) > 0 && rest[0] >= 'A' && rest[0] <= 'Z' {
			return true
		}
	}
	return false
}

// apiNames finds where in a table of strings names of the API lie. A name may be
// the end of a longer one: linkers keep such once.
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

// eachName calls fn with the names that end strings of a section, of which one may be the
// whole, and begin as functions of the libraries do.
func eachName(x *elf.Section, is func(name []byte) bool, fn func(at uint64, name string, whole bool) error) error {
	last := byte(0) // of the piece before
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
				if next < 0 || i+next >= symbolChunk { // the rest is the next chunk's
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

// read takes the functions of a table that have one of the names and are defined
// in the file, each name and address once.
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

// chunks hands a section to fn in pieces of symbolChunk bytes, each with as many
// bytes of the next one as over says, as far as the file goes.
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
