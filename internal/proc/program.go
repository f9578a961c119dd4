package proc

import (
	"bytes"
	"slices"
	"strings"
)

// maxEnviron bounds how many bytes of an environment are searched.
const maxEnviron = 1 << 20

// Program has a process's arguments and environment.
type Program struct {
	StartTicks uint64 // as in Process: identifies the process
	// Args may contain secrets: redact before keeping or showing them.
	Args []string
	// Vars are the requested variables. No other variable is kept.
	Vars map[string]string
}

// Program reads the arguments of a process, and the named variables of its environment, as they
// were at exec. It waits for the process's mmap lock, possibly for long, so never call it where
// others wait.
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
	buf = dropTruncated(buf, maxCmdline)
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
	p.Vars = pick(dropTruncated(buf, maxEnviron), vars)
	return p, nil
}

// dropTruncated drops the string that the read limit truncated: half a value is another value, and
// half a secret may not be recognized as one.
func dropTruncated(b []byte, limit int) []byte {
	if len(b) < limit {
		return b
	}
	return b[:bytes.LastIndexByte(b, 0)+1]
}

// pick returns the named variables of an environment. The first of a name counts, as for getenv.
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

// cgroupsByRank returns the paths in /proc/PID/cgroup, whose lines are "id:controllers:path", by
// index in cgroupOrder. Those of other hierarchies come last. Root cgroups are left out.
func cgroupsByRank(b []byte) [][]string {
	const unified = 0
	systemd, other := slices.Index(cgroupOrder, "name=systemd"), len(cgroupOrder)
	out := make([][]string, other+1)
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
			rank = other
		}
		out[rank] = append(out[rank], string(path))
	}
	// Docker's cgroupfs driver moves processes in all hierarchies except the unified one.
	if len(out[systemd]) > 0 && !slices.Equal(out[unified], out[systemd]) {
		out[unified], out[other] = nil, append(out[other], out[unified]...)
	}
	return out
}

// cgroupPaths returns the distinct paths of all hierarchies, in order of preference.
func cgroupPaths(b []byte) []string {
	var out []string
	for _, path := range slices.Concat(cgroupsByRank(b)...) {
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}
