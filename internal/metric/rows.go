package metric

import "ingero/internal/govern"

// The metrics.
const (
	OpDuration ID = iota
	OpCount
	OpErrors
	OpOpen
	CopyBytes
	LedgerTime
	ThreadTime
	StepDuration
	StepLost
	OpenCallAge
	Anomalies
	AnomaliesRevised
	AnomaliesActive
	AnomalyLost
	RollCallAge
	RankLate
	MemoryHeld
	MemoryPeak
	MemoryOOMs
	MemoryGrowth
	ProcessInfo
	Processes
	GPUBusy
	GPUMemoryBusy
	GPUMemoryUsed
	GPUMemoryLimit
	GPUClock
	GPUTemperature
	GPUPower
	GPUPowerLimit
	GPUThrottled
	GPULost
	GPUErrors
	InferenceRequests
	InferenceKVCache
	InferencePreemptions
	InferenceTokens
	InferenceUnreadable
	Requests
	RequestFirstByte
	RequestBetween
	RequestDuration
	RequestWait
	EngineStep
	EngineRequests
	EngineTime
	CPUBusy
	MemoryBusy
	SwapBusy
	HostEvents
	HostTime
	HostBytes
	Drops
	AgentCPU
	AgentMemory
	AgentRecords
	OverheadShare
	OverheadBudget
	OverheadShed
	OverheadFloor
	AgentBuild
	SeriesNow
	SeriesMost
	SeriesOver
	ids
)

// Limits of labels with unknown values.
const (
	mostOps       = 768 // of the catalog, for all processes together
	mostProcesses = 128 // with series of their own
	mostLedger    = 4096
	mostPerLedger = 1024 // per process
	mostGPUs      = 64
	mostRules     = 128
	mostCauses    = 512
	mostRanks     = 256
	mostXids      = 256
	mostReasons   = 128
	mostModels    = 32 // of inference servers
	mostServers   = 64 // to which requests are measured
)

// Other is the label of everything without a series of its own.
const Other = "other"

var (
	byOp      = []string{"operation", "source"}
	byProcess = []string{"process", "pid"}
	byModel   = []string{"engine", "model"}
	byServer  = []string{"engine", "model", "port"}
	byGPU     = []string{"hw.id", "hw.type", "hw.name", "gpu"}
)

// Rows is the table of all metrics, by ID. To add a metric, add an ID, a row, and the code that
// fills it.
var Rows = [ids]Row{
	OpDuration: {"gpu.cuda.operation.duration", Histogram, "s", "Duration of calls, summed over all processes.", byOp, mostOps,
		`histogram_quantile(0.99, sum by (operation) (rate(gpu_cuda_operation_duration_seconds[5m])))`},
	OpCount: {"gpu.cuda.operation.count", Counter, "{call}", "Calls made. Exact even when records are dropped.", byOp, mostOps,
		`sum by (operation) (rate(gpu_cuda_operation_count_total[1m]))`},
	OpErrors: {"gpu.cuda.operation.error.count", Counter, "{call}", "Calls that returned an error. Exact even when records are dropped.", byOp, mostOps,
		`sum by (operation) (increase(gpu_cuda_operation_error_count_total[5m])) > 0`},
	OpOpen: {"gpu.cuda.operation.active", Gauge, "{call}", "Calls that have not returned.", byOp, mostOps,
		`gpu_cuda_operation_active > 0`},
	CopyBytes: {"gpu.cuda.copy.io", Counter, "By", "Bytes copied, by direction and kind of host memory: pageable, pinned, none.", []string{"direction", "host_memory"}, 24,
		`sum by (direction, host_memory) (rate(gpu_cuda_copy_io_bytes_total[1m]))`},
	LedgerTime: {"ingero.ledger.time", Counter, "s", "Time of threads that make CUDA calls: by call or gap, by state (on-CPU, runnable, throttled, blocked), by reason, and by culprit (the process that had the CPU or ended the wait). Added when a call returns.",
		[]string{"process", "pid", "operation", "part", "reason", "culprit"}, mostLedger + 5*(mostProcesses+1),
		`topk(5, sum by (part, reason, culprit) (rate(ingero_ledger_time_seconds_total{part!="on_cpu"}[5m])))`},
	ThreadTime: {"ingero.thread.time", Counter, "s", "The time of ingero.ledger.time without names: in calls that wait for the GPU, in other calls, between calls. Exact even when records are dropped.",
		[]string{"process", "pid", "place", "part"}, 12 * (mostProcesses + 1),
		`sum by (pid) (rate(ingero_thread_time_seconds_total{place="gpu_waits"}[5m])) / sum by (pid) (rate(ingero_thread_time_seconds_total[5m]))`},
	StepDuration: {"ingero.step.duration", Histogram, "s", "Duration of a program's steps. A step is what the program repeats, such as a training iteration. If it repeats something else for a minute or more, such as an evaluation, these steps count too.", byProcess, mostProcesses,
		`histogram_quantile(0.5, sum by (pid) (rate(ingero_step_duration_seconds[5m])))`},
	StepLost: {"ingero.step.lost", Counter, "s", "Estimate of the time lost because threads had no CPU, or were stopped, after the GPU had finished.", byProcess, mostProcesses + 1,
		`rate(ingero_step_lost_seconds_total[5m])`},
	OpenCallAge: {"ingero.call.open.age", Gauge, "s", "Age of the oldest call that has not returned.", byProcess, mostProcesses,
		`ingero_call_open_age_seconds > 60`},
	Anomalies: {"ingero.anomaly.count", Counter, "{chain}", "Causes of lost time (chains) found. A chain is counted once at each severity that it reaches.", []string{"rule", "severity"}, 3 * mostRules,
		`increase(ingero_anomaly_count_total{severity="HIGH"}[5m]) > 0`},
	AnomaliesRevised: {"ingero.anomaly.revised", Counter, "{chain}", "Causes that were reported and later withdrawn, after more data arrived.", nil, 1,
		`increase(ingero_anomaly_revised_total[1h])`},
	AnomaliesActive: {"ingero.anomaly.active", Gauge, "{chain}", "Causes that cost time now, or did a moment ago.", []string{"rule", "severity"}, 3 * mostRules,
		`sum by (rule) (ingero_anomaly_active) > 0`},
	AnomalyLost: {"ingero.anomaly.lost", Counter, "s", "Wall time that processes lost, by cause. Added whenever a cause is reported: when it is found, when its loss has grown much, and when it ends.", []string{"process", "pid", "rule", "culprit"}, mostCauses + 1,
		`topk(5, increase(ingero_anomaly_lost_seconds_total[1h]))`},
	RollCallAge: {"ingero.collective.missing.age", Gauge, "s", "Longest time that ranks have waited for another rank to enter a collective.", nil, 1,
		`ingero_collective_missing_age_seconds > 30`},
	RankLate: {"ingero.collective.late", Counter, "s", "Time that all other ranks waited for this rank, the last to enter a collective. Its number is that in the job, or in the communicator if that is not known.", []string{"rank"}, mostRanks + 1,
		`topk(3, rate(ingero_collective_late_seconds_total[5m]))`},
	MemoryHeld: {"ingero.memory.held", Gauge, "By", "Memory that a process has allocated through CUDA and not freed: GPU memory and pinned host memory.", []string{"process", "pid", "memory"}, 2 * mostProcesses,
		`sum by (pid) (ingero_memory_held_bytes{memory="gpu"})`},
	MemoryPeak: {"ingero.memory.peak", Gauge, "By", "Highest value of ingero.memory.held.", []string{"process", "pid", "memory"}, 2 * mostProcesses,
		`ingero_memory_peak_bytes{memory="gpu"}`},
	MemoryOOMs: {"ingero.memory.oom.count", Counter, "{call}", "Allocations that failed because GPU memory ran out.", byProcess, mostProcesses + 1,
		`increase(ingero_memory_oom_count_total[10m]) > 0`},
	MemoryGrowth: {"ingero.memory.growth", Gauge, "By/s", "Lower bound of the growth rate of held GPU memory, for processes that leak memory.", byProcess, mostProcesses,
		`ingero_memory_growth_bytes_per_second > 0`},
	ProcessInfo: {"ingero.process.info", Gauge, "", "Where a process runs, and under which job and rank. The value is 1. Join it with other metrics of the process.",
		[]string{"process", "pid", "namespace", "pod", "container", "unit", "job", "rank"}, mostProcesses,
		`rate(ingero_step_lost_seconds_total[5m]) * on (pid, instance) group_left (pod, rank) ingero_process_info`},
	Processes: {"ingero.process.active", Gauge, "{process}", "Processes traced now.", nil, 1,
		`ingero_process_active`},
	GPUBusy: {"hw.gpu.utilization", Gauge, "1", "Share of the time in which the GPU ran a kernel, as reported by the driver.", byGPU, mostGPUs,
		`hw_gpu_utilization_ratio < 0.5`},
	GPUMemoryBusy: {"hw.gpu.memory.bandwidth.utilization", Gauge, "1", "Share of the time in which GPU memory was read or written.", byGPU, mostGPUs,
		`hw_gpu_memory_bandwidth_utilization_ratio`},
	GPUMemoryUsed: {"hw.gpu.memory.usage", Gauge, "By", "GPU memory in use by all processes.", byGPU, mostGPUs,
		`hw_gpu_memory_usage_bytes / hw_gpu_memory_limit_bytes`},
	GPUMemoryLimit: {"hw.gpu.memory.limit", Gauge, "By", "Total GPU memory.", byGPU, mostGPUs,
		`hw_gpu_memory_limit_bytes`},
	GPUClock: {"ingero.gpu.clock", Gauge, "Hz", "SM clock of the GPU.", byGPU, mostGPUs,
		`ingero_gpu_clock_hertz`},
	GPUTemperature: {"hw.temperature", Gauge, "Cel", "Temperature of the GPU.", byGPU, mostGPUs,
		`hw_temperature_celsius{hw_type="gpu"} > 85`},
	GPUPower: {"hw.power", Gauge, "W", "Power draw of the GPU.", byGPU, mostGPUs,
		`hw_power_watts{hw_type="gpu"}`},
	GPUPowerLimit: {"ingero.gpu.power.limit", Gauge, "W", "Power limit of the GPU.", byGPU, mostGPUs,
		`hw_power_watts / ingero_gpu_power_limit_watts > 0.95`},
	GPUThrottled: {"ingero.gpu.throttled", Gauge, "", "1 for each reason that lowers the GPU's clocks.", append([]string{"reason"}, byGPU...), 4 * mostGPUs,
		`ingero_gpu_throttled{reason!="idle"}`},
	GPULost: {"ingero.gpu.unreachable", Gauge, "", "1 for a GPU that does not respond.", byGPU, mostGPUs,
		`ingero_gpu_unreachable == 1`},
	GPUErrors: {"hw.errors", Counter, "{error}", "Faults reported by GPUs since ingero started: XIDs (xid-79), SXids of NVSwitches (sxid-...) and memory errors (ecc-corrected, ecc-uncorrected). For a fault in a MIG instance, hw.id also names the instance: GPU-... GPU-I:05.", []string{"error.type", "hw.id", "hw.type"}, mostXids + 1,
		`increase(hw_errors_total{error_type=~"xid-.*"}[10m]) > 0`},
	InferenceRequests: {"ingero.inference.requests", Gauge, "{request}", "Requests of inference servers, by state (running, waiting), as the servers report them.", append([]string{"state"}, byModel...), 2 * mostModels,
		`ingero_inference_requests{state="waiting"} > 0`},
	InferenceKVCache: {"ingero.inference.kv_cache.use", Gauge, "1", "Share of the KV cache in use: the fullest one of the servers of a model.", byModel, mostModels,
		`ingero_inference_kv_cache_use_ratio > 0.95`},
	InferencePreemptions: {"ingero.inference.preemptions", Counter, "{request}", "Requests of inference servers that lost their KV cache to others.", byModel, mostModels,
		`increase(ingero_inference_preemptions_total[5m]) > 0`},
	InferenceTokens: {"ingero.inference.tokens", Counter, "{token}", "Tokens of inference servers, by kind (prompt, generated).", append([]string{"kind"}, byModel...), 2 * mostModels,
		`rate(ingero_inference_tokens_total{kind="generated"}[1m])`},
	InferenceUnreadable: {"ingero.inference.unreadable", Gauge, "{server}", "Inference servers whose metrics ingero cannot read. ingero explain reports why.", byModel, mostModels,
		`ingero_inference_unreadable > 0`},
	Requests: {"ingero.requests", Counter, "{request}", "Requests with a body to servers on this machine, by the class of the response's status (2xx, 4xx and so on), or unanswered. engine and model are empty for a server that ingero does not recognize.", append([]string{"status"}, byServer...), 7 * mostServers,
		`sum by (engine, model, port) (rate(ingero_requests_total{status=~"5xx|unanswered"}[5m])) / sum by (engine, model, port) (rate(ingero_requests_total[5m]))`},
	RequestFirstByte: {"ingero.request.first_byte", Histogram, "s", "Time from the arrival of a request to the first byte of the response's body, of requests with a body and a status below 400.", byServer, mostServers,
		`histogram_quantile(0.99, sum by (model, port) (rate(ingero_request_first_byte_seconds[5m])))`},
	RequestBetween: {"ingero.request.between_events", Histogram, "s", "Mean time between two events of a response, of the same requests. With a stream, an event is usually a token.", byServer, mostServers,
		`histogram_quantile(0.99, sum by (model, port) (rate(ingero_request_between_events_seconds[5m])))`},
	RequestDuration: {"ingero.request.duration", Histogram, "s", "Time from the arrival of a request to the last byte of the response, of the same requests.", byServer, mostServers,
		`histogram_quantile(0.99, sum by (model, port) (rate(ingero_request_duration_seconds[5m])))`},
	RequestWait: {"ingero.request.wait", Counter, "s", "What the same requests waited for, by interval: to_first (from the arrival to the first byte) and after (from there to the last byte). The parts of an interval add up to it: unread, receiving, server, prompts, own-prompt, tokens, steps (either: the engine launches no graph), delivery, unknown.", append([]string{"interval", "part"}, byServer...), 2 * 9 * mostServers,
		`topk(3, sum by (part) (rate(ingero_request_wait_seconds_total{interval="to_first"}[5m])))`},
	EngineStep: {"ingero.engine.step", Histogram, "s", "Time of a step of an inference server's engine, after its wait for work, by kind: tokens (with a CUDA graph), prompts (without one), prompts or tokens (the engine launches no graph), capture (of a graph).", append([]string{"kind"}, byModel...), 4 * mostModels,
		`histogram_quantile(0.99, sum by (model, kind) (rate(ingero_engine_step_seconds[5m])))`},
	EngineRequests: {"ingero.engine.step.requests", Counter, "{request}", "Requests that had a token computed in a step of kind tokens, once for each step, of the measured requests that have ended.", byModel, mostModels,
		`sum by (model) (rate(ingero_engine_step_requests_total[5m])) / sum by (model) (histogram_count(rate(ingero_engine_step_seconds{kind="tokens"}[5m])))`},
	EngineTime: {"ingero.engine.time", Counter, "s", "Time of the steps of inference servers' engines, by state: idle (waiting for work), gpu (waiting for the GPU), cpu, runnable (waiting for a CPU), blocked (otherwise), unknown.", append([]string{"state"}, byModel...), 6 * mostModels,
		`1 - sum by (model) (rate(ingero_engine_time_seconds_total{state="idle"}[5m])) / sum by (model) (rate(ingero_engine_time_seconds_total[5m]))`},
	CPUBusy: {"system.cpu.utilization", Gauge, "1", "Busy share of all CPUs over the last second.", nil, 1,
		`system_cpu_utilization_ratio`},
	MemoryBusy: {"system.memory.utilization", Gauge, "1", "Share of the machine's memory that is not available.", nil, 1,
		`system_memory_utilization_ratio > 0.95`},
	SwapBusy: {"system.paging.utilization", Gauge, "1", "Share of swap space in use. Absent if the machine has no swap.", nil, 1,
		`system_paging_utilization_ratio`},
	HostEvents: {"ingero.host.event.count", Counter, "{event}", "Host events, by kind: of traced processes, and of other processes that use a resource that a traced process waits for.", []string{"kind"}, 32,
		`rate(ingero_host_event_count_total{kind="tcp-retransmit"}[1m])`},
	HostTime: {"ingero.host.event.time", Counter, "s", "Total duration of host events, by kind.", []string{"kind"}, 32,
		`rate(ingero_host_event_time_seconds_total{kind="reclaim"}[1m])`},
	HostBytes: {"ingero.host.event.io", Counter, "By", "Bytes of host events, by kind.", []string{"kind"}, 32,
		`rate(ingero_host_event_io_bytes_total{kind="disk-read"}[1m])`},
	Drops: {"ingero.drop.count", Counter, "{record}", "Records dropped, by reason. Counts of calls stay exact.", []string{"reason"}, mostReasons,
		`sum by (reason) (increase(ingero_drop_count_total[5m])) > 0`},
	AgentCPU: {"ingero.agent.cpu.time", Counter, "s", "CPU time of the ingero process. The CPU time of its probes is charged to the traced programs.", nil, 1,
		`rate(ingero_agent_cpu_time_seconds_total[1m])`},
	AgentMemory: {"ingero.agent.memory", Gauge, "By", "Resident memory of the ingero process.", nil, 1,
		`ingero_agent_memory_bytes`},
	AgentRecords: {"ingero.agent.record.count", Counter, "{record}", "Records read from the kernel.", nil, 1,
		`rate(ingero_agent_record_count_total[1m])`},
	OverheadShare: {"ingero.overhead.share", Gauge, "1", "Overhead of tracing, as a share of the traced processes' time, by part: probes, stacks, tracepoints, and the agent itself.", []string{"part"}, 4,
		`sum(ingero_overhead_share_ratio) > 0.02`},
	OverheadBudget: {"ingero.overhead.budget", Gauge, "1", "Overhead at which ingero starts to shed features (--max-overhead).", nil, 1,
		`sum without (part) (ingero_overhead_share_ratio) > on (instance) ingero_overhead_budget_ratio`},
	OverheadShed: {"ingero.overhead.shed", Gauge, "", "1 for each feature that is shed to stay within the budget, 0 for the others.", []string{"step"}, len(govern.Steps),
		`ingero_overhead_shed == 1`},
	OverheadFloor: {"ingero.overhead.floor", Gauge, "1", "Overhead that the probes need at least, as a share of the traced processes' time. 0 unless the budget is lower or nothing is left to shed.", nil, 1,
		`ingero_overhead_floor_ratio > 0`},
	AgentBuild: {"ingero.agent.info", Gauge, "", "Version and node of the agent. The value is 1.", []string{"version", "node"}, 1,
		`ingero_agent_info`},
	SeriesNow: {"ingero.metric.series", Gauge, "{series}", "Series of each metric whose number of series depends on the traced programs.", []string{"metric"}, int(ids),
		`ingero_metric_series / ingero_metric_series_limit > 0.9`},
	SeriesMost: {"ingero.metric.series.limit", Gauge, "{series}", "Series limit of each such metric.", []string{"metric"}, int(ids),
		`ingero_metric_series_limit`},
	SeriesOver: {"ingero.metric.overflow", Counter, "{series}", "Times that a new series exceeded its metric's limit. Counters add its value to the series other; gauges leave it out.", []string{"metric"}, int(ids),
		`increase(ingero_metric_overflow_total[10m]) > 0`},
}
