package causal

import "slices"

// Problem is one entry of the published list of problems that GPU jobs have. The rules that answer
// it name it: see [Rule].
type Problem struct {
	Number string // number in the list: "6b"
	Name   string
	How    string // how ingero detects it, in words
	// Needs is what detection would require, if no rule answers it.
	Needs string
}

// Problems is the whole list, in its order.
var Problems = []Problem{
	{"1", "NCCL hangs and deadlocks of distributed training",
		"The roll-call of collectives says which rank has not entered the one that others wait in, and what its threads do instead.", ""},
	{"2", "GPU starved by its data pipeline",
		"Time between calls, split by what the loop waited for: its workers, a disk, a page of memory.", ""},
	{"3", "CUDA out of memory, and fragmentation",
		"The ledger of allocations at the call that failed: what is held, what is free, and in how large pieces.", ""},
	{"4", "Silent data corruption", "",
		"what the GPU computes, and something to compare it with: neither can be seen from the host. ECC errors and their Xids are told"},
	{"5", "Costs of agents that take many steps",
		"Bursts of calls per process, and the silence between them.", ""},
	{"6", "KV-cache pressure and cascades of preemption",
		"Allocations and frees in bursts while memory is nearly full, and the steps that they lengthen.", ""},
	{"6b", "CUDA graphs that are captured again",
		"The life of each graph: captured, instantiated, launched, how often, and in which steps.", ""},
	{"7", "Hardware that fails",
		"Xids with the process that they hit, copies and kernels that have become slower, GPUs that do not answer.", ""},
	{"8", "Serving bound by the CPU",
		"Time that threads were ready and had no CPU, or waited for a lock or for Python's, in steps that wait for no GPU.", ""},
	{"9", "GPU idle while an agent waits for a tool",
		"Time without calls in which the process waited for an answer, by peer.", ""},
	{"10", "Memory that a service leaks",
		"Memory that is held grows on and on, by process and by line of code.", ""},
	{"11", "Instability of mixed precision", "",
		"the values of gradients or the scale of the loss, which only the framework knows (its hooks, or NVTX marks)"},
	{"12", "Goodput lost in training",
		"What each step took beyond a normal one, in nanoseconds, by cause.", ""},
	{"13", "Scheduling on Kubernetes",
		"CPUs that were taken away, quotas, and who had the CPU, with pod, namespace and container of both.", ""},
	{"14", "Models that are swapped",
		"Memory is freed, allocated and filled again in one stretch; with the disk that the weights came from.", ""},
	{"15", "Device-side asserts and illegal accesses",
		"The first call that failed, with its stack, the Xid, and the calls before it.", ""},
	{"16", "Versions of driver and CUDA that do not go together",
		"What the libraries say of their versions, and the first call's error.", ""},
	{"17", "Clocks held back by heat or power",
		"Reasons for low clocks of the GPU, at the time at which its kernels took longer.", ""},
	{"18", "Neighbours on the same machine or GPU",
		"Who had the CPU, the disk or the GPU while the job needed it.", ""},
	{"19", "Cold starts",
		"The first calls of a process: contexts, modules and libraries that are loaded, memory that is allocated first, the disk that they come from.", ""},
	{"20", "Tensor-parallel communication",
		"The slow rank of collectives, and packets that are lost between ranks.", ""},
	{"21", "Retrieval and inference on one GPU",
		"Which process used the GPU while the other waited for it, and calls by process.", ""},
	{"22", "Checkpoints that hold the loop up",
		"Time that steps waited for a disk or a network file system to take data.", ""},
	{"23", "PCIe as the bottleneck",
		"Copies by direction, size and kind of host memory, and the share of steps that they take.", ""},
	{"24", "Spikes of the loss", "",
		"the loss, which only the framework knows; what happened on the host and the GPU at a time is in a recording"},
	{"25", "Triton Inference Server on several GPUs", "",
		"Triton's own requests and instances (its metrics, or NVTX marks); its processes are traced as any other's"},
}

// Answer returns the rules that answer a problem, in table order.
func (p *Problem) Answer() (rules []string) {
	for i := range Rules {
		if slices.Contains(Rules[i].Problems, p.Number) {
			rules = append(rules, Rules[i].Name)
		}
	}
	return rules
}
