package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"ingero/pkg/events"
)

// Finder looks for libraries that are part of larger files: a CUDA runtime that
// nvcc has linked into a program, an NCCL in a framework's. It remembers what it
// has read by build id. It may be used by many goroutines at once.
type Finder struct {
	FS FS

	mu    sync.Mutex
	known map[content]held
	uses  map[named]map[string]Use
}

// held is what is remembered of a file.
type held struct {
	libs    []events.Library // of statics
	gpuCode bool
}

// content identifies what a file holds: by its build id where it has one.
type content struct {
	id    string
	size  int64
	key   Key   // without a build id
	mtime int64 // likewise, ns
}

const (
	maxKnown      = 4096 // contents; then all are forgotten
	maxInsideLook = 1024 // files of one process
)

// Inside is what a Finder says of a process.
type Inside struct {
	Libraries []Library
	// Unseen is a file with GPU code that only a CUDA runtime can load, in a process
	// where none is found: it is linked in, and its symbols were stripped.
	Unseen string
	// Skipped counts files that were not looked into: too many, too large, or not
	// to be opened.
	Skipped int
}

// statics are the libraries that exist as archives, to be linked in.
var statics = [...]events.Library{events.LibCudart, events.LibNCCL}

// Look looks into the program of a process and all else that it maps as code, if
// it has a driver, for such libraries as it maps no file of. have is what
// [FS.Libraries] says.
func (c *Finder) Look(pid uint32, names Names, have []Library) (Inside, error) {
	var in Inside
	maps := func(lib events.Library) bool {
		return slices.ContainsFunc(have, func(l Library) bool { return l.Lib == lib })
	}
	var want []events.Library
	for _, lib := range statics {
		if !maps(lib) && !names.has(lib) {
			want = append(want, lib)
		}
	}
	if !maps(events.LibCuda) || len(want) == 0 {
		return in, nil
	}
	files, err := c.FS.Maps(pid, true)
	if err != nil {
		return in, err
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
		case errors.Is(err, ErrGone):
			return in, err
		case err != nil:
			in.Skipped++
			continue
		}
		in.add(m, h, want)
	}
	if maps(events.LibCudart) || slices.ContainsFunc(in.Libraries, func(l Library) bool { return l.Lib == events.LibCudart }) {
		in.Unseen = ""
	}
	return in, nil
}

// add takes in what one file holds.
func (in *Inside) add(m Mapping, h held, want []events.Library) {
	for _, lib := range want {
		if slices.Contains(h.libs, lib) {
			in.Libraries = append(in.Libraries, Library{Mapping: m, Lib: lib, Inside: true})
		}
	}
	if h.gpuCode && in.Unseen == "" {
		in.Unseen = m.Path
	}
}

// hold looks into a file, once for each content.
func (c *Finder) hold(pid uint32, m Mapping) (held, error) {
	file, _, err := c.FS.OpenMapped(pid, m)
	if err != nil {
		return held{}, err
	}
	defer file.Close()
	k, err := contentOf(file, m.Key)
	if err != nil {
		return held{}, err
	}
	c.mu.Lock()
	h, ok := c.known[k]
	c.mu.Unlock()
	if ok {
		return h, nil
	}
	s, err := FindSymbols(file)
	if err != nil {
		return held{}, err
	}
	h.gpuCode = s.GPUCode
	for _, lib := range statics {
		if s.Of(lib) > 0 {
			h.libs = append(h.libs, lib)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = map[content]held{}
	}
	c.known[k] = h
	return h, nil
}

func contentOf(file *os.File, key Key) (content, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return content{}, fmt.Errorf("%s: %w", file.Name(), err)
	}
	id, err := BuildID(file)
	if err != nil {
		return content{}, err
	}
	if id != "" {
		return content{id: id, size: st.Size}, nil
	}
	return content{size: st.Size, key: key, mtime: st.Mtim.Nano()}, nil
}
