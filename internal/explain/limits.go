package explain

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/pkg/events"
)

// limited is a cgroup that hit its limit.
type limited struct {
	tick.Limit
	tick.Where // from its path
	victim     *victim
}

// limitOf returns the known limit of a chain, else that of the victim's own cgroup.
func limitOf(c *tick.Chain, v *victim) *limited {
	g := &limited{victim: v}
	if c != nil {
		for i := range c.Culprits {
			if l := &c.Culprits[i].Limit; l.Group != "" {
				g.Limit = tick.Limit{Group: clean(l.Group), File: clean(l.File), Raw: clean(l.Raw)}
				break
			}
		}
	}
	if g.Group == "" {
		g.Group = v.cgroup
	}
	g.Where = where.Cgroups([]string{g.Group})
	return g
}

func (g *limited) in(parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(g.Group, p) {
			return true
		}
	}
	return false
}

// manager is the software that creates cgroups and sets their limits, with the way to raise them.
// UNIT, ID, JOB and FILE are replaced.
type manager struct {
	name              string
	match             func(g *limited) bool
	cpu, memory, cpus string
	alone             string // how to give the job exclusive CPUs
}

// slurmCPUs names both commands: since Slurm 22.05, srun does not inherit the number from sbatch.
const slurmCPUs = "ask for more CPUs when the job is submitted: sbatch --cpus-per-task=N, and srun --cpus-per-task=N in the script"

// managers are searched in order; the last one always matches.
var managers = []manager{
	{"Kubernetes", func(g *limited) bool { return g.PodUID != "" || g.victim.where.PodUID != "" || g.in("kubepods") },
		"raise resources.limits.cpu of POD in its Deployment or Job",
		"raise resources.limits.memory of POD in its Deployment or Job",
		"ask for whole CPUs (requests equal to limits, CPU manager policy static)",
		"whole CPUs (requests equal to limits) and the kubelet's CPU manager policy static"},
	{"Docker", func(g *limited) bool {
		return g.Runtime == "docker" || g.Container == "" && (g.victim.where.Runtime == "docker" || g.in("docker"))
	},
		"raise the container's quota: docker update --cpus N ID", "raise the container's limit: docker update --memory N --memory-swap N ID", "docker update --cpuset-cpus LIST ID",
		"docker update --cpuset-cpus LIST ID, and other CPUs for the other containers"},
	{"Podman", func(g *limited) bool { return g.Runtime == "podman" },
		"raise the container's quota: podman update --cpus N ID", "raise the container's limit: podman update --memory N ID", "podman update --cpuset-cpus LIST ID",
		"podman update --cpuset-cpus LIST ID, and other CPUs for the other containers"},
	{"Slurm", func(g *limited) bool { return g.Job != "" || g.in("slurm") },
		slurmCPUs, "ask for more memory when the job is submitted: sbatch --mem=N", slurmCPUs,
		"sbatch --exclusive, or --cpus-per-task=N of sbatch and srun with TaskPlugin=task/affinity"},
	{"systemd, of a user", func(g *limited) bool {
		return !g.bare() && g.in("/user@") && g.unit() != "" && !strings.HasPrefix(g.unit(), "user@")
	},
		"raise the quota: systemctl --user set-property --runtime UNIT CPUQuota=N%", "raise the limit: systemctl --user set-property --runtime UNIT MemoryMax=N", "systemctl --user set-property --runtime UNIT AllowedCPUs=LIST",
		"sudo systemctl set-property --runtime system.slice AllowedCPUs=LIST keeps services off the other CPUs"},
	{"systemd", func(g *limited) bool { return !g.bare() && g.unit() != "" },
		"raise the quota: sudo systemctl set-property --runtime UNIT CPUQuota=N% (CPUQuota= removes it)", "raise the limit: sudo systemctl set-property --runtime UNIT MemoryMax=N MemoryHigh=N", "sudo systemctl set-property --runtime UNIT AllowedCPUs=LIST",
		"sudo systemctl set-property --runtime system.slice AllowedCPUs=LIST keeps services off the other CPUs, likewise user.slice"},
	{"a file", func(g *limited) bool { return g.File != "" },
		"raise the quota: echo FREE | sudo tee FILE", "raise the limit: echo N | sudo tee FILE", "echo LIST | sudo tee FILE",
		"cpuset"},
	{"not known", func(*limited) bool { return true },
		"raise the CPU quota of its cgroup: cpu.max (version 1: cpu.cfs_quota_us)", "raise the memory limit of its cgroup: memory.max (version 1: memory.limit_in_bytes)", "restore cpuset.cpus of its cgroup",
		"cpuset"},
}

// bare reports whether the limit is a version 1 cpuset, which systemd does not set.
func (g *limited) bare() bool {
	return g.Kind() == tick.LimitCPUs && strings.Contains(g.File, "cpuset"+g.Group+"/")
}

// unit returns the systemd unit of the group, or "".
func (g *limited) unit() string {
	name := path.Base(g.Group)
	switch path.Ext(name) {
	case ".service", ".scope", ".slice":
		return name
	}
	return ""
}

// free is the content of a quota file without a quota.
var free = map[string]string{"cpu.max": "max", "cpu.cfs_quota_us": "-1"}

// fix describes how to raise the limit of a kind.
func (g *limited) fix(kind func(*manager) string) string {
	for i := range managers {
		if m := &managers[i]; m.match(g) {
			return g.fill(kind(m))
		}
	}
	return ""
}

func cpuFix(m *manager) string    { return m.cpu }
func memoryFix(m *manager) string { return m.memory }
func cpusFix(m *manager) string   { return m.cpus }
func aloneFix(m *manager) string  { return m.alone }

// fill inserts names into a row.
func (g *limited) fill(s string) string {
	id := g.Container
	if id == "" {
		id = g.victim.where.Container
	}
	pod := "the container"
	if p := g.victim.where.Pod; p != "" {
		pod = "pod " + p
		if n := g.victim.where.ContainerName; n != "" {
			pod = "container " + n + " of " + pod
		}
	}
	return strings.NewReplacer("UNIT", quoted(g.unit()), "ID", orWords(id[:min(12, len(id))], "CONTAINER"), "POD", pod, "FILE", g.File,
		"FREE", orWords(free[path.Base(g.File)], "max")).Replace(s)
}

// fixThrottled describes how the job can use less of its quota, if its own threads used it up, and
// how to raise the quota.
func fixThrottled(c *tick.Chain, v *victim) string {
	g := limitOf(c, v)
	raise := g.fix(cpuFix)
	if c == nil || !ownUsers(c) {
		return raise
	}
	n := "N"
	if cpus := g.CPUs(); cpus > 0 {
		n = strconv.Itoa(max(int(cpus), 1))
	}
	of, its := *c, *v
	of.Culprits = slices.Clone(c.Culprits[1:])
	if t := otherThrottled(c); t.PID != 0 { // its threads are its own
		its.name = threadName(&t)
		for i := range of.Culprits {
			if x := &of.Culprits[i]; x.Thread.PID == t.PID {
				x.Root.Whose = tick.RelationThread
			}
		}
	}
	return strings.NewReplacer("=N", "="+n, "(N)", "("+n+")").Replace(fixCrew(&of, &its)) + "; or " + raise
}

// fixCPUs describes how to return CPUs to the job.
func fixCPUs(c *tick.Chain, v *victim) string {
	g := limitOf(c, v)
	fix := g.fix(cpusFix)
	if g.Kind() != tick.LimitCPUs { // its affinity may have been set
		fix = "sudo taskset -acp LIST " + strconv.FormatUint(uint64(c.PID), 10) + ", or " + fix
	}
	return fix
}

// otherThrottled returns a thread of the process that the kernel throttled if it is not the victim but one for which
// the victim waited, or the zero Thread.
func otherThrottled(c *tick.Chain) events.Thread {
	if len(c.Culprits) == 0 {
		return events.Thread{}
	}
	if x := &c.Culprits[0]; x.Limit.Group != "" && !x.Own && x.Thread.PID != c.PID {
		return x.Thread
	}
	return events.Thread{}
}

// ownUsers reports whether threads of the job used up its quota.
func ownUsers(c *tick.Chain) bool {
	for i := range c.Culprits {
		if c.Culprits[i].Root.Whose.InJob() {
			return true
		}
	}
	return false
}

// headThrottled names the quota, and the job's own threads if they used it up.
func headThrottled(c *tick.Chain) string {
	s := "CPU quota used up"
	for i := range c.Culprits {
		x := &c.Culprits[i]
		if x.Limit.Group != "" {
			s = "CPU quota (" + x.Limit.Value() + ") used up"
		}
		if x.Root.Whose.InJob() {
			count, _, _ := strings.Cut(x.What, ",")
			if t := otherThrottled(c); t.PID != 0 && t.PID == x.Thread.PID {
				return fmt.Sprintf("%s by %s of %s (%d)", s, clean(count), threadName(&t), t.PID)
			}
			return s + " by " + clean(count) + " of its own (" + threadName(&x.Thread) + ")"
		}
	}
	return s
}

// causeThrottled names the owner of the quota and the threads that used it up.
func causeThrottled(c *tick.Chain, v *victim) string {
	g := limitOf(c, v)
	group := orWords(g.Group, "the cgroup of "+v.name)
	if group == "/" {
		group = "the cgroup of " + v.name
	}
	s := "the CPU quota of " + group
	if g.Raw != "" {
		s += ", " + g.Value() + ","
	}
	who := v.name
	if t := otherThrottled(c); t.PID != 0 {
		who = fmt.Sprintf("%s (%d), for which %s waited", threadName(&t), t.PID, v.name)
	}
	s += " was used up, and the kernel throttled " + who
	if ownUsers(c) {
		own := *c
		own.Culprits = c.Culprits[1:]
		s += ": " + culprits(&own) + " used most of it"
	} else if len(c.Culprits) > 1 {
		other := &c.Culprits[1]
		s += fmt.Sprintf("; %s (%d) %s", threadName(&other.Thread), other.Thread.PID, clean(other.What))
	}
	return s
}
