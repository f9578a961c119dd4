package host

import (
	"math/bits"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// allowance has the number of CPUs of a process, and the number taken from it.
type allowance struct {
	cpus  int
	taken uint64
	by    tick.Limit // the group that took the last ones; without a File: none
	byIt  uint64     // times that this group did
	round uint64     // last round with the process
}

// affinity counts the CPUs that a process may no longer use: a smaller cpuset, or a changed
// affinity.
func (p *Poller) affinity(pid uint32) {
	mask, ok := field(p.read("proc", pidName(pid), "status"), "Cpus_allowed:")
	if !ok {
		return
	}
	may := 0
	for _, digit := range mask {
		if n, err := strconv.ParseUint(string(digit), 16, 8); err == nil { // skips the commas
			may += bits.OnesCount64(n)
		}
	}
	a := p.allowed[pid]
	if a == nil {
		a = &allowance{cpus: may}
		p.allowed[pid] = a
	}
	if fewer := uint64(max(a.cpus-may, 0)); fewer > 0 {
		a.taken += fewer
		delete(p.groups, pid) // it may have moved to another group
		if by := p.cpuset(pid, may); by != a.by {
			a.by, a.byIt = by, 0
		}
		a.byIt++
	}
	a.cpus, a.round = may, p.round
	p.note(tick.HostKey{Kind: tick.HostCPUsTaken, PID: pid}, a.taken, 0, 0, false)
	if a.by.File != "" {
		p.note(tick.HostKey{Kind: tick.HostLimit, PID: pid, Object: a.by.String()}, a.byIt, 0, 0, true)
	}
}

// cpusets has the files of a cpuset by controller: requested CPUs and effective CPUs; "" is version
// 2.
var cpusets = map[string]struct{ cpus, effective string }{
	"":       {"cpuset.cpus", "cpuset.cpus.effective"},
	"cpuset": {"cpuset.cpus", "cpuset.effective_cpus"},
}

// cpuset returns the group whose cpuset limits a process to may CPUs: the topmost that lists its
// own CPUs and leaves no more than the groups below it. It is empty if no group does, as with an
// affinity of the process itself.
func (p *Poller) cpuset(pid uint32, may int) (by tick.Limit) {
	for _, d := range p.member(pid) {
		files, ok := cpusets[d.controller]
		if !ok {
			continue
		}
		for n := 0; n < maxDepth && d.path != "/"; n++ {
			list := p.cpuList(filepath.Join(d.at, files.effective))
			asked := p.cpuList(filepath.Join(d.at, files.cpus))
			if list == "" && d.controller != "" { // before 4.2
				list = asked
			}
			if list != "" && countCPUs(list) != may {
				break
			}
			if list != "" && asked != "" {
				by = tick.Limit{Group: d.path, File: p.shown(filepath.Join(d.at, files.cpus)), Raw: list}
			}
			d.path, d.at = path.Dir(d.path), filepath.Dir(d.at)
		}
		if by.File != "" {
			return by
		}
	}
	return by
}

// cpuList reads a list of CPUs, "0-3,8"; "" if there is none.
func (p *Poller) cpuList(file string) string {
	list := strings.TrimSpace(string(p.readPath(file)))
	if countCPUs(list) == 0 {
		return ""
	}
	return list
}

// countCPUs returns the number of CPUs in a list; 0 if it is invalid.
func countCPUs(list string) (n int) {
	for _, r := range strings.Split(list, ",") {
		from, to, ok := strings.Cut(r, "-")
		if !ok {
			to = from
		}
		a, err := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err != nil || err2 != nil || b < a {
			return 0
		}
		n += int(b-a) + 1
	}
	return n
}
