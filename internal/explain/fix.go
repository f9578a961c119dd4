package explain

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// kthreadd is the parent of all kernel threads.
const kthreadd = 2

// fixTaken describes how to free the CPU: move the largest culprits to CPUs that the job does not
// need, or give them less of the CPU.
func fixTaken(c *tick.Chain, v *victim) string {
	const most = 2
	if programs(c) > most {
		return "give " + v.name + " its own CPUs (" + limitOf(nil, v).fix(aloneFix) + "): too many programs share them to move each one"
	}
	cores := "give " + v.name + " its own CPUs (cpuset)"
	var moves []string
	kernel := false
	seen := map[uint32]bool{}
	others, note := otherCPUs(cpusOf(c), v.cpus), ""
	if ranks, ok := v.where.LocalSize.Value(); others != "" && ok && ranks > 1 { // the CPUs of the other ranks are unknown
		others, note = "LIST", " (LIST: CPUs that no rank uses)"
	}
	for i := range c.Culprits {
		x := &c.Culprits[i]
		pid := x.Thread.PID
		switch {
		case pid == 0 || seen[pid] || x.Root.Whose.InJob() || x.Thread.Parent == c.PID: // moving a job's own workers would move the job
			continue
		case pid == kthreadd || x.Thread.Parent == kthreadd:
			kernel = true
		case len(moves) < most:
			if others != "" {
				moves = append(moves, fmt.Sprintf("sudo taskset -apc %s %d", others, pid))
			} else if s := lowerShare(x, v); s != "" && !slices.Contains(moves, s) {
				moves = append(moves, s)
			}
		}
		seen[pid] = true
	}
	switch {
	case len(moves) > 0:
		return strings.Join(moves, "; ") + note + ", or " + cores
	case kernel:
		return cores + ", and keep interrupts off them (/proc/irq/N/smp_affinity): not all kernel threads can be moved"
	}
	return cores
}

// lowerShare returns a command that leaves a culprit less of the CPUs that it shares with the victim;
// "" if none is known. A nice value has no effect between processes of different cgroups.
func lowerShare(x *tick.Culprit, v *victim) string {
	group := clean(x.Cgroup)
	if group == "" || v.cgroup == "" || group == v.cgroup {
		return fmt.Sprintf("sudo renice -n 19 -p $(ls /proc/%d/task)", x.Thread.PID) // a nice value is a thread's
	}
	// The kernel divides CPU time between the cgroups of one parent: where the paths part.
	own := strings.Split(v.cgroup, "/")
	for i, part := range strings.Split(group, "/") {
		if i < len(own) && part == own[i] {
			continue
		}
		if ext := path.Ext(part); (ext == ".service" || ext == ".scope") && !slices.ContainsFunc(own[:min(i, len(own))], isUserManager) {
			return "sudo systemctl set-property --runtime " + quoted(part) + " CPUWeight=1"
		}
		break
	}
	return ""
}

// quoted returns the name of a unit as a shell reads it: names such as dev-disk\x2dby.scope have a backslash.
func quoted(unit string) string {
	if strings.Contains(unit, `\`) {
		return "'" + unit + "'"
	}
	return unit
}

// isUserManager reports whether a cgroup is a user's systemd: its units are not the system's.
func isUserManager(part string) bool { return strings.HasPrefix(part, "user@") }

// programs returns the number of programs that took the CPU of a chain, by name.
func programs(c *tick.Chain) int {
	names := map[string]bool{}
	for i := range c.Culprits {
		if x := &c.Culprits[i]; x.Thread.TID != 0 && x.Thread.Parent != kthreadd {
			names[threadName(&x.Thread)] = true
		}
	}
	return len(names)
}

// otherCPUs returns the CPUs on which no culprit took the CPU from the victim, in taskset syntax; ""
// if there are none, or if the number of CPUs or some of the taken ones are unknown.
func otherCPUs(taken []uint16, all int) string {
	is := map[uint16]bool{}
	for _, cpu := range taken {
		is[cpu] = true
	}
	var free []uint16
	for cpu := range uint16(min(all, 4096)) {
		if !is[cpu] {
			free = append(free, cpu)
		}
	}
	if len(taken) == 0 || len(taken) >= tick.MaxCPUs {
		return ""
	}
	return cpuList(free)
}

// fixCalls are the fixes for slow calls, by class.
var fixCalls = map[events.Class]string{
	events.ClassMalloc: "allocate before the loop, or from a pool (cudaMallocAsync, the framework's caching allocator)",
	events.ClassFree:   "free after the loop, or to a pool (cudaFreeAsync): a free waits for the GPU",
	events.ClassMemcpy: "copy from pinned memory (cudaMallocHost, pin_memory=True), asynchronously",
	events.ClassMemset: "set memory asynchronously, on the stream that uses it",
	events.ClassLaunch: "launch less often: use larger kernels or a CUDA graph; look for other jobs on the GPU (nvidia-smi)",
	events.ClassSync:   "look for other jobs on the GPU and check its clocks (nvidia-smi): the GPU took longer",
}

// fixCall returns the fix for calls of an operation.
func fixCall(op events.Op) string {
	if s := fixCalls[classOf(op)]; s != "" {
		return s
	}
	return "make the call less often, or before the loop"
}
