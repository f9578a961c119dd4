package explain

import (
	"fmt"
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// kthreadd is the parent of all kernel threads.
const kthreadd = 2

// fixTaken describes how to free the CPU: move the largest culprits to CPUs that the victim does
// not need.
func fixTaken(c *tick.Chain, v *victim) string {
	const most = 2
	if programs(c) > most {
		return "give " + v.name + " its own CPUs (" + limitOf(nil, v).fix(aloneFix) + "): too many programs share them to move each one"
	}
	cores := "give " + v.name + " its own CPUs (cpuset)"
	var moves []string
	kernel := false
	seen := map[uint32]bool{}
	others := otherCPUs(cpusOf(c), v.cpus)
	for i := range c.Culprits {
		x := &c.Culprits[i]
		pid := x.Thread.PID
		switch {
		case pid == 0 || seen[pid] || x.Root.Whose.InJob() || x.Thread.Parent == c.PID: // moving a job's own workers would move the job
			continue
		case pid == kthreadd || x.Thread.Parent == kthreadd:
			kernel = true
		case len(moves) < most:
			if others == "" {
				moves = append(moves, fmt.Sprintf("renice -n 19 -p $(ls /proc/%d/task)", pid)) // a nice value is a thread's
			} else {
				moves = append(moves, fmt.Sprintf("taskset -apc %s %d", others, pid))
			}
		}
		seen[pid] = true
	}
	switch {
	case len(moves) > 0:
		return strings.Join(moves, "; ") + ", or " + cores
	case kernel:
		return cores + ", and keep interrupts off them (/proc/irq/N/smp_affinity): not all kernel threads can be moved"
	}
	return cores
}

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

// otherCPUs returns the CPUs that are not taken, in taskset syntax; "" if there are none, the
// number of CPUs is unknown, or not all taken ones are known.
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
