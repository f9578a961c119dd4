package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

// limitOthers is the advice for a machine short of memory.
const limitOthers = "limit other programs (memory.high; a memory.max below their present use kills them), or protect the job's memory (memory.low)"

// hostCauses are the words for host causes other than a taken CPU.
var hostCauses = map[string]causeWords{
	"burst-of-programs": {
		head: func(c *tick.Chain) string {
			return "CPU taken by a burst of programs started by " + quotedNames(c)
		},
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited for a CPU while a burst of programs ran" + onCPUs(c) + ": " + culprits(c)
		},
		fix: func(c *tick.Chain, v *victim) string {
			return "start it with nice -n 19 and on other CPUs (systemd: Nice=19, CPUQuota=, AllowedCPUs=), or at another time; or give " + v.name + " its own CPUs (cpuset)"
		},
	},
	"cpuset-shrunk": {
		head: func(c *tick.Chain) string {
			s := "CPUs were taken away from it"
			if l := limitOf(c, &victim{}); l.Kind() == tick.LimitCPUs {
				s += " (cpuset: " + l.Value() + ")"
			}
			return s
		},
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " may run on fewer CPUs than before, and shares them: " + culprits(c)
		},
		fix: func(c *tick.Chain, v *victim) string {
			return fmt.Sprintf("taskset -cp %d shows the CPUs that are left; give %s its CPUs back: ", c.PID, v.name) + fixCPUs(c, v)
		},
	},
	"debugger": {
		head: func(c *tick.Chain) string { return "held by a debugger: " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " was stopped repeatedly without a signal: " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return "detach " + culpritNames(c) + " (py-spy: --nonblocking), or sample less often"
		},
	},
	"gil-wait": {
		head: func(c *tick.Chain) string { return "Python GIL held by " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited for the Python GIL: " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			if receives(c) {
				return fixReceiver
			}
			return "move that thread's work to another process (multiprocessing, data loader workers), or to code that releases the GIL"
		},
	},
	"input-wait": {
		head: func(c *tick.Chain) string {
			if ended(c, tick.ForOutput) {
				return "waited to write output to " + culpritNames(c)
			}
			return waitedFor(c, "waited for input from ") + culpritNames(c)
		},
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " " + waitedFor(c, "waited for its input: ") + culprits(c)
		},
		fix: fixWait,
	},
	"agent-burst": {
		head: func(*tick.Chain) string { return "bursts of work" },
		cause: func(c *tick.Chain, v *victim) string {
			return "sessions sent " + v.name + " work in bursts: " + orWords(whats(c), "some steps made many times the usual number of launches")
		},
		fix: func(*tick.Chain, *victim) string {
			return "limit concurrent sessions and the tokens per turn, or batch their requests"
		},
	},
	"swap-in": {
		head: func(*tick.Chain) string { return "memory was read back from swap" },
		cause: func(c *tick.Chain, v *victim) string {
			return "pages of " + v.name + " had been swapped out, and it waited until they were read back: " + culprits(c)
		},
		fix: func(_ *tick.Chain, v *victim) string {
			return "add memory, " + limitOthers + "; if " + v.name + " fits into RAM, set memory.swap.max=0 before its next start"
		},
	},
	"memory-limit": {
		head: func(*tick.Chain) string { return "at the memory limit of its cgroup" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " needs more memory than its cgroup allows, and had to reclaim pages: " + culprits(c)
		},
		fix: func(c *tick.Chain, v *victim) string {
			return limitOf(c, v).fix(memoryFix) + "; or use less: fewer workers, smaller caches"
		},
	},
	"memory-reclaim": {
		head: func(*tick.Chain) string { return "the machine was short of memory" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " had to reclaim pages when it allocated memory: " + orWords(culprits(c), "the machine has no free memory")
		},
		fix: func(*tick.Chain, *victim) string {
			return limitOthers + "; sudo sysctl vm.watermark_scale_factor=50 (default 10) makes the kernel reclaim earlier"
		},
	},
	"oom-kill": {
		head: func(*tick.Chain) string { return "the OOM killer killed one of its processes" },
		cause: func(c *tick.Chain, v *victim) string {
			return "the OOM killer killed a process of " + v.name + ": " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			more := "add memory, " + limitOthers
			if slices.ContainsFunc(c.Culprits, func(x tick.Culprit) bool { return strings.HasPrefix(x.What, "memory limit") }) {
				more = "raise the memory limit"
			}
			return more + ", or use less: fewer data loader workers, smaller batches; dmesg shows how much each process held"
		},
	},
	"peer-slow": {
		head: func(c *tick.Chain) string { return "waited for " + peers(c) },
		cause: func(c *tick.Chain, v *victim) string {
			if byProcess(c) {
				return v.name + " " + waitedFor(c, "waited for data from another process: ") + culprits(c)
			}
			return v.name + " waited for a reply from " + peers(c) + codeAt(c)
		},
		fix: fixWait,
	},
	"tcp-loss": {
		head: func(*tick.Chain) string { return "packets were lost" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited for packets that were retransmitted: " + orWords(whats(c), "a peer")
		},
		fix: func(*tick.Chain, *victim) string {
			return "find out where packets are dropped: ip -s link, ethtool -S; nstat -az TcpRetransSegs counts retransmits"
		},
	},
	"tool-call": {
		head: func(c *tick.Chain) string {
			if byChild(c) {
				return "waited for a program that it started: " + culpritNames(c)
			}
			return "idle during tool calls: " + peers(c)
		},
		cause: func(c *tick.Chain, v *victim) string {
			if byChild(c) {
				return v.name + " waited until a program that it started had ended, and the GPU was idle: " + culprits(c)
			}
			return v.name + " waited for a reply from " + peers(c) + codeAt(c) + " between its steps, and the GPU was idle"
		},
		fix: func(c *tick.Chain, _ *victim) string {
			if byChild(c) {
				return "run the program less often, or in a thread while the steps go on, or call a library instead"
			}
			return "serve other sessions meanwhile (continuous batching), run tools in parallel, or cache their replies"
		},
	},
}

// byChild reports whether a job waited for the end of a program that it started.
func byChild(c *tick.Chain) bool {
	return slices.ContainsFunc(c.Culprits, func(x tick.Culprit) bool { return strings.HasPrefix(x.What, tick.ChildEnd) })
}

// ended reports whether the job waited in a way that ends the What of a culprit.
func ended(c *tick.Chain, way string) bool {
	return slices.ContainsFunc(c.Culprits, func(x tick.Culprit) bool { return strings.HasSuffix(x.What, way) })
}

// waitedFor returns words for a wait for data; other words if the job waited for another reason.
func waitedFor(c *tick.Chain, data string) string {
	if ended(c, tick.ForOutput) {
		return "waited to write its output: "
	}
	if ended(c, tick.ForReply) {
		return "waited for a reply: "
	}
	if ended(c, tick.ForMemory) || ended(c, tick.ForCall) {
		return "waited for "
	}
	return data
}

// fixWait returns the advice for a wait for another thread or process.
func fixWait(c *tick.Chain, v *victim) string {
	switch {
	case ended(c, tick.ForMemory):
		return "read mapped files ahead in another thread; change the memory map (mmap, munmap, mprotect, madvise) less often; or make " + culpritNames(c) + " faster"
	case ended(c, tick.ForOutput):
		return "make the pipe, socket buffer or queue larger (F_SETPIPE_SZ, SO_SNDBUF), make " + culpritNames(c) + " faster, or write from another thread (for logs in Python: logging.handlers.QueueHandler)"
	case ended(c, tick.ForReply):
		return "make " + culpritNames(c) + " answer faster, send the request from another thread while the steps go on, or send fewer requests (many in one)"
	case ended(c, tick.ForCall):
		return "make " + culpritNames(c) + " faster, or let another thread wait for it"
	case receives(c):
		return fixReceiver
	case c.Rule == "input-wait" && startsAnew(c):
		return "find out why " + culpritNames(c) + " ends: the job waits for the first input of each new process; keep it running (for data loaders: persistent_workers=True), or make its start cheaper"
	case c.Rule == "input-wait" && otherProgram(c, v):
		return "make " + culpritNames(c) + " faster, read its output ahead in another thread while the steps go on, or keep it running if the job starts it again and again"
	}
	return fixRoot(c, v)
}

// fixReceiver is the advice for a thread that receives what worker processes return.
const fixReceiver = "return less from the worker processes, or fewer objects (NumPy arrays or shared memory instead of lists): a thread of the job unpickles what they return, and holds the GIL meanwhile"

// receives reports whether the largest culprit is a thread of the job that receives objects from a process. One
// that was blocked itself unpickles none.
func receives(c *tick.Chain) bool {
	if len(c.Culprits) == 0 {
		return false
	}
	x := &c.Culprits[0]
	return x.Own && strings.Contains(x.At, "multiprocessing/connection.py") && !strings.HasPrefix(x.What, "was blocked itself")
}

// startsAnew reports whether the job waited about once for each of several processes, as long after the start of
// each: they started as far apart as the waits are. Workers that go on may have started at any other times.
func startsAnew(c *tick.Chain) bool {
	const together = 50 // clock ticks of 10 ms
	var starts []uint32
	for i := range c.Culprits {
		at := c.Culprits[i].Thread.Start
		if at != 0 && !slices.ContainsFunc(starts, func(o uint32) bool { return max(at, o)-min(at, o) < together }) {
			starts = append(starts, at)
		}
	}
	if len(starts) < 2 || c.Slow > len(starts) {
		return false
	}
	waits := c.To.Sub(c.From)
	apart := time.Duration(slices.Max(starts)-slices.Min(starts)) * 10 * time.Millisecond
	return (apart - waits).Abs() <= waits/4
}

// otherProgram reports whether the largest culprit computes and runs another program than the job: it is no data
// loader's worker. Workers that Python's multiprocessing starts are.
func otherProgram(c *tick.Chain, v *victim) bool {
	if len(c.Culprits) == 0 {
		return false
	}
	x := &c.Culprits[0]
	return x.Root.Did == tick.ActivityCompute && x.Cmdline != "" && v.where.Cmdline != "" && x.Cmdline != v.where.Cmdline &&
		!strings.Contains(x.Cmdline, "multiprocessing")
}
