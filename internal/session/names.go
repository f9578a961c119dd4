package session

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"ingero/internal/decode"
	"ingero/internal/elffile"
	"ingero/internal/proc"
	"ingero/internal/symbols"
)

// newMemory returns a reader of names in the processes of this machine.
func newMemory(clock decode.Clock) *memory {
	return &memory{fs: processFS(clock), known: map[symbolKey]string{}}
}

// maxSymbols bounds the cached symbols.
const maxSymbols = 1 << 13

// symbolKey is an offset in a file, which the build id and the owner identify. Copies of a file share its
// names, but a stripped copy has none, so offsets without a name are those of one copy.
type symbolKey struct {
	build  string
	owner  uint32
	copy   proc.Key // zero: the offset has a name
	offset uint64
}

// memory reads names in process memory, and symbols in mapped files.
type memory struct {
	fs    proc.FS
	known map[symbolKey]string
}

// Strings implements [symbols.Reader].
func (m *memory) Strings(pid uint32, seen int64, at []uint64) ([]string, error) {
	mem, err := m.fs.Memory(pid, time.Unix(0, seen))
	if err != nil {
		return nil, ended(err)
	}
	defer func() { _ = mem.Close() }()
	out := make([]string, len(at))
	for i, addr := range at {
		b, err := mem.Text(addr, symbols.MaxName)
		if errors.Is(err, proc.ErrExited) {
			return out, symbols.ErrEnded
		}
		if err == nil {
			out[i] = symbols.Printable(b)
		}
	}
	return out, nil
}

// Symbols implements [symbols.Reader].
func (m *memory) Symbols(pid uint32, seen int64, at []uint64) ([]string, error) {
	if mem, err := m.fs.Memory(pid, time.Unix(0, seen)); err != nil { // the same process still runs
		return nil, ended(err)
	} else if err := mem.Close(); err != nil {
		return nil, err
	}
	maps, err := m.fs.Maps(pid, true)
	if err != nil {
		return nil, ended(err)
	}
	slices.SortFunc(maps, func(a, b proc.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	files := map[proc.Key]*symbolRequest{}
	for i, addr := range at {
		m := find(maps, addr)
		if m == nil {
			continue
		}
		file := files[m.Key]
		if file == nil {
			file = &symbolRequest{mapping: *m}
			files[m.Key] = file
		}
		file.index = append(file.index, i)
		file.offsets = append(file.offsets, addr-m.Start+m.Offset)
	}
	out := make([]string, len(at))
	for _, file := range files {
		if names, err := m.find(pid, file); err == nil {
			for i, name := range names {
				out[file.index[i]] = name
			}
		} else if errors.Is(err, proc.ErrExited) {
			return out, symbols.ErrEnded
		}
	}
	return out, nil
}

// symbolRequest has the offsets to look up in one file.
type symbolRequest struct {
	mapping proc.Mapping
	offsets []uint64
	index   []int // of each offset in the addresses
}

// find returns the symbols of a file. It reads the file only for unknown ones.
func (m *memory) find(pid uint32, a *symbolRequest) ([]string, error) {
	file, _, err := m.fs.OpenMapped(pid, a.mapping)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	build, err := elffile.BuildID(file)
	if err != nil {
		return nil, err
	}
	owner, err := proc.Owner(file)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(a.offsets))
	var offsets []uint64
	var index []int
	for i, off := range a.offsets {
		name, known := m.known[symbolKey{build: build, owner: owner, offset: off}]
		if !known {
			_, known = m.known[symbolKey{build, owner, a.mapping.Key, off}]
		}
		if known && build != "" {
			out[i] = name
			continue
		}
		offsets, index = append(offsets, off), append(index, i)
	}
	if len(offsets) == 0 {
		return out, nil
	}
	names, err := symbols.Find(file, offsets)
	if err != nil {
		return nil, err
	}
	if len(m.known)+len(names) > maxSymbols {
		clear(m.known)
	}
	for i, name := range names {
		out[index[i]] = name
		key := symbolKey{build: build, owner: owner, offset: offsets[i]}
		if name == "" {
			key.copy = a.mapping.Key
		}
		m.known[key] = name
	}
	return out, nil
}

// ended translates proc.ErrExited for package symbols.
func ended(err error) error {
	if errors.Is(err, proc.ErrExited) {
		return symbols.ErrEnded
	}
	return err
}
