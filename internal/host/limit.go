package host

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

const (
	maxDepth   = 16  // ancestors of a group to read
	maxThreads = 512 // threads whose CPU time is read in a round
	maxMembers = 64  // groups below one with a quota, and processes in them, to read for a traced process
	// threadRounds is the number of rounds, after one in which a quota was reached, with threads read.
	threadRounds = 30
)

// limits lists the limits that a group can reach, by controller; "" is version 2. The counter of a
// file counts how often the group itself reached its limit, without groups above or below it.
var limits = []struct {
	controller, counter, key, time string // time "": none
	unit                           uint64 // unit of time, ns
	files                          []string
	unlimited                      string
	refaults                       string // key in memory.stat, of the group and those below it; "": none
}{
	{"", "cpu.stat", "nr_throttled ", "throttled_usec ", uint64(time.Microsecond), []string{"cpu.max"}, "max", ""},
	{"", "memory.events.local", "max ", "", 0, []string{"memory.max"}, "max", "workingset_refault_file "},
	{"", "memory.events.local", "high ", "", 0, []string{"memory.high"}, "max", "workingset_refault_file "},
	{"cpu", "cpu.stat", "nr_throttled ", "throttled_time ", 1, []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}, "-1", ""},
	{"memory", "memory.failcnt", "", "", 0, []string{"memory.limit_in_bytes"}, "", "total_workingset_refault_file "},
}

// hasLimits reports whether groups of a controller have limits.
func hasLimits(controller string) bool {
	for i := range limits {
		if limits[i].controller == controller {
			return true
		}
	}
	return false
}

// reachedBy records which limits held processes back, and which threads used the quotas.
func (p *Poller) reachedBy(pids []uint32) {
	left, read, groups := maxThreads, map[uint32]bool{}, map[string]bool{}
	known := map[dir][]limitReading{}
	var throttled []uint32 // in the last threadRounds
	for _, pid := range pids {
		if own, quota := p.reached(pid, p.member(pid), known); quota != "" {
			p.throttledAt[pid] = throttling{p.round, own, quota}
		}
		if _, lately := p.throttledAt[pid]; lately {
			throttled = append(throttled, pid)
		}
	}
	slices.SortStableFunc(throttled, func(a, b uint32) int { return cmp.Compare(p.throttledAt[b].round, p.throttledAt[a].round) })
	for _, pid := range throttled {
		for _, of := range p.members(pid, groups) {
			if !read[of] && left > 0 {
				read[of] = true
				left -= p.threads(of, left)
			}
		}
	}
	maps.DeleteFunc(p.throttledAt, func(_ uint32, t throttling) bool { return p.round-t.round >= threadRounds })
	maps.DeleteFunc(p.unreached, func(_ limitFile, round uint64) bool { return round != p.round })
}

// throttling is the last round in which a process reached a quota, with the directories of its own group and of the
// group with the quota.
type throttling struct {
	round      uint64
	own, quota string
}

// limitReading is a reading of a limit.
type limitReading struct {
	tick.Limit
	times, ns uint64 // how often it was reached; how long it held the group back
	refaults  uint64 // pages of files that were read again after the kernel had evicted them
	first     bool   // in the last round it had never been reached
}

// limitFile identifies a limit of a group.
type limitFile struct {
	at    string // directory of the group
	index int    // in limits
}

// reached records which limits of a process's groups, and of their ancestors, were reached, and the
// refaults of those at a memory limit. It returns the directories of the process's own group and of the topmost
// group whose quota was reached since the last round; "": none was.
func (p *Poller) reached(pid uint32, dirs []dir, known map[dir][]limitReading) (own, quota string) {
	for _, d := range dirs {
		leaf := d.at
		for n := 0; n < maxDepth && d.path != "/" && hasLimits(d.controller); n++ {
			list, ok := known[d]
			switch {
			case ok:
			case len(known) < maxCgroups:
				list = p.limitsOf(d)
				known[d] = list
			default:
				p.unread++
			}
			for i := range list {
				x := &list[i]
				k := tick.HostKey{Kind: tick.HostLimit, PID: pid, Object: x.String()}
				before := p.last[k]
				if x.Kind() == tick.LimitCPU && (before == nil && x.first || before != nil && x.times > before.count) {
					own, quota = leaf, d.at
				}
				p.note(k, x.times, 0, x.ns, x.first)
				if x.refaults > 0 {
					p.note(tick.HostKey{Kind: tick.HostRefault, PID: pid}, x.refaults, x.refaults*pageBytes, 0, false)
				}
			}
			d.path, d.at = path.Dir(d.path), filepath.Dir(d.at)
		}
	}
	return own, quota
}

// limitsOf reads the limits of a group that were ever reached.
func (p *Poller) limitsOf(d dir) (out []limitReading) {
	for i := range limits {
		l := &limits[i]
		if l.controller != d.controller {
			continue
		}
		b := p.readPath(filepath.Join(d.at, l.counter))
		times, ok := counterOf(b, l.key)
		if !ok {
			continue
		}
		k := limitFile{d.at, i}
		if times == 0 {
			p.unreached[k] = p.round
			continue
		}
		_, first := p.unreached[k]
		var ns, refaults uint64
		if l.time != "" {
			ns, _ = counterOf(b, l.time)
		}
		raw := p.rawLimit(d.at, l.files)
		if raw == "" || l.unlimited != "" && strings.HasPrefix(raw, l.unlimited) {
			continue
		}
		if l.refaults != "" {
			refaults, _ = counterOf(p.readPath(filepath.Join(d.at, "memory.stat")), l.refaults)
		}
		file := p.shown(filepath.Join(d.at, l.files[0]))
		out = append(out, limitReading{tick.Limit{Group: d.path, File: file, Raw: raw}, times, ns * l.unit, refaults, first})
	}
	return out
}

func counterOf(b []byte, key string) (uint64, bool) {
	v, ok := field(b, key)
	if !ok {
		return 0, false
	}
	return number(v)
}

// rawLimit returns the contents of a limit's files, joined by spaces; "" if one is unreadable or
// not a number.
func (p *Poller) rawLimit(at string, files []string) string {
	var out []string
	for _, name := range files {
		words := bytes.Fields(p.readPath(filepath.Join(at, name)))
		if len(words) == 0 || len(words) > 2 {
			return ""
		}
		for _, w := range words {
			if _, ok := number(w); !ok && string(w) != "max" && string(w) != "-1" {
				return ""
			}
			out = append(out, string(w))
		}
	}
	return strings.Join(out, " ")
}

// AtMemoryLimit reports whether the OOM killer chose a process for a memory limit of its cgroup, or of a
// cgroup above: false means that the machine had no memory left. It reports true if the cgroup is unknown or
// gone. recorded is the process's last known cgroup; "": none. Call it while /proc still has the process.
func (p *Poller) AtMemoryLimit(pid uint32, recorded string) bool {
	p.Begin()
	defer delete(p.groups, pid)
	d, ok := p.memoryGroup(pid, recorded)
	if !ok {
		return true
	}
	_, err := os.Stat(d.at)
	for n := 0; n < maxDepth && d.path != "/"; n++ {
		if p.ranOut(d) {
			return true
		}
		d.path, d.at = path.Dir(d.path), filepath.Dir(d.at)
	}
	return err != nil
}

// memoryGroup returns the cgroup of a process in the hierarchy with the memory limits. For a process that is
// ending, the kernel reports the root of each version 1 hierarchy; recorded is used instead.
func (p *Poller) memoryGroup(pid uint32, recorded string) (dir, bool) {
	controller := "" // of version 2
	if slices.ContainsFunc(p.mounts, func(m mount) bool { return m.has("memory") }) {
		controller = "memory"
	}
	for _, d := range p.member(pid) {
		if d.controller == controller {
			return d, true
		}
	}
	if recorded == "" {
		return dir{}, false
	}
	return p.folder(controller, recorded)
}

// ranOut reports whether a group ever ran out of memory at its own limit; in version 1, whether it ever
// reached its limit.
func (p *Poller) ranOut(d dir) bool {
	if d.controller == "memory" {
		times, _ := counterOf(p.readPath(filepath.Join(d.at, "memory.failcnt")), "")
		return times > 0
	}
	b := p.readPath(filepath.Join(d.at, "memory.events.local"))
	if b == nil { // before Linux 5.2; this one includes groups below
		b = p.readPath(filepath.Join(d.at, "memory.events"))
	}
	times, _ := counterOf(b, "oom ")
	return times > 0
}

// members returns a process and those that share its quota: of its own group first, then of the group with the
// quota and of those below it. It skips the groups in read, and adds the others to it.
func (p *Poller) members(pid uint32, read map[string]bool) []uint32 {
	t := p.throttledAt[pid]
	pids, groups := []uint32{pid}, []string{t.own, t.quota}
	for i := 0; i < len(groups) && len(pids) < maxMembers; i++ {
		at := groups[i]
		if read[at] {
			continue
		}
		read[at] = true
		for line := range bytes.Lines(p.readPath(filepath.Join(at, "cgroup.procs"))) {
			if n, ok := number(line); ok && n < 1<<32 && len(pids) < maxMembers {
				pids = append(pids, uint32(n))
			}
		}
		below, _ := os.ReadDir(at) // of a group that is gone: none
		for _, e := range below {
			if e.IsDir() && len(groups) < maxMembers {
				groups = append(groups, filepath.Join(at, e.Name()))
			}
		}
	}
	return pids
}

// threads records the CPU time of a process's threads, by name, since they use the quota. It
// returns the number of threads read.
func (p *Poller) threads(pid uint32, most int) (n int) {
	type named struct {
		count int
		ns    uint64
	}
	sums := map[string]named{}
	for _, tid := range p.list(most, "proc", pidName(pid), "task") { // bounded by most
		b := p.read("proc", pidName(pid), "task", tid, "stat")
		open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		if open < 0 || end < open {
			continue
		}
		const utime, stime = 14 - 3, 15 - 3
		words := bytes.Fields(b[end+1:])
		if len(words) <= stime {
			continue
		}
		user, ok := number(words[utime])
		system, ok2 := number(words[stime])
		if !ok || !ok2 {
			continue
		}
		n++
		x := sums[string(b[open+1:end])]
		x.count++
		x.ns += (user + system) * userTick
		sums[string(b[open+1:end])] = x
	}
	for name, x := range sums {
		p.note(tick.HostKey{Kind: tick.HostThreads, PID: pid, Object: fmt.Sprintf("%d %s", x.count, name)}, 0, 0, x.ns, false)
	}
	return n
}

// list returns at most most names in a directory.
func (p *Poller) list(most int, elem ...string) []string {
	d, err := os.Open(filepath.Join(append([]string{"/", p.Root}, elem...)...))
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(most)
	return names
}
