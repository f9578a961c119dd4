package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ingero/internal/elffile"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// Process reports what a trace sees, or would see, of a process. It attaches nothing. The
// error is [proc.ErrExited] if the process does not exist.
func Process(_ context.Context, m Machine, names proc.Names, pid uint32) (wire.Check, error) {
	if m.EUID == nil {
		m.EUID = os.Geteuid
	}
	fs := proc.FS{Root: m.Root + "/proc"}
	p, err := fs.Process(pid)
	if err != nil {
		return wire.Check{}, err
	}
	x := &subject{Machine: m, fs: fs, p: &p, names: names}
	r := wire.Check{PID: pid, Comm: p.Comm, Tried: true}
	libs, err := fs.Libraries(pid, names)
	switch {
	case errors.Is(err, proc.ErrExited):
		return wire.Check{}, err
	case err != nil:
		r.Lines = append(r.Lines, wire.CheckLine{ID: "libraries", Name: "Libraries", State: Fail, Value: err.Error(),
			Do: fmt.Sprintf("sudo ingero check --pid %d", pid)})
	default:
		r.Lines = x.libraries(libs)
	}
	lines := append([]wire.CheckLine{x.who()}, x.identity()...)
	r.Lines = append(append(append(lines, x.namespace(), x.traced()), r.Lines...), x.returns(), x.seccomp())
	r.Ready = linesIn(&r, Fail) == 0
	return r, nil
}

// subject is the inspected process.
type subject struct {
	Machine
	fs    proc.FS
	p     *proc.Process
	names proc.Names
}

func (x *subject) who() wire.CheckLine {
	l := wire.CheckLine{ID: "process", Name: "Process", State: OK, Value: fmt.Sprintf("%s (%d), of user %d, in %s", x.p.Comm, x.p.PID, x.p.UID, x.p.Cgroup)}
	if x.p.Exe != "" {
		l.Note = x.p.Exe
	}
	switch {
	case x.p.Kernel:
		l.State, l.Note = Fail, "a kernel thread makes no CUDA calls"
	case x.p.Zombie:
		l.State, l.Note = Fail, "the process has ended (zombie)"
	}
	return l
}

func (x *subject) namespace() wire.CheckLine {
	l := wire.CheckLine{ID: "pid-namespace", Name: "PID namespace", State: OK, Value: "the host's"}
	if len(x.p.NSPIDs) > 1 {
		l.Value, l.Note = "a container's own", fmt.Sprintf("its PID there is %d", x.p.NSPID())
	}
	return l
}

// traced reports whether a running trace covers the process.
func (x *subject) traced() wire.CheckLine {
	l := wire.CheckLine{ID: "traced", Name: "Traced", State: OK, Value: "not now", Do: fmt.Sprintf("sudo ingero trace --pid %d", x.p.PID),
		Note: "no trace has seen its calls so far"}
	if len(x.Lock.Dirs) == 0 {
		return l
	}
	h, err := x.Lock.Holder()
	if err != nil {
		l.Value, l.Note, l.Do = "not known", err.Error(), "ingero status"
		return l
	}
	if h == nil {
		return l
	}
	s, err := x.Lock.State(*h)
	if err != nil {
		l.Value, l.Note, l.Do = "not known", fmt.Sprintf("ingero %d traces this machine, but its state cannot be read", h.PID), "ingero status"
		return l
	}
	for _, t := range s.Processes {
		if t.PID == x.p.PID {
			return tracedBy(l, h, &t)
		}
	}
	l.Note = fmt.Sprintf("ingero %d traces this machine, but not this process", h.PID)
	return l
}

func tracedBy(l wire.CheckLine, h *wire.Holder, t *wire.TracedProcess) wire.CheckLine {
	l.Value, l.Note, l.Do = fmt.Sprintf("by ingero %d", h.PID), "", ""
	switch {
	case t.Attached.IsZero():
		l.Note = "the process has not loaded a CUDA library yet"
	case t.Mapped.IsZero():
		l.Note = "calls before " + t.Attached.Local().Format("2006-01-02 15:04:05 MST") + " were missed"
	case t.Attached.After(t.Mapped):
		l.Note = fmt.Sprintf("the probes were attached %s after the process loaded CUDA; earlier calls were missed", t.Attached.Sub(t.Mapped).Round(100*time.Microsecond))
	default:
		l.Note = "from its first call"
	}
	if t.Counted {
		l.Note += "; its launches are counted but not timed, to limit overhead (--max-overhead)"
	}
	return l
}

// titles are the names of library lines.
var titles = map[events.Library]string{events.LibCudart: "CUDA runtime", events.LibCuda: "CUDA driver", events.LibNCCL: "NCCL", events.LibNVTX: "NVTX"}

// libraries reports the traced functions of each library.
func (x *subject) libraries(libs []proc.Library) (lines []wire.CheckLine) {
	in, err := (&proc.Finder{FS: x.fs}).Look(x.p.PID, x.names)
	if err != nil {
		lines = append(lines, wire.CheckLine{ID: "linked-in", Name: "Linked in", State: Lack, Value: err.Error()})
	}
	uses, err := (&proc.Finder{FS: x.fs}).Uses(x.p.PID)
	if err != nil {
		lines = append(lines, wire.CheckLine{ID: "uses", Name: "Named functions", State: Lack, Value: err.Error()})
	}
	for _, lib := range append(libs, in.Libraries...) {
		lines = append(lines, x.library(lib, uses))
	}
	switch {
	case len(lines) == 0:
		lines = append(lines, wire.CheckLine{ID: "libraries", Name: "Libraries", State: OK, Value: "no CUDA library",
			Note: "the process has not loaded libcudart, libcuda or libnccl; a trace attaches when it does"})
	case in.Unseen != "":
		lines = append(lines, wire.CheckLine{ID: "linked-in", Name: "CUDA runtime", State: Lack, Value: "linked into " + in.Unseen,
			Note: "its symbols are stripped: a trace sees driver calls but no runtime calls",
			Do:   "link the program with the shared runtime (nvcc --cudart shared), or do not strip it"})
	}
	if in.Skipped > 0 {
		lines = append(lines, wire.CheckLine{ID: "skipped", Name: "Not searched", State: Lack, Value: count(in.Skipped, "file"),
			Note: "ingero would not find a runtime linked into these files"})
	}
	return lines
}

func (x *subject) library(lib proc.Library, uses map[string]proc.Use) wire.CheckLine {
	l := wire.CheckLine{ID: strings.TrimPrefix(lib.Lib.String(), "lib"), Name: titles[lib.Lib], State: OK, Value: lib.Path}
	c, id, err := x.cover(lib)
	if err != nil {
		l.State, l.Note = Fail, err.Error()
		return l
	}
	l.BuildID, l.Probes, l.Lacks, l.Unprobed, l.Versions = id, c.Probes, c.Lacks, c.Unprobed, c.Versions
	var said []string
	if lib.Inside {
		said, l.Lacks = append(said, "linked in, found by its symbols"), nil // a program contains only the functions that it uses
	}
	if lib.Deleted {
		said = append(said, "deleted from disk")
	}
	if v := version(lib.Path, c.Versions); v != "" {
		said = append(said, "version "+v)
	}
	if id != "" {
		said = append(said, "build id "+id)
	}
	said = append(said, count(c.Probes, "function")+" to probe")
	if n := named(lib.Lib, uses); n > 0 {
		said = append(said, fmt.Sprintf("the process's files name %d", n))
	}
	if c.Stepped > 0 {
		said = append(said, fmt.Sprintf("%d of them cost a second trap", c.Stepped))
	}
	l.Note = strings.Join(said, ", ")
	if c.Probes == 0 {
		l.State = Lack
	}
	return l
}

// named counts the operations of a library that the process's files refer to.
func named(lib events.Library, uses map[string]proc.Use) (n int) {
	for i := range events.Catalog {
		if r := &events.Catalog[i]; r.Lib == lib && slices.ContainsFunc(r.AllSymbols(), func(s string) bool { return uses[s] != proc.UseNone }) {
			n++
		}
	}
	return n
}

// cover opens a library and returns what Attach would probe in it.
func (x *subject) cover(lib proc.Library) (c probes.Coverage, id string, err error) {
	f, path, err := x.fs.OpenMapped(x.p.PID, lib.Mapping)
	if err != nil {
		return c, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	o := probes.Object{Path: path, Name: lib.Path, File: f, Lib: lib.Lib}
	if lib.Inside {
		s, err := proc.FindSymbols(f)
		if err != nil {
			return c, "", err
		}
		o.Functions = s.Functions
	}
	if c, err = probes.Cover(o); err != nil {
		return c, "", err
	}
	id, err = elffile.BuildID(f)
	return c, id, err
}

// version returns the version in a file name, such as libcuda.so.550.163.01, else the last
// symbol version.
func version(path string, symbols []string) string {
	if _, v, ok := strings.Cut(filepath.Base(path), ".so."); ok && strings.Contains(v, ".") {
		return v
	}
	if len(symbols) > 0 {
		return symbols[len(symbols)-1]
	}
	_, v, _ := strings.Cut(filepath.Base(path), ".so.")
	return v
}

func (x *subject) returns() wire.CheckLine {
	l := wire.CheckLine{ID: "returns", Name: "Returns", State: OK, Value: "probed: calls are timed"}
	if why := x.p.ReturnHarm(false); why != "" {
		l.State, l.Value, l.Note = Lack, "not probed: calls are counted, not timed", why
	}
	return l
}

func (x *subject) seccomp() wire.CheckLine {
	l := wire.CheckLine{ID: "seccomp", Name: "Seccomp", State: OK, Value: "none"}
	switch x.p.Seccomp {
	case 1:
		l.Value = "strict"
	case proc.SeccompFilter:
		l.Value = "a filter"
		l.Note = "some kernels from 6.11 to 6.13 kill such a process at a return probe: trace tests for this first and, if so, only counts its calls"
	}
	return l
}
