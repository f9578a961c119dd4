package python

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/proc"
)

// maxFiles bounds the number of a process's files that are searched.
const maxFiles = 8

// Target is a process to search for an interpreter.
type Target struct {
	FS     proc.FS
	PID    uint32
	Memory Reader
	Prober *Prober // finds offsets with a copy of the interpreter if no other source fits; nil: runs none
}

// Reader reads the memory of a process by address.
type Reader interface {
	ReadAt(b []byte, at int64) (int, error)
}

// Find looks for the interpreter of a process. Its error says why no interpreter can be read;
// Reason shortens it. After ErrNotReady, a later retry may succeed.
func Find(t Target) (*Process, error) {
	mapped, err := t.FS.Maps(t.PID, false)
	if err != nil {
		return nil, err
	}
	t.Memory = &limited{t.Memory, maxReads}
	worst := fmt.Errorf("pid %d: %w", t.PID, ErrNotPython)
	for _, m := range candidates(mapped, t.FS.Exe(t.PID)) {
		p, err := t.inFile(mapped, m)
		if err == nil {
			p.waitedFor(t)
			return p, nil
		}
		if !errors.Is(err, ErrNotPython) || errors.Is(worst, ErrNotPython) {
			worst = fmt.Errorf("%s of pid %d: %w", m.Path, t.PID, err)
		}
	}
	return nil, worst
}

// candidates returns the files that may contain an interpreter: libraries, then programs. program
// is the path of the process's own one, which may have any name.
func candidates(mapped []proc.Mapping, program string) []proc.Mapping {
	var libs, out []proc.Mapping
	seen := map[proc.Key]bool{}
	for _, m := range mapped {
		if seen[m.Key] {
			continue
		}
		seen[m.Key] = true
		switch base := path.Base(m.Path); {
		case strings.HasPrefix(base, "libpython"):
			libs = append(libs, m)
		case strings.HasPrefix(base, "python") || m.Path == program:
			out = append(out, m)
		}
	}
	out = append(libs, out...)
	return out[:min(len(out), maxFiles)]
}

// inFile looks for an interpreter in one mapped file.
func (t Target) inFile(mapped []proc.Mapping, m proc.Mapping) (*Process, error) {
	file, _, err := t.FS.OpenMapped(t.PID, m)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	image, err := readImage(file)
	if err != nil {
		return nil, err
	}
	runtime, ok := image.address("_PyRuntime")
	if !ok {
		return nil, fmt.Errorf("no _PyRuntime: %w", ErrNotPython)
	}
	base, ok := image.base(mapped, m.Key)
	if !ok {
		return nil, fmt.Errorf("it is not mapped like a program: %w", ErrMismatch)
	}
	p := &Process{Path: m.Path, Facts: Facts{Runtime: base + runtime}}
	mem := memory{t.Memory}
	if err := t.threads(mapped, &p.Facts); err != nil {
		return nil, err
	}
	hint := t.hint(mem, image, base, m.Path)
	return p, p.settle(mem, hint, []slowSource{
		{SourceDWARF, func() (offsets, error) { return dwarfOffsets(file) }},
		{SourceProbe, func() (offsets, error) { return t.Prober.offsets(t, mapped, m, image, hint) }},
	})
}

// slowSource is a source of offsets for when no faster one fits.
type slowSource struct {
	source Source
	find   func() (offsets, error)
}

// settle finds the offsets that fit. hint is the version, if known.
func (p *Process) settle(m memory, hint Version, slow []slowSource) error {
	head := make([]byte, publishedSize)
	if err := m.read(head, p.Facts.Runtime); err == nil {
		v, o, ok, err := parsePublished(head)
		if ok && err == nil {
			p.Version, p.Source, p.off = v, SourcePublished, o
			err = m.verify(&p.Facts, o)
		}
		if ok {
			return err
		}
	}
	err := p.settleByTable(m, hint)
	if err == nil || errors.Is(err, ErrNotReady) || errors.Is(err, ErrVersion) || errors.Is(err, errReads) {
		return err
	}
	for _, source := range slow {
		o, wrong := source.find()
		if errors.Is(wrong, errNoSource) {
			continue
		}
		p.Version, p.Source, p.off = hint, source.source, o
		if wrong == nil {
			wrong = m.verify(&p.Facts, o)
		}
		if wrong == nil {
			return nil
		}
		err = errors.Join(err, fmt.Errorf("by its %s: %w", source.source, wrong))
	}
	return err
}

// errNoSource means that a source has no offsets.
var errNoSource = errors.New("no source of offsets")

func (p *Process) settleByTable(m memory, hint Version) error {
	result := fmt.Errorf("CPython %s: %w (supported: %s to %s)", hint, ErrVersion, oldest, newest)
	ready := true
	for _, v := range slices.SortedFunc(maps.Keys(byVersion), func(a, b Version) int { return int(a.Minor) - int(b.Minor) }) {
		if hint != (Version{}) && hint != v {
			continue
		}
		err := m.verify(&p.Facts, byVersion[v])
		if err == nil {
			p.Version, p.Source, p.off = v, SourceTable, byVersion[v]
			return nil
		}
		if errors.Is(err, errReads) {
			return err
		}
		if ready {
			result = fmt.Errorf("CPython %s: %w", v, err)
		}
		ready = ready && !errors.Is(err, ErrNotReady)
	}
	return result
}

var versionInName = regexp.MustCompile(`python3\.(\d{1,2})`)

// hint returns the interpreter's version from its symbol Py_Version (3.11 on), or from its file
// name.
func (t Target) hint(m memory, image *image, base uint64, name string) Version {
	if at, ok := image.address("Py_Version"); ok {
		if w, err := m.word(base + at); err == nil && w>>24 == 3 {
			return Version{3, uint8(w >> 16)}
		}
	}
	if found := versionInName.FindStringSubmatch(path.Base(name)); found != nil {
		minor, _ := strconv.ParseUint(found[1], 10, 8)
		return Version{3, uint8(minor)}
	}
	return Version{}
}
