package python

import (
	_ "embed" // probe.py
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"ingero/internal/jail"
	"ingero/internal/proc"
)

//go:embed probe.py
var probeScript string

// Prober finds offsets with a copy of an interpreter: the copy makes objects and prints their
// addresses. It runs in a jail, as the user of the traced process. A Prober is safe for concurrent
// use. It probes each file once, or a few times if the copy times out on a busy machine.
type Prober struct {
	mu      sync.Mutex
	results map[proc.Key]answer
}

type answer struct {
	offsets offsets
	err     error
	asked   int // number of tries
}

const (
	maxAsked  = 256 // files whose results are kept
	maxTries  = 3   // per file, if the copy does not answer
	probeTime = 2 * time.Second
)

// offsets probes the interpreter in a mapped file. image is the file's contents.
func (p *Prober) offsets(t Target, mapped []proc.Mapping, m proc.Mapping, image *image, v Version) (offsets, error) {
	if p == nil {
		return offsets{}, errNoSource
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.results[m.Key]
	if a.asked > 0 && a.err == nil || a.asked == maxTries {
		return a.offsets, a.err
	}
	o, err := probe(t, mapped, m, image, v)
	if errors.Is(err, proc.ErrExited) { // says nothing about the file
		return o, err
	}
	if p.results == nil || len(p.results) >= maxAsked {
		p.results = map[proc.Key]answer{}
	}
	p.results[m.Key] = answer{o, err, a.asked + 1}
	return o, err
}

// probe runs a copy of a process's program, and reads its memory while it stands still.
func probe(t Target, mapped []proc.Mapping, m proc.Mapping, image *image, v Version) (offsets, error) {
	who, err := t.FS.Process(t.PID)
	if err != nil {
		return offsets{}, err
	}
	program, err := interpreter(mapped, who.Exe)
	if err != nil {
		return offsets{}, err
	}
	file, _, err := t.FS.OpenMapped(t.PID, program)
	if err != nil {
		return offsets{}, err
	}
	defer file.Close()
	root, err := t.FS.OpenRoot(t.PID)
	if err != nil {
		return offsets{}, err
	}
	defer root.Close()
	order := &jail.Program{Image: file, Root: root, UID: who.UID, GID: who.GID, Time: probeTime,
		Args: []string{who.Exe, "-I", "-S", "-c", probeScript}}
	if m.Key != program.Key { // the copy is not where it would look for its library
		order.Env = []string{"LD_LIBRARY_PATH=" + path.Dir(m.Path)}
	}
	j, err := jail.Start(order)
	if err != nil {
		return offsets{}, err
	}
	o, err := runProbe(t.FS, j, m, image, v)
	if words := j.End(); err != nil && words != "" {
		err = fmt.Errorf("%w (%s)", err, strings.TrimSpace(words))
	}
	return o, err
}

// interpreter returns the mapping of a process's program if that is python. A program that embeds
// CPython is refused, since its copy would do the program's own work.
func interpreter(mapped []proc.Mapping, program string) (proc.Mapping, error) {
	for _, m := range mapped {
		if m.Path == program && m.Exec {
			if !strings.HasPrefix(path.Base(m.Path), "python") {
				break
			}
			return m, nil
		}
	}
	return proc.Mapping{}, fmt.Errorf("%w: %s is not called python, so ingero does not run a copy", ErrMismatch, program)
}

// runProbe reads what the copy prints, and finds the offsets in its memory.
func runProbe(fs proc.FS, j *jail.Jailed, m proc.Mapping, image *image, v Version) (offsets, error) {
	var s probeOutput
	for {
		line, err := j.Line()
		if err != nil {
			return offsets{}, fmt.Errorf("%w: the copy of the interpreter ended too soon: %w", ErrMismatch, err)
		}
		if line == "done" {
			break
		}
		if err := s.parse(line); err != nil {
			return offsets{}, err
		}
	}
	pid := uint32(j.PID)
	mapped, err := fs.Maps(pid, false)
	if err != nil {
		return offsets{}, fmt.Errorf("%w: the copy of the interpreter: %v", ErrMismatch, err)
	}
	base, ok := image.base(mapped, m.Key)
	for i := 0; !ok && i < len(mapped); i++ { // a copied program is a file of its own
		if jail.IsImage(mapped[i].Path) {
			base, ok = image.base(mapped, mapped[i].Key)
		}
	}
	runtime, known := image.address("_PyRuntime")
	if !ok || !known {
		return offsets{}, fmt.Errorf("%w: the copy of the interpreter is mapped differently", ErrMismatch)
	}
	mem, err := fs.Memory(pid, time.Time{})
	if err != nil {
		return offsets{}, fmt.Errorf("%w: the copy of the interpreter: %v", ErrMismatch, err)
	}
	defer mem.Close()
	return search(memory{mem}, base+runtime, v, s)
}
