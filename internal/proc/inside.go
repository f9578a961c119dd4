package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"ingero/internal/elffile"
	"ingero/pkg/events"
)

// Finder finds libraries inside larger files: a CUDA runtime that nvcc has linked into a program,
// an NCCL in a framework's library. It caches results by build id. It is safe for concurrent use.
type Finder struct {
	FS FS

	mu    sync.Mutex
	known map[content]scanned
	uses  map[named]map[string]Use
}

// scanned is the cached result for a file.
type scanned struct {
	libs    []events.Library // libraries of statics in the file
	gpuCode bool
}

// content identifies a file's content, by its owner and its build id if it has one.
type content struct {
	id    string
	size  int64
	owner uint32
	key   Key   // only without a build id
	mtime int64 // only without a build id, ns
}

const (
	maxKnown      = 4096 // cached contents; a full cache is dropped
	maxInsideLook = 1024 // files per process
)

// Inside is a Finder's result for a process.
type Inside struct {
	Libraries []Library
	// Unseen is a file with GPU code that only a CUDA runtime can load, in a process without a
	// visible runtime: the runtime is linked in, and its symbols were stripped.
	Unseen string
	// Skipped counts files that were not searched: too many, too large, or not readable.
	Skipped int
}

// statics are the libraries that exist as archives for static linking.
var statics = [...]events.Library{events.LibCudart, events.LibNCCL}

// Look searches all files that a process maps as code for statically linked libraries, if the
// process has a driver. It ignores libraries that the process maps as files of their own.
func (c *Finder) Look(pid uint32, names Names) (Inside, error) {
	var in Inside
	files, err := c.FS.Maps(pid, true)
	if err != nil {
		return in, err
	}
	maps := map[events.Library]bool{}
	for i := range files {
		if lib, ok := names.Match(files[i].Path, files[i].Key); ok {
			maps[lib] = true
		}
	}
	var want []events.Library
	for _, lib := range statics {
		if !maps[lib] && !names.has(lib) {
			want = append(want, lib)
		}
	}
	if !maps[events.LibCuda] || len(want) == 0 {
		return in, nil
	}
	seen := map[Key]bool{}
	for _, m := range files {
		if seen[m.Key] || stemOf([]byte(m.Path)) != 0 {
			continue
		}
		seen[m.Key] = true
		if len(seen) > maxInsideLook {
			in.Skipped++
			continue
		}
		h, err := c.hold(pid, m)
		switch {
		case errors.Is(err, ErrExited):
			return in, err
		case err != nil:
			in.Skipped++
			continue
		}
		in.add(m, h, want)
	}
	if maps[events.LibCudart] || slices.ContainsFunc(in.Libraries, func(l Library) bool { return l.Lib == events.LibCudart }) {
		in.Unseen = ""
	}
	return in, nil
}

// add adds the libraries of one file.
func (in *Inside) add(m Mapping, h scanned, want []events.Library) {
	for _, lib := range want {
		if slices.Contains(h.libs, lib) {
			in.Libraries = append(in.Libraries, Library{Mapping: m, Lib: lib, Inside: true})
		}
	}
	if h.gpuCode && in.Unseen == "" {
		in.Unseen = m.Path
	}
}

// hold searches a file, once per content.
func (c *Finder) hold(pid uint32, m Mapping) (scanned, error) {
	file, _, err := c.FS.OpenMapped(pid, m)
	if err != nil {
		return scanned{}, err
	}
	defer file.Close()
	k, err := contentOf(file, m.Key)
	if err != nil {
		return scanned{}, err
	}
	c.mu.Lock()
	h, ok := c.known[k]
	c.mu.Unlock()
	if ok {
		return h, nil
	}
	s, err := FindSymbols(file)
	if err != nil {
		return scanned{}, err
	}
	h.gpuCode = s.GPUCode
	for _, lib := range statics {
		if s.Count(lib) > 0 {
			h.libs = append(h.libs, lib)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = map[content]scanned{}
	}
	c.known[k] = h
	return h, nil
}

func contentOf(file *os.File, key Key) (content, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return content{}, fmt.Errorf("%s: %w", file.Name(), err)
	}
	id, err := elffile.BuildID(file)
	if err != nil {
		return content{}, err
	}
	if id != "" {
		return content{id: id, size: st.Size, owner: st.Uid}, nil
	}
	return content{size: st.Size, owner: st.Uid, key: key, mtime: st.Mtim.Nano()}, nil
}
