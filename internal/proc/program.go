package proc

import (
	"bytes"
	"slices"
	"strings"
)

// maxEnviron bounds how much of an environment is looked through.
const maxEnviron = 1 << 20

// Program is what a process was started with.
type Program struct {
	StartTicks uint64 // as in Process: whose it is
	// Args may hold secrets: redact before anything is kept or shown.
	Args []string
	// Vars are those of its variables that were asked for. No other is kept.
	Vars map[string]string
}

// Program reads the arguments of a process and the named variables of its environment,
// as they were when its program began. It waits for the process's memory map to be free:
// that may be for long, so never call it where others wait.
func (f FS) Program(pid uint32, vars []string) (*Program, error) {
	d, err := f.openPID(pid)
	if err != nil {
		return nil, err
	}
	defer d.close()
	s, buf, err := d.stat(nil)
	if err != nil {
		return nil, err
	}
	p := &Program{StartTicks: s.start}
	if buf, err = d.read("cmdline", buf[:0], maxCmdline); err != nil {
		return nil, err
	}
	buf = whole(buf, maxCmdline)
	if len(buf) > 0 {
		p.Args = strings.Split(strings.TrimSuffix(string(buf), "\x00"), "\x00")
	}
	if len(vars) == 0 {
		return p, nil
	}
	defer func() { clear(buf[:cap(buf)]) }()
	if buf, err = d.read("environ", buf[:0], maxEnviron); err != nil {
		return p, err
	}
	p.Vars = pick(whole(buf, maxEnviron), vars)
	return p, nil
}

// whole leaves out the string that the limit of what is read cut in two: half a value is
// another, and half a secret need not look like one.
func whole(b []byte, limit int) []byte {
	if len(b) < limit {
		return b
	}
	return b[:bytes.LastIndexByte(b, 0)+1]
}

// pick returns the named variables of an environment. The first of a name counts, as
// it does for getenv.
func pick(environ []byte, names []string) map[string]string {
	out := map[string]string{}
	for len(environ) > 0 {
		var kv []byte
		kv, environ, _ = bytes.Cut(environ, []byte{0})
		key, value, ok := bytes.Cut(kv, []byte("="))
		if !ok || !slices.Contains(names, string(key)) {
			continue
		}
		if _, again := out[string(key)]; !again {
			out[string(key)] = string(value)
		}
	}
	return out
}

// eachCgroup visits the lines of /proc/PID/cgroup, "id:controllers:path", but those of
// hierarchies that the process is at the root of. rank is the place in cgroupOrder, its
// length for those that are not in it.
func eachCgroup(b []byte, visit func(rank int, path string)) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		_, rest, ok1 := bytes.Cut(line, []byte(":"))
		ctl, path, ok2 := bytes.Cut(rest, []byte(":"))
		if !ok1 || !ok2 || len(path) < 2 || path[0] != '/' {
			continue
		}
		rank := slices.IndexFunc(cgroupOrder, func(name string) bool { return hasController(ctl, name) })
		if rank < 0 {
			rank = len(cgroupOrder)
		}
		visit(rank, string(path))
	}
}

// cgroupPaths returns the paths of all hierarchies, each once, those first that tell
// most.
func cgroupPaths(b []byte) []string {
	byRank := make([][]string, len(cgroupOrder)+1)
	eachCgroup(b, func(rank int, path string) { byRank[rank] = append(byRank[rank], path) })
	var out []string
	for _, path := range slices.Concat(byRank...) {
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}
