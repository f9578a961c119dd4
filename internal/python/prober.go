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

// Prober finds offsets by asking a copy of an interpreter where it has things that it is
// told to make. The copy runs in a jail, as the user of the process that is traced. It is
// for one goroutine at a time and any; each file is asked once, or a few times where it
// does not answer: the machine may have been too busy for it.
type Prober struct {
	mu    sync.Mutex
	asked map[proc.Key]answer
}

type answer struct {
	offsets offsets
	err     error
	asked   int // times
}

const (
	maxAsked  = 256 // files whose answers are kept
	maxTries  = 3   // of a file that does not answer
	probeTime = 2 * time.Second
)

// offsets asks the interpreter in a mapped file, of which image is the contents.
func (p *Prober) offsets(t Target, mapped []proc.Mapping, m proc.Mapping, image *image, v Version) (offsets, error) {
	if p == nil {
		return offsets{}, errNoSource
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.asked[m.Key]
	if a.asked > 0 && a.err == nil || a.asked == maxTries {
		return a.offsets, a.err
	}
	o, err := probe(t, mapped, m, image, v)
	if errors.Is(err, proc.ErrGone) { // that says nothing of the file
		return o, err
	}
	if p.asked == nil || len(p.asked) >= maxAsked {
		p.asked = map[proc.Key]answer{}
	}
	p.asked[m.Key] = answer{o, err, a.asked + 1}
	return o, err
}

// probe runs a copy of the program of a process, and looks into it while it stands still.
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
	if m.Key != program.Key { // a copy does not lie where it would look for its library
		order.Env = []string{"LD_LIBRARY_PATH=" + path.Dir(m.Path)}
	}
	j, err := jail.Start(order)
	if err != nil {
		return offsets{}, err
	}
	o, err := ask(t.FS, j, m, image, v)
	if words := j.End(); err != nil && words != "" {
		err = fmt.Errorf("%w (%s)", err, strings.TrimSpace(words))
	}
	return o, err
}

// interpreter returns where a process has its program mapped, if that is python and not
// one that has a CPython in it: that would do what it is there for.
func interpreter(mapped []proc.Mapping, program string) (proc.Mapping, error) {
	for _, m := range mapped {
		if m.Path == program && m.Exec {
			if !strings.HasPrefix(path.Base(m.Path), "python") {
				break
			}
			return m, nil
		}
	}
	return proc.Mapping{}, fmt.Errorf("%w: %s is not python, and is not run", ErrMismatch, program)
}

// ask hears what the copy says, and finds it in its memory.
func ask(fs proc.FS, j *jail.Jailed, m proc.Mapping, image *image, v Version) (offsets, error) {
	var s said
	for {
		line, err := j.Line()
		if err != nil {
			return offsets{}, fmt.Errorf("%w: a copy of it ended too soon: %w", ErrMismatch, err)
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
		return offsets{}, fmt.Errorf("%w: a copy of it: %v", ErrMismatch, err)
	}
	base, ok := image.base(mapped, m.Key)
	for i := 0; !ok && i < len(mapped); i++ { // the copy of the program itself is a file of its own
		if jail.IsImage(mapped[i].Path) {
			base, ok = image.base(mapped, mapped[i].Key)
		}
	}
	runtime, known := image.address("_PyRuntime")
	if !ok || !known {
		return offsets{}, fmt.Errorf("%w: a copy of it is not mapped as it is", ErrMismatch)
	}
	mem, err := fs.Memory(pid, time.Now())
	if err != nil {
		return offsets{}, fmt.Errorf("%w: a copy of it: %v", ErrMismatch, err)
	}
	defer mem.Close()
	return search(memory{mem}, base+runtime, v, s)
}
