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
		"The roll-call shows which rank has not entered the collective that the others wait in, and what its threads do instead.", ""},
	{"2", "GPU starved by its data pipeline",
		"Time between calls, split by what the loop waited for: its workers, a disk, a page of memory.", ""},
	{"3", "CUDA out of memory, and fragmentation",
		"The ledger of allocations at the call that failed: held memory, free memory, and how fragmented it is.", ""},
	{"4", "Silent data corruption", "",
		"the results that the GPU computes and a reference to compare them with; the host sees neither. ECC errors and their XIDs are reported"},
	{"5", "Cost of multi-step agents",
		"Bursts of calls per process, and the idle time between them.", ""},
	{"6", "KV-cache pressure and preemption cascades",
		"Bursts of allocations and frees while memory is nearly full, and the steps that they lengthen.", ""},
	{"6b", "CUDA graph recapture",
		"The life cycle of each graph: captures, instantiations and launches, and the steps in which they occur.", ""},
	{"7", "Failing hardware",
		"XIDs with the process that they hit, copies and kernels that became slower, GPUs that do not respond.", ""},
	{"8", "CPU-bound serving",
		"Time that threads waited for a CPU, a lock or the GIL, in steps that do not wait for the GPU.", ""},
	{"9", "GPU idle while an agent waits for a tool",
		"Time without calls in which the process waited for a reply, by peer.", ""},
	{"10", "Memory leak in a service",
		"Held memory that keeps growing, by process and by line of code.", ""},
	{"11", "Mixed-precision instability", "",
		"the gradient values or the loss scale, which only the framework knows (its hooks, or NVTX marks)"},
	{"12", "Goodput lost in training",
		"The time that each step took beyond a normal one, in nanoseconds, by cause.", ""},
	{"13", "Scheduling on Kubernetes",
		"CPUs that were taken away, quotas, and who used the CPU, with pod, namespace and container of both.", ""},
	{"14", "Model swapping",
		"Memory that is freed, allocated and refilled in one go, and the disk that the weights came from.", ""},
	{"15", "Device-side asserts and illegal accesses",
		"The first failed call with its stack, the XID, and the calls before it.", ""},
	{"16", "Driver and CUDA version mismatch",
		"The versions that the libraries report, and the error of the first call.", ""},
	{"17", "Clocks lowered by heat or power",
		"The GPU's reasons for low clocks at the time when its kernels took longer.", ""},
	{"18", "Neighbours on the same machine or GPU",
		"Who used the CPU, the disk or the GPU while the job needed it.", ""},
	{"19", "Cold starts",
		"The first calls of a process: loading of contexts, modules and libraries, the first allocations, and the disk that they are read from.", ""},
	{"20", "Tensor-parallel communication",
		"The slow rank of collectives, and packets lost between ranks.", ""},
	{"21", "Retrieval and inference on one GPU",
		"Which process used the GPU while the other waited for it, and calls by process.", ""},
	{"22", "Checkpoints that block the loop",
		"Time that steps waited for writes to a disk or a network file system.", ""},
	{"23", "PCIe as the bottleneck",
		"Copies by direction, size and kind of host memory, and the share of steps that they take.", ""},
	{"24", "Loss spikes", "",
		"the loss, which only the framework knows. A recording shows what happened on the host and the GPU at that time"},
	{"25", "Triton Inference Server on several GPUs", "",
		"Triton's requests and instances (its metrics, or NVTX marks). Its processes are traced like any other"},
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
