package proc

import (
	"bytes"

	"ingero/pkg/events"
)

// Library is a traced library that a process maps.
type Library struct {
	Mapping // the first executable mapping of the file
	Lib     events.Library
}

// Names says which files are CUDA libraries. The zero value goes by the base
// name: libcudart.so.12, libcudart-0123abcd.so.12 of a wheel, libcuda.so.1,
// libnccl.so.2, whatever the folder.
type Names struct {
	// Cudart, when not zero, is the only file that is a libcudart, whatever its
	// name; see KeyOf.
	Cudart Key
}

var libraryStems = [...]struct {
	stem string
	lib  events.Library
}{
	{"libcudart", events.LibCudart},
	{"libcuda", events.LibCuda},
	{"libnccl", events.LibNCCL},
}

// Match tells which library a file is, by its path as maps shows it and its key.
func (n Names) Match(path string, key Key) (events.Library, bool) {
	return n.match([]byte(path), key)
}

// match does not allocate.
func (n Names) match(path []byte, key Key) (events.Library, bool) {
	if n.Cudart != (Key{}) && key == n.Cudart {
		return events.LibCudart, true
	}
	path = bytes.TrimSuffix(path, []byte(deletedSuffix))
	base := path[bytes.LastIndexByte(path, '/')+1:]
	base = bytes.TrimPrefix(base, []byte("memfd:"))
	for _, l := range libraryStems {
		if !isShared(base, l.stem) {
			continue
		}
		if l.lib == events.LibCudart && n.Cudart != (Key{}) {
			break
		}
		return l.lib, true
	}
	return 0, false
}

// isShared tells whether base is stem[-hash].so[.version]. The hash is what
// auditwheel puts in; nothing looser, or libnccl-net.so, a plugin, would match.
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

// Libraries lists the CUDA libraries that a process maps, each file once. One
// that links libcudart statically still maps libcuda. An empty list means that it
// makes no CUDA calls yet.
func (f FS) Libraries(pid uint32, names Names) ([]Library, error) {
	d, err := f.openPID(pid)
	if err != nil {
		return nil, err
	}
	defer d.close()
	return d.libraries(names)
}

func (d pidDir) libraries(names Names) ([]Library, error) {
	var out []Library
	err := d.eachMapping(func(m *mapLine) {
		if !m.exec || m.inode == 0 {
			return
		}
		lib, ok := names.match(m.path, m.key())
		if !ok {
			return
		}
		for i := range out {
			if out[i].Key == m.key() {
				return
			}
		}
		out = append(out, Library{Mapping: m.mapping(), Lib: lib})
	})
	return out, err
}
