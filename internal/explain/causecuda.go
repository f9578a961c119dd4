package explain

import (
	"fmt"
	"strings"

	"ingero/internal/tick"
)

// allocate is the advice for programs that ask the driver for memory in their loop.
const allocate = "allocate before the loop, or from a pool (cudaMallocAsync; PyTorch: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)"

// says returns a sentence about the victim and the What of its culprits.
func says(before, between string) func(c *tick.Chain, v *victim) string {
	return func(c *tick.Chain, v *victim) string {
		return before + v.name + between + orWords(whats(c), opName(c.Op))
	}
}

func always(words string) func(*tick.Chain, *victim) string {
	return func(*tick.Chain, *victim) string { return words }
}

// headFew is the headline for calls of an operation, or for the few that take nearly all of its
// time.
func headFew(words string) func(*tick.Chain) string {
	return func(c *tick.Chain) string {
		if s := whats(c); strings.Contains(s, " a step: ") {
			return "few calls take nearly all the time: " + s
		}
		return opName(c.Op) + words
	}
}

// headCold returns the length of a cold start in normal steps.
func headCold(c *tick.Chain) string {
	if c.StepP50 <= 0 || c.Lost < 2*c.StepP50 {
		return "a cold start"
	}
	return fmt.Sprintf("a cold start, %.0fx a normal step", float64(c.Lost)/float64(c.StepP50))
}

func head(words string) func(*tick.Chain) string { return func(*tick.Chain) string { return words } }

// cudaCauses are the words for a program's own use of CUDA.
var cudaCauses = map[string]causeWords{
	"alloc-slow": {
		head:  headFew(" took long, now and then"),
		cause: says("", " asked the driver for memory, which took long while the GPU had nothing to do: "),
		fix:   always(allocate),
	},
	"alloc-storm": {
		head:  func(c *tick.Chain) string { return "allocates and frees all the time: " + whats(c) },
		cause: says("", " goes to the driver for memory many times in each step: "),
		fix:   always("keep the buffers and use them again; " + allocate),
	},
	"free-waits": {
		head:  headFew(" waited for the GPU"),
		cause: says("", " frees memory while the GPU is at work, and so waits until all of that is done: "),
		fix:   always("free after the step's synchronise, or in the order of the stream (cudaFreeAsync); keep the buffers where they are needed again"),
	},
	"memory-leak": {
		head:  func(c *tick.Chain) string { return "GPU memory grows: " + whats(c) },
		cause: says("", " allocates in each step what it does not free: "),
		fix: always("look for tensors that are kept in lists, " +
			"losses that are added up with their graph (use .item()), caches without a limit"),
	},
	"gpu-fragmentation": {
		head:  head("GPU memory is in pieces"),
		cause: says("", " had held as much before, and was refused now: "),
		fix:   always("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or sizes that repeat (pad the batches); cudaMallocAsync joins pieces; see also whether another process took the memory (nvidia-smi)"),
	},
	"gpu-oom": {
		head:  head("out of GPU memory"),
		cause: says("", " asked for more memory than the GPU has left, and had to begin anew: "),
		fix:   always("a smaller batch, gradient accumulation or checkpointing, a lower precision; nvidia-smi shows who else has memory of that GPU"),
	},
	"kv-cache-pressure": {
		head:  head("the cache on the GPU is full"),
		cause: says("", " finds its memory full again and again, and makes anew what it gave up: "),
		fix:   always("fewer sequences at a time (vLLM: --max-num-seqs), shorter ones (--max-model-len), more memory for the cache (--gpu-memory-utilization), or a smaller cache type (--kv-cache-dtype fp8)"),
	},
	"model-swap": {
		head:  head("models take turns on the GPU"),
		cause: says("", " frees a model to load another, again and again: "),
		fix:   always("keep both loaded (quantized, or on a GPU each), serve requests for one model together, or keep weights pinned and copy them while the GPU is busy"),
	},
	"copy-pageable": {
		head:  head("copies from memory that is not pinned"),
		cause: says("", " waits while the driver copies through memory of its own: "),
		fix:   always("pin the memory: pin_memory=True and non_blocking=True (PyTorch), cudaMallocHost or cudaHostRegister"),
	},
	"copies-small": {
		head:  func(c *tick.Chain) string { return "many small copies: " + whats(c) },
		cause: says("", " copies its data in small pieces, each of which costs a call and a start of the GPU's: "),
		fix:   always("gather the data in one pinned buffer and copy that, or use cudaMemcpy2DAsync or cudaMemcpyBatchAsync"),
	},
	"copy-heavy": {
		head: func(c *tick.Chain) string { return "much time in " + orWords(whats(c), "copies") },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waits for copies (" + opName(c.Op) + "), and the GPU computes nothing meanwhile"
		},
		fix: always("copy the next batch while the GPU computes (a stream of its own, pinned memory, non_blocking=True), and leave on the GPU what is needed there again"),
	},
	"sync-heavy": {
		head:  func(c *tick.Chain) string { return "waits for the GPU after each launch: " + whats(c) },
		cause: says("", " lets the GPU idle while it makes the next launch: "),
		fix:   always("synchronise once a step: look for .item(), .cpu(), print(tensor) and boolean masks in the loop, and CUDA_LAUNCH_BLOCKING=1"),
	},
	"cold-start": {
		head:  headCold,
		cause: says("the first calls of ", " loaded code and set the GPU up: "),
		fix:   always("warm up before the first request; keep the process; nvidia-smi -pm 1; CUDA_MODULE_LOADING=LAZY loads what is used, and a filled CUDA_CACHE_PATH what was compiled"),
	},
	"graph-recapture": {
		head:  head("graphs were captured anew"),
		cause: says("", " captures and instantiates graphs while it runs: "),
		fix:   always("capture all batch sizes at the start, and pad to them (vLLM: --cuda-graph-sizes; torch.compile: dynamic=True or mark_dynamic), or update the graph (cudaGraphExecUpdate)"),
	},
	"graph-warmup": {
		head:  head("a graph was captured before a warm-up"),
		cause: says("", " captured before its kernels had run: libraries such as cuBLAS and cuDNN set themselves up at their first call, which a capture does not allow: "),
		fix:   always("run the work three times or more on a side stream before the capture, or use torch.cuda.make_graphed_callables(), which does"),
	},
	"graph-unused": {
		head:  head("graphs were captured, and are not launched"),
		cause: says("", " launches its kernels one by one though there is a graph of them, and the GPU waits for the host: "),
		fix:   always("see why it falls back: a batch size without a graph, a mode of eager execution (vLLM: --enforce-eager), an operation that graphs cannot have"),
	},
	"graph-pool": {
		head: func(c *tick.Chain) string {
			return opName(c.Op) + " takes longer than it did: the graphs' pool is full"
		},
		cause: says("", " launches its graphs more slowly than before: "),
		fix:   always("fewer graphs (batch sizes) at a time, one memory pool for all (torch.cuda.graph_pool_handle), or free those that are not launched any more"),
	},
	"graph-oom": {
		head:  head("out of GPU memory during a capture"),
		cause: says("", " captured a graph when there was no memory for it: "),
		fix:   always("capture at the start, before caches take the memory; leave some for graphs (vLLM: --gpu-memory-utilization), or capture fewer sizes"),
	},
	"cuda-after-fork": {
		head: head("CUDA in a forked child"),
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " used CUDA and then forked: " + orWords(culprits(c), "its child") + ", which cannot work"
		},
		fix: always("start workers by spawn, not fork: torch.multiprocessing.set_start_method('spawn'), or fork before the first CUDA call"),
	},
	"version-mismatch": {
		head:  func(c *tick.Chain) string { return "CUDA cannot start: " + whats(c) },
		cause: says("", " cannot use the GPU, since library and driver do not fit: "),
		fix: func(c *tick.Chain, _ *victim) string {
			if strings.Contains(whats(c), "Mismatch") || strings.Contains(whats(c), "MISMATCH") {
				return "nvidia-smi tells both versions: reload the kernel's module, or reboot, after the driver was updated"
			}
			return "nvidia-smi tells the newest CUDA that the driver has: update the driver, or install what was built for that (PyTorch: the cu index of that version); or the cuda-compat package"
		},
	},
	"device-assert": {
		head:  func(c *tick.Chain) string { return "a kernel failed: " + whats(c) },
		cause: says("a kernel of ", " failed, and every later call fails: "),
		fix:   always("CUDA_LAUNCH_BLOCKING=1 shows which launch (compute-sanitizer which line): mostly an index or a label out of range; the process must start anew"),
	},
}
