package host

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

var pageBytes = uint64(os.Getpagesize())

// mount is a mounted cgroup hierarchy.
type mount struct {
	at    string   // mount point
	root  string   // mounted part of the hierarchy
	names []string // controllers; none: the unified hierarchy (version 2)
	// private means that a cgroup namespace hides the top of the hierarchy. own is the own cgroup
	// there, relative to the top; "": unknown.
	private bool
	own     string
}

// has reports whether a hierarchy has one of these controllers; "" is version 2.
func (m *mount) has(controllers ...string) bool {
	return slices.ContainsFunc(controllers, func(name string) bool {
		return name == "" && m.names == nil || name != "" && slices.Contains(m.names, name)
	})
}

// parseMounts parses /proc/PID/mountinfo (proc(5)).
func parseMounts(b []byte) (out []mount) {
	for line := range bytes.Lines(b) {
		head, tail, ok := strings.Cut(strings.TrimSpace(string(line)), " - ")
		h, t := strings.Fields(head), strings.Fields(tail)
		if !ok || len(h) < 5 || len(t) < 3 {
			continue
		}
		m := mount{at: h[4], root: h[3]}
		switch t[0] {
		case "cgroup2":
		case "cgroup":
			m.names = strings.Split(t[2], ",")
		default:
			continue
		}
		if !slices.ContainsFunc(out, func(x mount) bool { return slices.Equal(x.names, m.names) }) { // first is enough
			out = append(out, m)
		}
	}
	return out
}

// dir is a cgroup in one hierarchy.
type dir struct {
	controller string // "" for version 2
	path       string // as the kernel reports it to processes of the host
	at         string // its directory, below Root
}

// membership has the cgroups of a process.
type membership struct {
	dirs  []dir
	round uint64 // in which it was read
}

// membershipAge is the number of rounds between reads: processes rarely move.
const membershipAge = 30

// member returns the cgroups of a process, except root cgroups.
func (p *Poller) member(pid uint32) []dir {
	m := p.groups[pid]
	if m != nil && p.round-m.round < membershipAge {
		return m.dirs
	}
	b := p.read("proc", pidName(pid), "cgroup")
	if b == nil {
		if m != nil { // the process has ended; its cgroup may still exist
			return m.dirs
		}
		return nil
	}
	m = &membership{round: p.round}
	for line := range bytes.Lines(b) { // "id:controllers:path"
		words := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(words) != 3 {
			continue
		}
		for _, name := range strings.Split(words[1], ",") {
			if d, ok := p.folder(name, words[2]); ok {
				m.dirs = append(m.dirs, d)
			}
		}
	}
	p.groups[pid] = m
	return m.dirs
}

// folder returns a cgroup with the directory of its files; false for a root cgroup.
func (p *Poller) folder(controller, of string) (dir, bool) {
	for i := range p.mounts {
		m := &p.mounts[i]
		switch {
		case !m.has(controller):
			continue
		case m.private:
			return p.inNamespace(m, controller, of)
		}
		tree, full := m.at, path.Clean("/"+of) // stays within the mount
		rel, ok := strings.CutPrefix(full+"/", strings.TrimSuffix(m.root, "/")+"/")
		if !ok { // only the host's mount has the group
			tree, rel = filepath.Join(hostRoot, m.at), full
		}
		return dir{controller, of, filepath.Join("/", p.Root, tree, rel)}, of != "/"
	}
	return dir{}, false
}

// shown returns the path of a cgroup's file on the host.
func (p *Poller) shown(file string) string {
	file = filepath.Join("/", strings.TrimPrefix(file, filepath.Join("/", p.Root)))
	return strings.TrimPrefix(file, "/"+hostRoot)
}

// cgroupFiles lists the files to read of a cgroup, by controller; "" is version 2.
var cgroupFiles = []struct {
	controller, name string
	parse            func(p *Poller, object string, b []byte)
}{
	{"", "cpu.stat", func(p *Poller, object string, b []byte) {
		p.throttled(object, b, "throttled_usec ", uint64(time.Microsecond))
		p.counter(tick.HostCgroupCPU, object, b, "usage_usec ", uint64(time.Microsecond))
	}},
	{"", "cpu.pressure", func(p *Poller, object string, b []byte) { p.pressure(tick.HostCPUPressure, 0, object, b) }},
	{"", "memory.pressure", func(p *Poller, object string, b []byte) {
		p.pressure(tick.HostMemoryPressure, tick.HostMemoryFull, object, b)
	}},
	{"", "io.pressure", func(p *Poller, object string, b []byte) {
		p.pressure(tick.HostIOPressure, tick.HostIOFull, object, b)
	}},
	{"", "memory.events", func(p *Poller, object string, b []byte) { p.counter(tick.HostAtLimit, object, b, "max ", 0) }},
	{"cpu", "cpu.stat", func(p *Poller, object string, b []byte) { p.throttled(object, b, "throttled_time ", 1) }},
	{"cpuacct", "cpuacct.usage", func(p *Poller, object string, b []byte) { p.counter(tick.HostCgroupCPU, object, b, "", 1) }},
	{"memory", "memory.failcnt", func(p *Poller, object string, b []byte) { p.counter(tick.HostAtLimit, object, b, "", 0) }},
}

// hasFiles reports whether cgroupFiles has files of a controller.
func hasFiles(controller string) bool {
	for i := range cgroupFiles {
		if cgroupFiles[i].controller == controller {
			return true
		}
	}
	return false
}

// cgroups reads the cgroups of the processes, each once.
func (p *Poller) cgroups(pids []uint32) {
	seen := map[dir]bool{} // controllers may share one directory
	for _, pid := range pids {
		for _, d := range p.member(pid) {
			if seen[d] || !hasFiles(d.controller) {
				continue
			}
			if len(seen) == maxCgroups {
				p.unread++
				continue
			}
			seen[d] = true
			for i := range cgroupFiles {
				f := &cgroupFiles[i]
				if f.controller != d.controller {
					continue
				}
				if b := p.readPath(filepath.Join(d.at, f.name)); b != nil {
					f.parse(p, d.path, b)
				}
			}
		}
	}
	p.reachedBy(pids)
	for pid, m := range p.groups {
		if p.round-m.round > 2*membershipAge {
			delete(p.groups, pid)
		}
	}
}

// throttled reads cpu.stat: how often a cgroup ran out of its CPU quota, and how long its threads
// were throttled, in units of unit ns.
func (p *Poller) throttled(object string, b []byte, key string, unit uint64) {
	times, ok := field(b, "nr_throttled ")
	long, ok2 := field(b, key)
	if !ok || !ok2 {
		return
	}
	n, ok := number(times)
	ns, ok2 := number(long)
	if ok && ok2 {
		p.note(tick.HostKey{Kind: tick.HostThrottled, Object: object}, n, 0, ns*unit, false)
	}
}

// counter reads the number after a key: a time in units of unit ns, or a count if unit is 0.
func (p *Poller) counter(kind tick.HostEvent, object string, b []byte, key string, unit uint64) {
	v, ok := field(b, key)
	if !ok {
		return
	}
	n, ok := number(v)
	switch {
	case !ok:
	case unit == 0:
		p.note(tick.HostKey{Kind: kind, Object: object}, n, 0, 0, false)
	default:
		p.note(tick.HostKey{Kind: kind, Object: object}, 0, 0, n*unit, false)
	}
}
