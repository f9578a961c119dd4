package explain

import (
	"fmt"
	"strings"

	"ingero/internal/tick"
)

// emptyCache is the advice for PyTorch programs that free their memory to the driver.
const emptyCache = "; remove torch.cuda.empty_cache() from the loop"

// allocate is the advice for programs that ask the driver for memory in their loop.
const allocate = "allocate before the loop, or from a pool (cudaMallocAsync; PyTorch: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)" + emptyCache

// culpritSentence returns a sentence about the victim and the What of its culprits.
func culpritSentence(before, between string) func(c *tick.Chain, v *victim) string {
	return func(c *tick.Chain, v *victim) string {
		return before + v.name + between + orWords(whats(c), opName(c.Op))
	}
}

func always(words string) func(*tick.Chain, *victim) string {
	return func(*tick.Chain, *victim) string { return words }
}

// headSlowCalls is the headline for calls of an operation, or for the few that take nearly all of
// its time.
func headSlowCalls(words string) func(*tick.Chain) string {
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

// swapsKV reports whether a chain of adapter-swap is about the KV cache.
func swapsKV(c *tick.Chain) bool { return strings.HasPrefix(whats(c), tick.SwappedKV) }

// cudaCauses are the words for a program's own use of CUDA.
var cudaCauses = map[string]causeWords{
	"alloc-slow": {
		head:  headSlowCalls(" was slow at times"),
		cause: culpritSentence("", " allocated memory from the driver, which was slow while the GPU was idle: "),
		fix:   always(allocate),
	},
	"alloc-storm": {
		head:  func(c *tick.Chain) string { return "allocates and frees in every step: " + whats(c) },
		cause: culpritSentence("", " allocates memory from the driver many times in each step: "),
		fix:   always("reuse the buffers; " + allocate),
	},
	"free-waits": {
		head:  headSlowCalls(" waited for the GPU"),
		cause: culpritSentence("", " frees memory while the GPU is busy, and waits until the GPU has finished: "),
		fix:   always("free after the step's synchronization, or in stream order (cudaFreeAsync); keep buffers that are needed again" + emptyCache),
	},
	"memory-leak": {
		head:  func(c *tick.Chain) string { return "GPU memory grows: " + whats(c) },
		cause: culpritSentence("", " allocates memory in each step and does not free it: "),
		fix: always("look for tensors kept in lists, " +
			"losses summed up with their graph (use .item()) and unbounded caches"),
	},
	"gpu-fragmentation": {
		head:  head("GPU memory is fragmented"),
		cause: culpritSentence("", " had held as much memory before, but now an allocation failed: "),
		fix:   always("set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or use sizes that repeat (pad the batches); cudaMallocAsync merges free blocks; check with nvidia-smi whether another process took the memory"),
	},
	"gpu-oom": {
		head:  head("out of GPU memory"),
		cause: culpritSentence("", " requested more memory than the GPU has free, and had to start over: "),
		fix:   always("use a smaller batch, gradient accumulation, activation checkpointing or lower precision; nvidia-smi shows which other processes use memory of that GPU"),
	},
	"kv-cache-pressure": {
		head:  head("the cache on the GPU is full"),
		cause: culpritSentence("", " runs out of memory repeatedly, and rebuilds what it evicted: "),
		fix:   always("run fewer sequences at a time (vLLM: --max-num-seqs) or shorter ones (--max-model-len), or leave more memory outside the cache: lower --gpu-memory-utilization (SGLang: --mem-fraction-static)"),
	},
	"model-swap": {
		head:  head("models take turns on the GPU"),
		cause: culpritSentence("", " repeatedly frees one model to load another: "),
		fix:   always("keep both models loaded (quantized, or each on its own GPU), batch the requests for one model, or keep weights pinned and copy them while the GPU is busy"),
	},
	"copy-pageable": {
		head:  head("copies use pageable memory"),
		cause: culpritSentence("", " waits while the driver copies through its own buffer: "),
		fix:   always("pin the memory: pin_memory=True and non_blocking=True (PyTorch), cudaMallocHost or cudaHostRegister"),
	},
	"copies-small": {
		head:  func(c *tick.Chain) string { return "many small copies: " + whats(c) },
		cause: culpritSentence("", " copies data in small pieces, and each copy has a fixed cost: "),
		fix:   always("collect the data in one pinned buffer and copy it at once, or use cudaMemcpy2DAsync or cudaMemcpyBatchAsync"),
	},
	"copy-heavy": {
		head: func(c *tick.Chain) string { return "waits for " + orWords(whats(c), "copies") },
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " waits for copies (" + opName(c.Op) + ") while the GPU computes nothing"
		},
		fix: always("copy the next batch while the GPU computes (separate stream, pinned memory, non_blocking=True), and keep data on the GPU that is needed there again"),
	},
	"sync-heavy": {
		head:  func(c *tick.Chain) string { return "waits for the GPU after every few launches: " + whats(c) },
		cause: culpritSentence("", " leaves the GPU idle while it prepares the next launch: "),
		fix:   always("synchronize once per step: look for .item(), .cpu(), print(tensor) and boolean masks in the loop, and for CUDA_LAUNCH_BLOCKING=1"),
	},
	"cold-start": {
		head:  headCold,
		cause: culpritSentence("the first calls of ", " loaded code and initialized the GPU: "),
		fix:   always("send warm-up requests before real ones, and keep the process running; sudo nvidia-smi -pm 1 keeps the driver loaded; set CUDA_CACHE_PATH to a volume that survives restarts; if a warm-up is not possible, CUDA_MODULE_LOADING=EAGER loads all code at start"),
	},
	"graph-recapture": {
		head:  head("graphs were captured again"),
		cause: culpritSentence("", " captures and instantiates graphs while it runs: "),
		fix:   always("capture all batch sizes at start and pad to them (vLLM: --cudagraph-capture-sizes or --cuda-graph-sizes; torch.compile: dynamic=True or mark_dynamic), or update the graph (cudaGraphExecUpdate)"),
	},
	"graph-warmup": {
		head:  head("a graph was captured before a warm-up"),
		cause: culpritSentence("", " captured a graph before its kernels had run; cuBLAS, cuDNN and others initialize at their first call, which a capture does not allow: "),
		fix:   always("run the work at least three times on a side stream before the capture, or use torch.cuda.make_graphed_callables(), which does this"),
	},
	"graph-unused": {
		head:  head("captured graphs are not launched"),
		cause: culpritSentence("", " launches kernels one by one although it has a graph of them, and the GPU waits for the host: "),
		fix: always("find out why it falls back: a batch size without a graph (vLLM: --cudagraph-capture-sizes or --cuda-graph-sizes; SGLang: --cuda-graph-bs, --cuda-graph-max-bs), " +
			"eager mode (vLLM: --enforce-eager), or an operation that graphs do not support"),
	},
	"prefill-stall": {
		head:  head("long prompts stalled the tokens of running requests"),
		cause: culpritSentence("", " computed long prompts while other requests waited for their next token: "),
		fix:   always("compute prompts in smaller parts between tokens (vLLM: --enable-chunked-prefill with a smaller --max-num-batched-tokens; SGLang: --chunked-prefill-size), or send long prompts to servers of their own"),
	},
	"kv-preemption": {
		head:  head("the KV cache was full: requests lost their cache and were computed again"),
		cause: culpritSentence("", " took the KV cache of running requests, and computed them again later: "),
		fix:   always("give the KV cache more memory (vLLM: --gpu-memory-utilization; SGLang: --mem-fraction-static) or a smaller type (--kv-cache-dtype fp8; SGLang: fp8_e5m2), run fewer requests at once (vLLM: --max-num-seqs; SGLang: --max-running-requests) or shorter ones (vLLM: --max-model-len), or add replicas"),
	},
	"slow-client": {
		head:  head("a client read more slowly than the server sent"),
		cause: culpritSentence("responses of ", " ended later than their last token: "),
		fix:   always("look at the client and its network (ss -ti shows the connection); a slow client delays only its own responses"),
	},
	"frontend-slow": {
		head: head("requests waited in the server before the engine had them"),
		cause: func(c *tick.Chain, v *victim) string {
			return "requests waited before the engine, " + v.name + ", had them: " + culprits(c)
		},
		fix: always("give the API server and the tokenizer more CPU time: more processes (vLLM: --api-server-count; SGLang: --tokenizer-worker-num; TGI: --validation-workers), a fast tokenizer (vLLM: --tokenizer-mode auto), or send token IDs"),
	},
	"scheduler-cpu": {
		head: head("the engine computed on a CPU while the GPU had nothing to do"),
		cause: func(c *tick.Chain, v *victim) string {
			scheduler, launches := "the scheduler of "+v.name, "it"
			if byProcess(c) { // a process of its own
				scheduler, launches = scheduler+", "+processName(culpritName(&c.Culprits[0]), c.Culprits[0].Thread.PID)+",", v.name
			}
			return scheduler + " computed" + codeAt(c) + " before " + launches + " launched steps: " + whats(c)
		},
		fix: always("overlap scheduling with the GPU (vLLM: --async-scheduling, in older versions --num-scheduler-steps; SGLang: without --disable-overlap-schedule), " +
			"run fewer requests at once (--max-num-seqs; SGLang: --max-running-requests), update the server, or use faster CPU cores"),
	},
	"adapter-swap": {
		head: func(c *tick.Chain) string {
			if swapsKV(c) {
				return "blocks of the KV cache were copied before steps"
			}
			return "adapters or weights were copied before steps"
		},
		cause: culpritSentence("the GPU has no room for all that the requests to ", " need: "),
		fix: func(c *tick.Chain, _ *victim) string {
			if swapsKV(c) {
				return "run fewer requests at once (vLLM: --max-num-seqs), give the KV cache more memory (--gpu-memory-utilization), or switch off offloading to the host (--kv-offloading-size; SGLang: --enable-hierarchical-cache)"
			}
			return "keep more adapters on the GPU (vLLM: --max-loras, and --max-cpu-loras on the host; SGLang: --max-loras-per-batch, --enable-lora-overlap-loading), send the requests for an adapter to the same replica, and do not offload weights (vLLM: --cpu-offload-gb)"
		},
	},
	"graph-pool": {
		head: func(c *tick.Chain) string {
			return opName(c.Op) + " is slower than before: the graphs' memory pool is full"
		},
		cause: culpritSentence("", " launches its graphs more slowly than before: "),
		fix:   always("use fewer graphs (batch sizes) at a time, share one memory pool (torch.cuda.graph_pool_handle), or free graphs that are no longer launched"),
	},
	"graph-oom": {
		head:  head("out of GPU memory during a capture"),
		cause: culpritSentence("", " ran out of memory while it captured a graph: "),
		fix:   always("capture at start, before caches take the memory; leave memory for graphs (lower vLLM's --gpu-memory-utilization or SGLang's --mem-fraction-static), or capture fewer sizes"),
	},
	"cuda-after-fork": {
		head: head("CUDA in a forked child"),
		cause: func(c *tick.Chain, v *victim) string {
			return v.name + " called CUDA and then forked; CUDA does not work in the child: " + orWords(culprits(c), "its child")
		},
		fix: always("start workers with spawn, not fork: torch.multiprocessing.set_start_method('spawn'), or fork before the first CUDA call"),
	},
	"version-mismatch": {
		head:  func(c *tick.Chain) string { return "CUDA cannot start: " + whats(c) },
		cause: culpritSentence("", " cannot use the GPU, because library and driver do not match: "),
		fix: func(c *tick.Chain, _ *victim) string {
			if strings.Contains(whats(c), "Mismatch") || strings.Contains(whats(c), "MISMATCH") {
				return "after a driver update, reload the kernel module or reboot; nvidia-smi shows both versions"
			}
			return "update the driver, or install a build for the CUDA version that nvidia-smi shows (PyTorch: the cu index of that version), or install the cuda-compat package"
		},
	},
	"device-assert": {
		head:  func(c *tick.Chain) string { return "a kernel failed: " + whats(c) },
		cause: culpritSentence("a kernel of ", " failed, and every later call fails: "),
		fix:   always("find the launch with CUDA_LAUNCH_BLOCKING=1, and the line with compute-sanitizer; usually an index or a label is out of range; restart the process"),
	},
}
