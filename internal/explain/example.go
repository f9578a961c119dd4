package explain

import (
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// exampleCulprits are the culprits of the reference's example chains, by rule. Other rules blame
// another program.
var exampleCulprits = map[string]tick.Culprit{
	"burst-of-programs": {Thread: exampleThread("cron", 711), What: "started many short-lived programs: gzip, logrotate, sh"},
	"own-code":          {Thread: events.Thread{PID: 4821, TID: 4821, Name: events.NameOf("train.py")}, Own: true, What: "computed for 3.40 s between the CUDA calls of 112 steps"},
	"own-threads":       {Thread: events.Thread{PID: 4821, TID: 4840, Name: events.NameOf("omp-worker")}, Own: true, Root: tick.Root{Whose: tick.RelationThread, Did: tick.ActivityCrowd}},
	"cpu-stolen":        {What: "the hypervisor"},
	"cpu-throttled":     {What: "CPU quota of /user.slice/user-1003.slice: 2 CPUs", Limit: exampleLimit("cpu.max", "200000 100000")},
	"cpuset-shrunk":     {What: "4 CPUs fewer for the job"},
	"debugger":          {Thread: exampleThread("py-spy", 9001), What: "held it (ptrace)"},
	"disk-wait":         {What: "disk 259:0, fsync", Root: tick.Root{Whose: tick.RelationSelf, Did: tick.ActivityWrite}},
	"driver-slow":       {What: "GPU driver, in cudaMalloc"},
	"gil-wait":          {Thread: events.Thread{PID: 4821, TID: 4833, Name: events.NameOf("logger")}, Own: true, What: "held the GIL"},
	"input-wait": {Thread: exampleThread("pt_data_worker", 4830), What: "prepared input while the job waited",
		Path: "thread QueueFeederThr 4831 of process 4830, which waited for pt_data_worker 4830, which ran on a CPU", Root: tick.Root{Whose: tick.RelationWorker, Did: tick.ActivityCompute}},
	"lock-wait":      {Thread: events.Thread{PID: 4821, TID: 4833, Name: events.NameOf("allocator")}, Own: true, What: "held a lock, or had not finished"},
	"call-slow":      {What: "cudaMalloc"},
	"memory-limit":   {What: "memory limit of /user.slice/user-1003.slice: 32 GiB", Limit: exampleLimit("memory.max", "34359738368")},
	"memory-reclaim": {Thread: exampleThread("tar", 8821), What: "allocated 9216 MiB of memory"},
	"oom-kill":       {What: "memory limit of /kubepods/pod7"},
	"peer-slow":      {What: "peer 10.0.0.7:6379"},
	"swap-in":        {What: "disk 259:0, for a page of memory"},
	"tcp-loss":       {What: "peer 10.0.0.7:6379: packets were lost"},
	"tool-call":      {What: "peer 10.0.0.9:443"},

	"alloc-slow":        {What: "cudaMalloc"},
	"free-waits":        {What: "cudaFree"},
	"graph-pool":        {What: "cudaGraphLaunch"},
	"alloc-storm":       {What: "40 allocations and frees a step"},
	"copy-pageable":     {What: "3801 pageable copies, 16 MiB each"},
	"copies-small":      {What: "256 copies a step"},
	"copy-heavy":        {What: "copies: 38 % of these steps' time"},
	"sync-heavy":        {What: "640 waits a second, 1.2 ms apart"},
	"cold-start":        {What: "first calls, mostly cudaLaunchKernel"},
	"memory-leak":       {What: "4 MiB a second; 61 GiB held now"},
	"graph-oom":         {What: "3 captures that ran out of memory"},
	"kv-cache-pressure": {What: "412 failed allocations of blocks"},
	"gpu-fragmentation": {What: "3 failed allocations, although as much was held before"},
	"gpu-oom":           {What: "3 failed allocations"},
	"model-swap":        {What: "memory refilled 12 times"},
	"graph-recapture":   {What: "41 captures between launches"},
	"graph-unused":      {What: "3801 steps with kernels launched one by one"},
	"scheduler-cpu":     {What: "3.20 ms on a CPU before the launch of each of 412 steps, for which requests waited 9.90 s in all"},
	"adapter-swap":      {What: "824 copies of 64 MiB or more before 412 steps, for which requests waited 9.90 s in all"},
	"prefill-stall":     {What: "requests from 10.0.0.9 with prompts of up to 48 KiB"},
	"kv-preemption":     {What: "KV cache, which was up to 99 % full at a read of the metrics: 60 preemptions, 57 requests without tokens meanwhile"},
	"slow-client":       {What: "client 10.0.0.9: 16 responses, round trip of up to 210 ms"},
	"frontend-slow":     {Thread: exampleThread("VLLM::Tokenizer", 4830), What: "ran on a CPU while requests waited"},
	"graph-warmup":      {What: "a capture of 0.4 ms without a launch"},
	"cuda-after-fork":   {Thread: exampleThread("pt_data_worker", 4830), What: "forked after its parent had called CUDA, then called cudaMalloc"},
	"version-mismatch":  {What: "cudaErrorInsufficientDriver"},
	"device-assert":     {What: "cudaErrorAssert in cudaStreamSynchronize"},
	"gpu-behind":        {What: "GPU"},
	"nccl-dead":         {What: "rank 3 of 8 was killed by SIGKILL from the kernel"},
	"nccl-missing":      {What: "rank 3 of 8 is in read(/mnt/nfs/shard-0191)"},
	"nccl-straggler":    {What: "rank 3 of 8"},
	"xid":               {What: "XID 31 of GPU 0000:75:00, after which 3 of its calls failed"},
	"gpu-throttled":     {What: "GPU 0 (its power limit)"},
	"gpu-shared":        {Thread: exampleThread("retriever", 5210), What: "2,100 launches a second on GPU 0"},
	"gpu-slower":        {What: "GPU 0", GPU: "0", Sharers: []tick.Sharer{{PID: 5210, Comm: "python3", Cmdline: "python3 train.py", Started: exampleFrom.Add(-8 * time.Second)}}},
}

// exampleFrom is the time of the first slow step.
var exampleFrom = time.Unix(1_700_000_000, 0)

// ofRequests are the rules whose chains are about requests to a server, and have no step.
var ofRequests = []string{"prefill-stall", "kv-preemption", "slow-client", "frontend-slow", "scheduler-cpu", "adapter-swap"}

// exampleOps are the operations of the example chains, if not a synchronize.
var exampleOps = map[string]string{"call-slow": "cudaMalloc", "driver-slow": "cudaMalloc", "tool-call": "", "input-wait": "", "oom-kill": "",
	"alloc-slow": "cudaMalloc", "free-waits": "cudaFree", "graph-pool": "cudaGraphLaunch", "alloc-storm": "cudaMalloc", "copy-pageable": "cudaMemcpyAsync",
	"copies-small": "cudaMemcpyAsync", "copy-heavy": "cudaMemcpy", "cold-start": "cudaLaunchKernel", "memory-leak": "cudaMalloc", "gpu-oom": "cudaMalloc",
	"gpu-fragmentation": "cudaMalloc", "graph-oom": "cudaMalloc", "kv-cache-pressure": "cudaMalloc", "graph-recapture": "cudaStreamBeginCapture",
	"graph-warmup": "cudaStreamBeginCapture", "cuda-after-fork": "cudaMalloc", "version-mismatch": "", "gpu-behind": "cudaLaunchKernel",
	"nccl-dead": "ncclAllReduce", "nccl-missing": "ncclAllReduce", "nccl-straggler": "ncclAllReduce"}

func exampleThread(name string, pid uint32) events.Thread {
	return events.Thread{PID: pid, TID: pid, Parent: 711, Name: events.NameOf(name)}
}

// exampleLimit returns a limit of a user's slice.
func exampleLimit(file, raw string) tick.Limit {
	const group = "/user.slice/user-1003.slice"
	return tick.Limit{Group: group, File: "/sys/fs/cgroup" + group + "/" + file, Raw: raw}
}

// Example returns the report words of an example chain of a rule, for the reference: its headline,
// its root cause and its fix.
func Example(rule string) (head, cause, fix string) {
	name, given := exampleOps[rule]
	if !given {
		name = "cudaStreamSynchronize"
	}
	op, _ := events.OpByName(name)
	c := &tick.Chain{Rule: rule, PID: 4821, TID: 4821, Op: op, From: exampleFrom, Severity: tick.High, Lost: 1370 * time.Millisecond, Steps: 3801, Slow: 412,
		StepP50: 15_100_000, StepP99: 27_500_000, OpP50: 15_000_000, OpP99: 27_400_000}
	if slices.Contains(ofRequests, rule) {
		c.Op, c.Steps, c.StepP50, c.StepP99, c.OpP50, c.OpP99 = 0, 0, 0, 0, 0, 0
	}
	x, known := exampleCulprits[rule]
	if !known {
		x.Thread = exampleThread("stress-ng", 8821)
		x.CPUs, x.Parent = []uint16{0}, "cron 711"
	}
	x.Lost = c.Lost
	c.Culprits = []tick.Culprit{x}
	v := &victim{name: "train.py", cgroup: "/system.slice/train.service", cpus: 16}
	words := wordsFor(c)
	return headline(c, &words), words.rootCause(c, v), words.fix(c, v)
}
