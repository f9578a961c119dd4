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
)

// Other is the label of everything without a series of its own.
const Other = "other"

var (
	byOp      = []string{"operation", "source"}
	byProcess = []string{"process", "pid"}
	byGPU     = []string{"hw.id", "hw.type", "hw.name", "gpu"}
)

// Rows is the table of all metrics, by ID. To add a metric, add an ID, a row, and the code that
// fills it.
var Rows = [ids]Row{
	OpDuration: {"gpu.cuda.operation.duration", Histogram, "s", "How long calls took, of all processes together.", byOp, mostOps,
		`histogram_quantile(0.99, sum by (operation) (rate(gpu_cuda_operation_duration_seconds[5m])))`},
	OpCount: {"gpu.cuda.operation.count", Counter, "{call}", "Calls that were made. Exact whatever became of the records.", byOp, mostOps,
		`sum by (operation) (rate(gpu_cuda_operation_count_total[1m]))`},
	OpErrors: {"gpu.cuda.operation.error.count", Counter, "{call}", "Calls that returned an error. Exact whatever became of the records.", byOp, mostOps,
		`sum by (operation) (increase(gpu_cuda_operation_error_count_total[5m])) > 0`},
	OpOpen: {"gpu.cuda.operation.active", Gauge, "{call}", "Calls that have not returned.", byOp, mostOps,
		`gpu_cuda_operation_active > 0`},
	CopyBytes: {"gpu.cuda.copy.io", Counter, "By", "Bytes that were copied, by direction and by what the host's memory is: pageable, pinned, none.", []string{"direction", "host_memory"}, 24,
		`sum by (direction, host_memory) (rate(gpu_cuda_copy_io_bytes_total[1m]))`},
	LedgerTime: {"ingero.ledger.time", Counter, "s", "Where the time of threads went that make CUDA calls: in which call, or between calls; on the CPU, ready to run, throttled or blocked; for which reason; and who had the CPU or ended the wait. Added when a call returns.",
		[]string{"process", "pid", "operation", "part", "reason", "culprit"}, mostLedger + 5*(mostProcesses+1),
		`topk(5, sum by (part, reason, culprit) (rate(ingero_ledger_time_seconds_total{part!="on_cpu"}[5m])))`},
	ThreadTime: {"ingero.thread.time", Counter, "s", "The same time without names, exact whatever became of the records: in calls that wait for the GPU, in other calls, between calls.",
		[]string{"process", "pid", "place", "part"}, 12 * (mostProcesses + 1),
		`sum by (pid) (rate(ingero_thread_time_seconds_total{place="gpu_waits"}[5m])) / sum by (pid) (rate(ingero_thread_time_seconds_total[5m]))`},
	StepDuration: {"ingero.step.duration", Histogram, "s", "Length of the steps of a program: what it does again and again.", byProcess, mostProcesses,
		`histogram_quantile(0.5, sum by (pid) (rate(ingero_step_duration_seconds[5m])))`},
	StepLost: {"ingero.step.lost", Counter, "s", "Time that threads had no CPU, or were stopped, though the GPU was done: the estimate of what that cost.", byProcess, mostProcesses + 1,
		`rate(ingero_step_lost_seconds_total[5m])`},
	OpenCallAge: {"ingero.call.open.age", Gauge, "s", "How long the longest call has been open that has not returned.", byProcess, mostProcesses,
		`ingero_call_open_age_seconds > 60`},
	Anomalies: {"ingero.anomaly.count", Counter, "{chain}", "Causes of lost time that were found: chains. One that becomes graver is counted at each severity that it reaches.", []string{"rule", "severity"}, 3 * mostRules,
		`increase(ingero_anomaly_count_total{severity="HIGH"}[5m]) > 0`},
	AnomaliesRevised: {"ingero.anomaly.revised", Counter, "{chain}", "Causes that were told and taken back, as more was seen.", nil, 1,
		`increase(ingero_anomaly_revised_total[1h])`},
	AnomaliesActive: {"ingero.anomaly.active", Gauge, "{chain}", "Causes that cost time now, or did a moment ago.", []string{"rule", "severity"}, 3 * mostRules,
		`sum by (rule) (ingero_anomaly_active) > 0`},
	AnomalyLost: {"ingero.anomaly.lost", Counter, "s", "Wall time that processes lost, by cause. Added as a cause is told: when it is found, when it has cost much more, when it is over.", []string{"process", "pid", "rule", "culprit"}, mostCauses + 1,
		`topk(5, increase(ingero_anomaly_lost_seconds_total[1h]))`},
	RollCallAge: {"ingero.collective.missing.age", Gauge, "s", "For how long ranks have waited for others to enter a collective: the longest.", nil, 1,
		`ingero_collective_missing_age_seconds > 30`},
	RankLate: {"ingero.collective.late", Counter, "s", "For how long a rank was the last that all others waited for.", []string{"rank"}, mostRanks + 1,
		`topk(3, rate(ingero_collective_late_seconds_total[5m]))`},
	MemoryHeld: {"ingero.memory.held", Gauge, "By", "Memory that a process has allocated by CUDA and not freed, of the GPU and pinned of the host.", []string{"process", "pid", "memory"}, 2 * mostProcesses,
		`sum by (pid) (ingero_memory_held_bytes{memory="gpu"})`},
	MemoryPeak: {"ingero.memory.peak", Gauge, "By", "The most of it that there was.", []string{"process", "pid", "memory"}, 2 * mostProcesses,
		`ingero_memory_peak_bytes{memory="gpu"}`},
	MemoryOOMs: {"ingero.memory.oom.count", Counter, "{call}", "Allocations that failed for want of GPU memory.", byProcess, mostProcesses + 1,
		`increase(ingero_memory_oom_count_total[10m]) > 0`},
	MemoryGrowth: {"ingero.memory.growth", Gauge, "By/s", "How fast GPU memory grows that is held, where it is a leak: at least so fast.", byProcess, mostProcesses,
		`ingero_memory_growth_bytes_per_second > 0`},
	ProcessInfo: {"ingero.process.info", Gauge, "", "Where a process runs and as what; the value is 1. To be joined with other metrics of the process.",
		[]string{"process", "pid", "namespace", "pod", "container", "unit", "job", "rank"}, mostProcesses,
		`rate(ingero_step_lost_seconds_total[5m]) * on (pid, instance) group_left (pod, rank) ingero_process_info`},
	Processes: {"ingero.process.active", Gauge, "{process}", "Processes that are traced now.", nil, 1,
		`ingero_process_active`},
	GPUBusy: {"hw.gpu.utilization", Gauge, "1", "Share of the time in which the GPU ran something, as its driver says.", byGPU, mostGPUs,
		`hw_gpu_utilization_ratio < 0.5`},
	GPUMemoryBusy: {"hw.gpu.memory.bandwidth.utilization", Gauge, "1", "Share of the time in which its memory was read or written.", byGPU, mostGPUs,
		`hw_gpu_memory_bandwidth_utilization_ratio`},
	GPUMemoryUsed: {"hw.gpu.memory.usage", Gauge, "By", "GPU memory in use, whoever uses it.", byGPU, mostGPUs,
		`hw_gpu_memory_usage_bytes / hw_gpu_memory_limit_bytes`},
	GPUMemoryLimit: {"hw.gpu.memory.limit", Gauge, "By", "GPU memory that there is.", byGPU, mostGPUs,
		`hw_gpu_memory_limit_bytes`},
	GPUClock: {"ingero.gpu.clock", Gauge, "Hz", "Clock of the GPU's processors.", byGPU, mostGPUs,
		`ingero_gpu_clock_hertz`},
	GPUTemperature: {"hw.temperature", Gauge, "Cel", "Temperature of the GPU.", byGPU, mostGPUs,
		`hw_temperature_celsius{hw_type="gpu"} > 85`},
	GPUPower: {"hw.power", Gauge, "W", "Power that the GPU takes.", byGPU, mostGPUs,
		`hw_power_watts{hw_type="gpu"}`},
	GPUPowerLimit: {"ingero.gpu.power.limit", Gauge, "W", "Power that the GPU may take.", byGPU, mostGPUs,
		`hw_power_watts / ingero_gpu_power_limit_watts > 0.95`},
	GPUThrottled: {"ingero.gpu.throttled", Gauge, "", "1 for each reason why the clocks are lower than they could be.", append([]string{"reason"}, byGPU...), 4 * mostGPUs,
		`ingero_gpu_throttled{reason!="idle"}`},
	GPULost: {"ingero.gpu.unreachable", Gauge, "", "1 for a GPU that does not answer.", byGPU, mostGPUs,
		`ingero_gpu_unreachable == 1`},
	GPUErrors: {"hw.errors", Counter, "{error}", "Faults that GPUs reported: XIDs (xid-79), those of NVSwitches (sxid-...), and errors of memory (ecc-corrected, ecc-uncorrected). Of a fault of a MIG instance, hw.id names that, too: GPU-... GPU-I:05.", []string{"error.type", "hw.id", "hw.type"}, mostXids + 1,
		`increase(hw_errors_total{error_type=~"xid-.*"}[10m]) > 0`},
	CPUBusy: {"system.cpu.utilization", Gauge, "1", "Busy share of all CPUs over the last second.", nil, 1,
		`system_cpu_utilization_ratio`},
	MemoryBusy: {"system.memory.utilization", Gauge, "1", "Share of the machine's memory that is not available.", nil, 1,
		`system_memory_utilization_ratio > 0.95`},
	SwapBusy: {"system.paging.utilization", Gauge, "1", "Share of the swap space that is used. Absent where there is none.", nil, 1,
		`system_paging_utilization_ratio`},
	HostEvents: {"ingero.host.event.count", Counter, "{event}", "What happened on the host: of traced processes, and of others that use what those wait for.", []string{"kind"}, 32,
		`rate(ingero_host_event_count_total{kind="tcp-retransmit"}[1m])`},
	HostTime: {"ingero.host.event.time", Counter, "s", "How long it took, or was so.", []string{"kind"}, 32,
		`rate(ingero_host_event_time_seconds_total{kind="reclaim"}[1m])`},
	HostBytes: {"ingero.host.event.io", Counter, "By", "How many bytes it was of.", []string{"kind"}, 32,
		`rate(ingero_host_event_io_bytes_total{kind="disk-read"}[1m])`},
	Drops: {"ingero.drop.count", Counter, "{record}", "What was not kept, by reason. Counts of calls are exact in any case.", []string{"reason"}, mostReasons,
		`sum by (reason) (increase(ingero_drop_count_total[5m])) > 0`},
	AgentCPU: {"ingero.agent.cpu.time", Counter, "s", "CPU time of ingero's own process. That of the probes is the traced programs'.", nil, 1,
		`rate(ingero_agent_cpu_time_seconds_total[1m])`},
	AgentMemory: {"ingero.agent.memory", Gauge, "By", "Resident memory of ingero's own process.", nil, 1,
		`ingero_agent_memory_bytes`},
	AgentRecords: {"ingero.agent.record.count", Counter, "{record}", "Records that were read from the kernel.", nil, 1,
		`rate(ingero_agent_record_count_total[1m])`},
	OverheadShare: {"ingero.overhead.share", Gauge, "1", "What tracing costs, as a share of the time of the traced processes: their probes and stacks, tracepoints, and the agent itself.", []string{"part"}, 4,
		`sum(ingero_overhead_share_ratio) > 0.02`},
	OverheadBudget: {"ingero.overhead.budget", Gauge, "1", "What tracing may cost before something is left out (--max-overhead).", nil, 1,
		`sum without (part) (ingero_overhead_share_ratio) > on (instance) ingero_overhead_budget_ratio`},
	OverheadShed: {"ingero.overhead.shed", Gauge, "", "1 for each thing that is left out to stay within the budget, 0 for each that is not.", []string{"step"}, len(govern.Steps),
		`ingero_overhead_shed == 1`},
	OverheadFloor: {"ingero.overhead.floor", Gauge, "1", "The least that probes need, as a share of the time of the traced processes, where the budget is less or nothing is left to leave out; else 0.", nil, 1,
		`ingero_overhead_floor_ratio > 0`},
	AgentBuild: {"ingero.agent.info", Gauge, "", "What runs, and where; the value is 1.", []string{"version", "node"}, 1,
		`ingero_agent_info`},
	SeriesNow: {"ingero.metric.series", Gauge, "{series}", "Series of a metric whose number depends on what is traced.", []string{"metric"}, int(ids),
		`ingero_metric_series / ingero_metric_series_limit > 0.9`},
	SeriesMost: {"ingero.metric.series.limit", Gauge, "{series}", "How many there may be.", []string{"metric"}, int(ids),
		`ingero_metric_series_limit`},
	SeriesOver: {"ingero.metric.overflow", Counter, "{series}", "Times that a metric had no room for a series of its own: what it is of is in the one that is called other, or left out of a gauge.", []string{"metric"}, int(ids),
		`increase(ingero_metric_overflow_total[10m]) > 0`},
}
