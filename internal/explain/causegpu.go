package explain

import (
	"fmt"
	"strings"

	"ingero/internal/tick"
)

// gpuCauses are the words for GPUs, their faults, and ranks on several GPUs.
var gpuCauses = map[string]causeWords{
	"gpu-slower": {
		head: func(*tick.Chain) string { return "the GPU takes longer for a step" },
		cause: func(c *tick.Chain, v *victim) string {
			return orWords(whats(c), "the GPU") + " takes longer for the same steps of " + v.name + " than before, and nothing on the host does that: other kernels or shapes, or the GPU is slower"
		},
		fix: func(c *tick.Chain, v *victim) string {
			return "see what changed at that time: ingero query --by function before and after; nvidia-smi -q -d PERFORMANCE,CLOCK shows the clocks"
		},
	},
	"gpu-throttled": {
		head: func(c *tick.Chain) string { return "the GPU lowered its clocks: " + orWords(whats(c), "a GPU") },
		cause: func(c *tick.Chain, v *victim) string {
			return orWords(whats(c), "the GPU") + " ran with lower clocks, and took longer for the same steps of " + v.name
		},
		fix: func(*tick.Chain, *victim) string {
			return "heat: see to the cooling; power: raise the limit (nvidia-smi -pl) or feed it; a fault: nvidia-smi -q -d PERFORMANCE says which"
		},
	},
	"gpu-shared": {
		head: func(c *tick.Chain) string { return "the GPU is shared with " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return culprits(c) + " worked on the GPU of " + v.name + ", which takes turns"
		},
		fix: func(c *tick.Chain, v *victim) string {
			return "move " + culpritNames(c) + " to another GPU (CUDA_VISIBLE_DEVICES), or divide this one (MIG; MPS with a limit on its share)"
		},
	},
	"gpu-behind": {
		head: func(*tick.Chain) string { return "the launch queue is full: the GPU is behind" },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " launches faster than the GPU works: " + opName(c.Op) + " waits for a place in the queue; the host is not to blame"
		},
		fix: func(*tick.Chain, *victim) string {
			return "nothing on the host: make the GPU's work shorter (fewer or fused kernels, lower precision, CUDA graphs), or let the host do something else meanwhile"
		},
	},
	"nccl-straggler": {
		head: func(c *tick.Chain) string { return "waited for a slow rank: " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " had entered its collectives and waited for " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return fmt.Sprintf("see what slows the rank that is late: ingero explain --pid %d", culpritPID(c))
		},
	},
	"nccl-missing": {
		head: func(c *tick.Chain) string {
			return "a rank did not enter " + orWords(opWord(c), "the collective") + ": " + culpritNames(c)
		},
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waited in a collective that " + culprits(c) + " had not entered"
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return fmt.Sprintf("ingero stuck says what the rank does now; its stack: py-spy dump --pid %d; a timeout ends such waits (NCCL_TIMEOUT, TORCH_NCCL_ASYNC_ERROR_HANDLING=1)", culpritPID(c))
		},
	},
	"nccl-dead": {
		head: func(c *tick.Chain) string { return "a rank is gone: " + culpritNames(c) },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waits for ever: " + culprits(c)
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return "end the other ranks and start again from the last checkpoint (torchrun --max-restarts does so), after what ended that one is seen to"
		},
	},
	"xid": {
		head: func(c *tick.Chain) string {
			what, _, _ := strings.Cut(whats(c), ",")
			return "hit by " + orWords(what, "a fault of the GPU")
		},
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " was hit by " + orWords(whats(c), "a fault of the GPU")
		},
		fix: func(c *tick.Chain, _ *victim) string {
			return "ingero explain lists the faults, what each means and what to do"
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
