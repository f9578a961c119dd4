package explain

import (
	"fmt"
	"strings"

	"ingero/internal/tick"
)

// gpuCauses are the words for GPUs, their faults, and ranks on several GPUs.
var gpuCauses = map[string]causeWords{
	"gpu-slower": {
		head:  func(*tick.Chain) string { return "the GPU takes longer for a step" },
		cause: causeSlower,
		fix:   fixSlower,
	},
	"gpu-throttled": {
		head: func(c *tick.Chain) string { return "the GPU lowered its clocks: " + orWords(whats(c), "a GPU") },
		cause: func(c *tick.Chain, v *victim) string {
			return orWords(whats(c), "the GPU") + " ran at lower clocks, and took longer for the same steps of " + v.name
		},
		fix: func(*tick.Chain, *victim) string {
			return "heat: improve the cooling; power: raise the limit (nvidia-smi -pl) or the power supply; fault: nvidia-smi -q -d PERFORMANCE shows which"
		},
	},
	"gpu-shared": {
		head: func(c *tick.Chain) string { return "the GPU is shared with " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " takes turns on its GPU with " + culprits(c)
		},
		fix: func(c *tick.Chain, v *victim) string {
			return "move " + culpritNames(c) + " to another GPU (CUDA_VISIBLE_DEVICES), or partition this one (MIG; MPS with a limit)"
		},
	},
	"gpu-behind": {
		head: func(*tick.Chain) string { return "the launch queue is full: the GPU is behind" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " launches faster than the GPU works: " + opName(c.Op) + " waits for a free place in the queue; the host is not the cause"
		},
		fix: func(*tick.Chain, *victim) string {
			return "shorten the GPU's work (fewer or fused kernels, lower precision, CUDA graphs), or let the host do other work meanwhile; no change on the host makes this faster"
		},
	},
	"nccl-straggler": {
		head: func(c *tick.Chain) string { return "waited for a slow rank: " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " had entered its collectives and waited for " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			_, why, known := strings.Cut(whats(c), ", ")
			if !known {
				return fmt.Sprintf("find out what slows the late rank: ingero explain --pid %d", culpritPID(c))
			}
			return fmt.Sprintf("fix what slows the late rank (%s): ingero explain --pid %d", why, culpritPID(c))
		},
	},
	"nccl-missing": {
		head: func(c *tick.Chain) string {
			return "a rank did not enter " + orWords(opWord(c), "the collective") + ": " + culpritNames(c)
		},
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited in a collective that another rank had not entered: " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return fmt.Sprintf("run ingero stuck to see what the rank does now, and py-spy dump --pid %d for its stack; set a timeout to end such waits (torch.distributed.init_process_group(timeout=...))", culpritPID(c))
		},
	},
	"nccl-dead": {
		head: func(c *tick.Chain) string { return "a rank is gone: " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waits for a rank that will not come: " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return "fix what ended that rank, stop the other ranks, and restart from the last checkpoint (torchrun --max-restarts does this)"
		},
	},
	"xid": {
		head: func(c *tick.Chain) string {
			what, _, _ := strings.Cut(whats(c), ",")
			return "hit by " + orWords(what, "a GPU fault")
		},
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " was hit by " + orWords(whats(c), "a GPU fault")
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return "run ingero explain: it lists the faults, what each means and what to do"
		},
	},
}

// culpritPID returns the PID of the first culprit, or the victim's own.
func culpritPID(c *tick.Chain) uint32 {
	if len(c.Culprits) > 0 && c.Culprits[0].Thread.PID != 0 {
		return c.Culprits[0].Thread.PID
	}
	return c.PID
}

// opWord returns the name of a chain's operation, or "".
func opWord(c *tick.Chain) string {
	if c.Op == 0 {
		return ""
	}
	return opName(c.Op)
}
