package proc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"ingero/pkg/events"
)

// Library is a traced library that a process maps.
type Library struct {
	Mapping // the first executable mapping of the file
	Lib     events.Library
	// Inside means that the library is part of a larger file, or of a file with another name.
	// FindSymbols finds its functions.
	Inside bool
}

// Names maps files to CUDA libraries. The zero value goes by the base name, in any directory:
// libcudart.so.12, libcudart-0123abcd.so.12 of a wheel, libcuda.so.1, libnccl.so.2,
// libnvToolsExt.so.1.
type Names struct {
	// Given are files that are libraries regardless of their names. For a library with a file here,
	// no other file counts.
	Given []Given
}

// Given is a file that the user named; see [Identify].
type Given struct {
	Key Key
	Lib events.Library
}

// has reports whether the user named files for a library.
func (n Names) has(lib events.Library) bool {
	for i := range n.Given {
		if n.Given[i].Lib == lib {
			return true
		}
	}
	return false
}

var libraryStems = [...]struct {
	stem string
	lib  events.Library
}{
	{"libcudart", events.LibCudart},
	{"libcuda", events.LibCuda},
	{"libnccl", events.LibNCCL},
	{"libnvToolsExt", events.LibNVTX},
}

// Match returns the library that a file is, from its path in maps and its key.
func (n Names) Match(path string, key Key) (events.Library, bool) {
	lib, _, ok := n.match([]byte(path), key)
	return lib, ok
}

// match does not allocate. inside is as in [Library].
func (n Names) match(path []byte, key Key) (lib events.Library, inside, ok bool) {
	lib = stemOf(path)
	for i := range n.Given {
		if g := &n.Given[i]; g.Key == key {
			return g.Lib, g.Lib != lib, true
		}
	}
	if lib == 0 || n.has(lib) {
		return 0, false, false
	}
	return lib, false, true
}

// stemOf goes by the base name only; 0 means no library.
func stemOf(path []byte) events.Library {
	path = bytes.TrimSuffix(path, []byte(deletedSuffix))
	base := path[bytes.LastIndexByte(path, '/')+1:]
	base = bytes.TrimPrefix(base, []byte("memfd:"))
	for _, l := range libraryStems {
		if isShared(base, l.stem) {
			return l.lib
		}
	}
	return 0
}

// Identify returns which library a file is, as --cuda-lib names it in the agent's own root: the
// library that most of its functions belong to, or else the one of its name.
func Identify(path string) (Given, error) {
	o, err := openRegular(path)
	if err != nil {
		return Given{}, err
	}
	defer o.file.Close()
	s, err := FindSymbols(o.file)
	if err != nil {
		return Given{}, fmt.Errorf("read %s: %w", path, err)
	}
	lib := s.library()
	if lib == 0 {
		lib = stemOf([]byte(path))
	}
	if lib == 0 {
		return Given{}, fmt.Errorf("%s: %w", path, ErrNoLibrary)
	}
	return Given{Key: o.key, Lib: lib}, nil
}

// ErrNoLibrary means that a file is none of the traced libraries.
var ErrNoLibrary = errors.New("it defines no traced function of CUDA or NCCL")

// tracedFunctions maps each symbol of the catalog to its library.
var tracedFunctions = sync.OnceValue(func() map[string]events.Library {
	out := map[string]events.Library{}
	for i := range events.Catalog {
		for _, symbol := range events.Catalog[i].AllSymbols() {
			out[symbol] = events.Catalog[i].Lib
		}
	}
	return out
})

// Count returns the number of traced functions of a library.
func (s *Symbols) Count(lib events.Library) (n int) {
	for i := range s.Functions {
		if tracedFunctions()[s.Functions[i].Name] == lib {
			n++
		}
	}
	return n
}

// library returns the library that most functions belong to, 0 if there are none.
func (s *Symbols) library() (lib events.Library) {
	most := 0
	for _, l := range libraryStems {
		if n := s.Count(l.lib); n > most {
			lib, most = l.lib, n
		}
	}
	return lib
}

// isShared reports whether base is stem[-hash].so[.version]. auditwheel adds the hash. A looser
// pattern would match plugins such as libnccl-net.so.
func isShared(base []byte, stem string) bool {
	rest, ok := bytes.CutPrefix(base, []byte(stem))
	if !ok {
		return false
	}
	if len(rest) > 0 && rest[0] == '-' {
		i := 1
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] >= 'a' && rest[i] <= 'f') {
			i++
		}
		if i < 9 { // eight digits and the dash
			return false
		}
		rest = rest[i:]
	}
	rest, ok = bytes.CutPrefix(rest, []byte(".so"))
	return ok && (len(rest) == 0 || rest[0] == '.' && len(rest) > 1)
}

// UsesCUDA reports whether a process that maps these libraries can make CUDA calls. NVTX alone only
// annotates, possibly for no GPU.
func UsesCUDA(libs []Library) bool {
	return slices.ContainsFunc(libs, func(l Library) bool { return l.Lib != events.LibNVTX })
}

// Libraries lists the CUDA libraries that a process maps, each file once. A process that links
// libcudart statically still maps libcuda. An empty list means that it makes no CUDA calls yet.
func (f FS) Libraries(pid uint32, names Names) ([]Library, error) {
	return within(f, pid, func(d pidDir) ([]Library, error) { return d.libraries(names) })
}

func (d pidDir) libraries(names Names) ([]Library, error) {
	var out []Library
	err := d.eachMapping(func(m *mapLine) {
		if !m.exec || m.inode == 0 {
			return
		}
		lib, inside, ok := names.match(m.path, m.key())
		if !ok || slices.ContainsFunc(out, func(l Library) bool { return l.Key == m.key() }) {
			return
		}
		out = append(out, Library{Mapping: m.mapping(), Lib: lib, Inside: inside})
	})
	return out, err
}
