package explain

import (
	"fmt"

	"ingero/internal/tick"
)

// hostCauses are the words for host causes other than a taken CPU.
var hostCauses = map[string]causeWords{
	"burst-of-programs": {
		head: func(c *tick.Chain) string {
			return "CPU taken by a burst of programs started by " + quotedNames(c)
		},
		cause: func(c *tick.Chain, v *victim) string {
			return culprits(c) + onCPUs(c) + ", while " + v.name + " was ready to run"
		},
		fix: func(c *tick.Chain, v *victim) string {
			return "start it with nice -n 19 and on other CPUs (systemd: Nice=19, CPUQuota=, AllowedCPUs=), or at another time; or give " + v.name + " CPUs of its own (cpuset)"
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
			return fmt.Sprintf("taskset -cp %d shows the CPUs that are left; give %s back what it had: ", c.PID, v.name) + fixCPUs(c, v)
		},
	},
	"debugger": {
		head: func(c *tick.Chain) string { return "held by a debugger: " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return culprits(c) + " stopped " + v.name + " again and again, without a signal"
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return "detach " + culpritNames(c) + " (py-spy: --nonblocking), or sample less often"
		},
	},
	"gil-wait": {
		head: func(c *tick.Chain) string { return "Python's global lock held by " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited for Python's global lock (GIL): " + culprits(c)
		},
		fix: func(*tick.Chain, *victim) string {
			return "move that thread's work to another process (multiprocessing, workers of the data loader), or to code that gives the lock back"
		},
	},
	"input-wait": {
		head: func(c *tick.Chain) string { return "waited for input from " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited for its input: " + culprits(c)
		},
		fix: fixRoot,
	},
	"agent-burst": {
		head: func(*tick.Chain) string { return "bursts of work" },
		cause: func(c *tick.Chain, v *victim) string {
			return "sessions gave " + v.name + " work in bursts: " + orWords(whats(c), "some steps launch many times what the others do")
		},
		fix: func(*tick.Chain, *victim) string {
			return "spread it: bound the sessions that run at once and the tokens of a turn, or batch what they ask for"
		},
	},
	"swap-in": {
		head: func(*tick.Chain) string { return "memory was read back from swap" },
		cause: func(c *tick.Chain, v *victim) string {
			return "pages of " + v.name + " had been thrown out to swap, and it waited for them: " + culprits(c)
		},
		fix: func(_ *tick.Chain, v *victim) string {
			return "more memory, or less of it for others (memory.max); memory.swap.max=0 keeps " + v.name + " out of swap"
		},
	},
	"memory-limit": {
		head: func(*tick.Chain) string { return "at the memory limit of its cgroup" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " needs more memory than its cgroup may have, and looked for pages to give back: " + culprits(c)
		},
		fix: func(c *tick.Chain, v *victim) string {
			return limitOf(c, v).fix(memoryFix) + "; or use less: fewer workers, smaller caches"
		},
	},
	"memory-reclaim": {
		head: func(*tick.Chain) string { return "the machine was short of memory" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " had to look for free pages whenever it asked for memory: " + orWords(culprits(c), "the machine has none to spare")
		},
		fix: func(*tick.Chain, *victim) string {
			return "give others less (memory.max), or protect the job's own (memory.low); raise vm.min_free_kbytes"
		},
	},
	"oom-kill": {
		head: func(*tick.Chain) string { return "a process of it was killed for want of memory" },
		cause: func(c *tick.Chain, v *victim) string {
			return "the kernel killed a process of " + v.name + ": " + culprits(c)
		},
		fix: func(*tick.Chain, *victim) string {
			return "raise the memory limit, or use less: fewer workers of the data loader, smaller batches; dmesg tells what each process held"
		},
	},
	"peer-slow": {
		head: func(c *tick.Chain) string { return "waited for " + peers(c) },
		cause: func(c *tick.Chain, v *victim) string {
			if byProcess(c) {
				return v.name + " waited for what another process sends: " + culprits(c)
			}
			return v.name + " waited for what it had asked of " + peers(c)
		},
		fix: fixRoot,
	},
	"tcp-loss": {
		head: func(*tick.Chain) string { return "packets were lost" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited for packets that had to be sent again: " + orWords(whats(c), "a peer")
		},
		fix: func(*tick.Chain, *victim) string {
			return "ip -s link and ethtool -S show where they are dropped; nstat -az TcpRetransSegs counts them"
		},
	},
	"tool-call": {
		head: func(c *tick.Chain) string { return "idle during calls of a tool: " + peers(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited for the answer of " + peers(c) + " between its steps, and the GPU had nothing to do"
		},
		fix: func(*tick.Chain, *victim) string {
			return "serve other sessions meanwhile (continuous batching), run tools in parallel, or cache what they answer"
		},
	},
}
