// Generated from internal/wire by make docs. The answers of the read API (docs/reference/api.md). An
// unknown value is absent or null, never 0.

/** Breakdown divides the time of a process's threads. The parts add up to elapsed_ns. */
export interface Breakdown {
  pid: number;
  threads: number;
  elapsed_ns: number;
  parts: BreakdownPart[];
  steps: number;
  step_p50_ns?: number;
  step_p99_ns?: number;
  critical_ns: number; // Time that steps lost by waiting for a CPU after the GPU finished, with its interval.
  critical_min_ns: number;
  critical_max_ns: number;
  by_thread?: ThreadTime[]; // ByThread is the same time by thread, longest time in calls first.
  loop?: Loop; // absent: no repetition found
}

/** BreakdownPart is one part; by has its shares, if known. */
export interface BreakdownPart {
  name: string;
  ns: number;
  percent: number; // one decimal; all add up to 100
  by?: Share[];
}

/** Capabilities is the answer of /api/v1/capabilities. */
export interface Capabilities {
  node: string;
  recording: string; // ID
  reports: Limitation[]; // what was not traced, and why
  capabilities: Capability[];
}

/** Capability reports whether a kind of data exists. */
export interface Capability {
  name: string;
  about: string;
  available: boolean;
  collected: boolean; // ingero collects it
  tool: string; // the tool that supplies it
}

/** Chain is a chain as JSON, with the words of the text. Estimated times have their interval. */
export interface Chain {
  id: string;
  rule: string;
  severity: string;
  pid: number;
  tid?: number;
  comm?: string;
  op?: string; // absent: between calls
  at?: string; // in the program's code
  from?: string;
  to?: string;
  headline: string;
  root_cause: string;
  fix?: string;
  lost_ns: number;
  lost_min_ns: number;
  lost_max_ns: number;
  window_ns: number;
  excess_ns: number;
  steps: number;
  slow_steps: number;
  confidence: number;
  baseline?: string;
  judged_with_less?: string; // what was not seen; in baseline as well
  step_p50_ns?: number;
  step_p99_ns?: number;
  step_p99_without_ns?: number;
  op_p50_ns?: number;
  op_p99_ns?: number;
  culprits: Culprit[];
  timeline: Moment[];
  not_it: string[];
}

/** ChainChange describes a change of a cause. */
export interface ChainChange {
  id: string;
  change: string; // appeared, changed, ended
  severity: string;
  rule: string;
  pid: number;
  comm: string;
  op: string;
  lost_ns: number;
  from_ms: number;
  to_ms: number;
}

/** ChainSummary summarizes a cause of lost time. */
export interface ChainSummary {
  id: string;
  severity: string;
  pid: number;
  comm: string;
  headline: string;
  lost_ns: number;
}

/** Chains are a report's causes, with the context needed to read them. */
export interface Chains {
  from: string;
  to: string;
  node: string;
  chains: Chain[];
  hidden?: Hidden[];
  notes: string[];
}

/** ClassTime is the time in calls of one class. */
export interface ClassTime {
  class: string;
  ns: number;
  percent: number; // of ThreadNS
}

/** Clock is the answer of /api/v1/time. */
export interface Clock {
  node: string;
  version: string;
  time_ns: number;
  time: string; // RFC 3339 in UTC
}

/** Collectives is the answer of /api/v1/collectives. */
export interface Collectives {
  node: string;
  ranks: Rank[];
}

/** Communicators is the answer of /api/v1/communicators. */
export interface Communicators {
  node: string;
  columns: string[];
  rows: ((string | number | null | { hex: string })[])[];
}

/** Counts are exact sums from the kernel, even if records were dropped. All times are nanoseconds. Open calls are Calls - Done - Abandoned - Unmeasured. */
export interface Counts {
  Calls: number; // entries
  Done: number; // returns; their times are in Total and its parts
  Errors: number; // returns with an error result
  Nested: number; // of Calls: made inside another traced call
  Unmeasured: number; // of Calls: the return was not watched
  Abandoned: number; // entries that never returned: longjmp, exec, thread exit
  Total: number; // Total = OnCPU + Runnable + Throttled + blocked, unless Partial > 0
  OnCPU: number;
  Runnable: number;
  Throttled: number;
  Inner: number; // of Total: inside traced calls made by these calls
  Partial: number; // calls in Done whose OnCPU is unknown and not in OnCPU
  PartialNS: number; // of Total: OnCPU or blocked time of those calls
}

/** Culprit is a process that took the time of a chain. */
export interface Culprit {
  name?: string;
  pid?: number;
  tid?: number;
  ppid?: number;
  own?: boolean;
  agent?: boolean;
  what?: string;
  cgroup?: string;
  cmdline?: string;
  where?: string;
  parent?: string;
  path?: string; // the threads through which the process waited for it; absent: direct wait
  cpus?: number[];
  at?: string; // place in its program while it was waited for
  lost_ns: number;
  limit?: string; // the limit that was hit: "2 CPUs"
  limit_group?: string;
  limit_file?: string;
}

/** Drop counts the records that were dropped for one reason. */
export interface Drop {
  reason: string;
  count: number;
  lost: boolean; // data is missing
}

/** Entry is a rank's entry into a collective: the Seq-th of its communicator. */
export interface Entry {
  seq: number;
  op: string;
  time_ns: number;
}

/** Flame is the answer of /api/v1/flame. */
export interface Flame {
  from: string;
  to: string;
  node: string;
  what: string;
  unit: string;
  total: number;
  without: number; // calls without a stack
  sampled: number; // share of the calls that was read
  root: FlameNode;
  nodes: number;
  cut: number; // small nodes, counted in their parents
  notes: string[];
}

/** FlameNode is a function, a process or an operation in a call tree. */
export interface FlameNode {
  name: string;
  kind?: string; // process, python, native, gpu, gap, op
  pid?: number; // of a process
  file?: string;
  line?: number;
  module?: string;
  value: number;
  self: number; // not in any child
  children?: FlameNode[]; // largest first
}

/** Frame is a function in a stack. */
export interface Frame {
  func?: string;
  file?: string;
  line?: number;
  module?: string; // for native code
}

/** FunctionLaunches counts the launches of one GPU function. */
export interface FunctionLaunches {
  function: string;
  symbol: string; // linker name
  launches: number;
  call_ns?: number; // of the launching calls, if measured
}

/** GPULine is a GPU's state over time. Unknown values are null. */
export interface GPULine {
  bus: string;
  uuid: string;
  name: string;
  node: string;
  mem_total_bytes: number | null;
  at_ms: number[];
  busy: (number | null)[]; // 0 to 1
  mem_used_bytes: (number | null)[];
  clock_sm_hz: (number | null)[];
  clock_mem_hz: (number | null)[];
  temperature_c: (number | null)[];
  power_w: (number | null)[];
  power_limit_w: (number | null)[];
  throttle: string[];
  ecc_uncorrected: (number | null)[];
  lost: boolean[];
}

/** GPULines is the answer of /api/v1/gpus. */
export interface GPULines {
  from: string;
  to: string;
  node: string;
  gpus: GPULine[];
  xids: RecordedXid[];
  more_xids: number; // earlier ones, omitted
  notes: string[];
}

/** GraphEvents is the answer of /api/v1/graph-events. */
export interface GraphEvents {
  from: string;
  to: string;
  node: string;
  of: number; // total number
  events: unknown[]; // latest first
  notes: string[];
}

/** GraphMetrics is the answer of /api/v1/graph-metrics. */
export interface GraphMetrics {
  from: string;
  to: string;
  node: string;
  seconds: number;
  operations: GraphRate[];
  graph_columns: string[];
  graphs: ((string | number | null | { hex: string })[])[]; // most launches first
  notes: string[];
}

/** GraphRate is how often a graph operation was called, and its duration. */
export interface GraphRate {
  op: string;
  calls: number;
  per_second: number;
  errors: number;
  total_ns: number;
  p50_ns: number | null; // null: unknown
  p99_ns: number | null;
  max_ns: number | null;
}

/** Growth is the trend of GPU memory, with its confidence interval. */
export interface Growth {
  bytes_per_minute: number;
  low: number;
  high: number;
  over_ns: number;
  leak: boolean;
}

/** HeatOp is the durations of one operation's calls over time. */
export interface HeatOp {
  op: string;
  source: string;
  calls: number;
  total_ns: number;
  p50_ns: number | null; // null: none was timed
  p99_ns: number | null;
  max_ns: number | null;
  low_ns: number[]; // edges of the rows of latency, one more than rows
  cells: [number, number, number][]; // time bucket, latency row, calls; no empty ones
}

/** Heatmap is the answer of /api/v1/heatmap. */
export interface Heatmap {
  from: string;
  to: string;
  node: string;
  start_ms: number;
  bucket_ms: number;
  buckets: number;
  op_names: string[]; // all operations, most time first
  ops: HeatOp[];
  notes: string[];
}

/** Hidden is a chain that is not shown. */
export interface Hidden {
  id: string;
  rule: string;
  severity: string;
  pid: number;
  culprit?: string;
  lost_ns: number;
  why: string; // silenced, rules-off, min-severity
  what?: string; // the silenced object
  until?: string; // end of the silence
  reason?: string;
}

/** Host is the state of the machine. */
export interface Host {
  cpu: number; // busy share, 0-1
  cpus: number;
  mem_total_bytes: number;
  mem_available_bytes: number;
  swap_total_bytes: number;
  swap_used_bytes: number;
  load: [number, number, number]; // over 1, 5 and 15 minutes
}

/** HostSum is a host sum of one kind. Counts, bytes, times and quantiles are absent if the kind has none; the process is absent if there is none in particular. The quantiles are within a factor of 1.5. */
export interface HostSum {
  kind: string;
  pid?: number;
  comm?: string;
  sender_pid?: number; // sender of a signal, owner of comm; 0: the kernel
  object?: string;
  count?: number;
  failed?: number;
  bytes?: number;
  total_ns?: number;
  p50_ns?: number;
  p99_ns?: number;
}

/** Launches has the GPU functions that a process launched, by records: launches = named + pending + those of unnamed. Graph launches are not included. */
export interface Launches {
  pid?: number; // in ticks; a report has it per process
  launches: number;
  named: number; // of functions with known names
  pending?: number; // of functions whose names are being read
  functions: number;
  unnamed?: UnnamedLaunches[];
  top: FunctionLaunches[]; // most launches first
}

/** Layer sums up the calls of one source. */
export interface Layer {
  source: string;
  calls: number;
  outermost_calls: number; // not nested
  errors: number;
  self_ns?: number;
  self_is_upper_bound: boolean; // SelfAtMost: SelfNS includes counted-only inner calls.
}

/** Limitation is something that failed or was limited: a symbol missing from a library, a probe at an expensive place. */
export interface Limitation {
  kind: string;
  object: string;
  why: string;
}

/** Loop has the steps that a program repeats, of one thread. */
export interface Loop {
  tid: number;
  op: string; // the closing call
  waits: number; // GPU waits in a step
  nvtx_range?: string; // NVTX range of the steps; # is a changing number
  steps: number;
  total_ns: number;
  p50_ns: number;
  p99_ns: number;
  usual: StepPart[]; // median of each part
  slowest: Step[];
}

/** Machine is another machine, with its findings. If it did not answer, it has the address and the error. */
export interface Machine {
  address: string;
  name: string;
  version?: string;
  ahead_ns: number; // clock offset; negative: behind
  within_ns: number;
  chains: number;
  gravest: ChainSummary | null; // the most expensive cause; null: nothing was found
  faults: number; // GPU faults
  error?: string;
  do?: string;
}

/** Machines is the answer of /api/v1/fleet. */
export interface Machines {
  from: string;
  to: string;
  node: string;
  machines: Machine[];
  notes: string[];
}

/** Memory is the account of a process's allocations. */
export interface Memory {
  inexact?: string[]; // absent: exact
  gpu_bytes: number;
  gpu_peak_bytes: number;
  gpu_count: number;
  host_bytes: number;
  host_peak_bytes: number;
  host_count: number;
  allocs: number;
  frees: number;
  released: number;
  double_frees: number;
  unknown_frees: number;
  untracked?: number;
  ooms: number;
  last_oom?: OOM;
  growth?: Growth;
}

/** MemoryLine is the memory that a process held: the maximum of each bucket. */
export interface MemoryLine {
  pid: number;
  comm: string;
  node: string;
  session: string;
  gpu_bytes: (number | null)[];
  host_bytes: (number | null)[]; // pinned and registered
  peak_bytes: number; // GPU memory, in the window
  exact: boolean;
}

/** MemoryLines is the answer of /api/v1/memory. */
export interface MemoryLines {
  from: string;
  to: string;
  node: string;
  at_ms: number[]; // starts of buckets
  processes: MemoryLine[];
  more: number;
  notes: string[];
}

/** Moment is an event in a chain's timeline. */
export interface Moment {
  time: string;
  source: string;
  text: string;
}

/** Node is a machine that was asked to answer a query. */
export interface Node {
  name: string;
  address: string;
  clock_ahead_ns: number; // relative to the clock of the querying machine
  clock_within_ns: number;
  problem?: string; // why there is no answer
}

/** OOM is an allocation that failed for lack of memory. */
export interface OOM {
  time: string;
  op: string;
  bytes?: number;
  device?: number;
  held_bytes: number;
  peak_bytes: number;
  fragmented: boolean;
  holes?: number;
}

/** Op is one operation. calls = done + unmeasured + abandoned + open. The times cover the done calls, and are absent if there are none. total_ns = on_cpu_ns + runnable_ns + throttled_ns + blocked_ns + partial_ns; partial_ns is either on a CPU or blocked. self_ns is the time outside nested traced calls, outer_ns the time of outermost calls. */
export interface Op {
  pid?: number; // in ticks; a report has it per process
  source: string;
  op: string;
  class: string;
  function?: string; // if launches are listed by GPU function
  symbol?: string; // linker name
  no_function?: string; // reason of a missing name
  calls: number;
  done: number;
  errors: number;
  nested: number;
  unmeasured: number;
  abandoned: number;
  open: number;
  total_ns?: number;
  on_cpu_ns?: number;
  runnable_ns?: number;
  throttled_ns?: number; // absent: none
  blocked_ns?: number;
  partial_ns?: number;
  self_ns?: number;
  outer_ns?: number;
  p50_ns?: number;
  p95_ns?: number;
  p99_ns?: number;
  max_ns?: number;
  quantile_error?: number; // QuantileError is the largest relative error of the quantiles.
  thinned?: boolean;
  lower_bound?: boolean; // incomplete count
  last?: OpLast; // in ticks: this tick's share
}

/** OpLast is a tick's own share of an operation. Times and quantiles are absent if no call returned in it. */
export interface OpLast {
  calls: number;
  done: number;
  errors: number;
  total_ns?: number;
  on_cpu_ns?: number;
  runnable_ns?: number;
  throttled_ns?: number;
  blocked_ns?: number;
  partial_ns?: number;
  p50_ns?: number;
  p95_ns?: number;
  p99_ns?: number;
  max_ns?: number;
}

/** OpRow is an operation of a node, a process, or both. */
export interface OpRow {
  node?: string;
  comm?: string;
  pid?: number; // in ticks; a report has it per process
  source: string;
  op: string;
  class: string;
  function?: string; // if launches are listed by GPU function
  symbol?: string; // linker name
  no_function?: string; // reason of a missing name
  calls: number;
  done: number;
  errors: number;
  nested: number;
  unmeasured: number;
  abandoned: number;
  open: number;
  total_ns?: number;
  on_cpu_ns?: number;
  runnable_ns?: number;
  throttled_ns?: number; // absent: none
  blocked_ns?: number;
  partial_ns?: number;
  self_ns?: number;
  outer_ns?: number;
  p50_ns?: number;
  p95_ns?: number;
  p99_ns?: number;
  max_ns?: number;
  quantile_error?: number; // QuantileError is the largest relative error of the quantiles.
  thinned?: boolean;
  lower_bound?: boolean; // incomplete count
  last?: OpLast; // in ticks: this tick's share
}

/** OpTime is an operation's share of a part. */
export interface OpTime {
  op: string;
  ns: number;
  calls: number; // outermost calls
}

/** OpenCall is a call that has not returned. */
export interface OpenCall {
  op: string;
  start: string;
}

/** Operations has the sums of the calls of a window. Times are UTC, durations nanoseconds. */
export interface Operations {
  from?: string;
  to?: string;
  database: string;
  operations: OpRow[]; // largest time first
  notes: string[];
  nodes?: Node[];
}

/** Ops is the answer of /api/v1/ops with sums=1. */
export interface Ops {
  node: string;
  from_ns: number;
  to_ns: number;
  sums: Sum[];
  notes: string[];
  recordings: string[]; // Recordings are the IDs of the recordings in the sums.
}

/** Overview summarizes the available data. */
export interface Overview {
  node: string;
  version: string;
  recording: boolean; // in progress
  recordings: number;
  nodes: string[]; // machines of the recordings
  from: string; // start of the first
  to: string; // last known time of the last
  database_bytes: number;
  calls: number; // of all recordings
  chains: number;
  snapshot?: Snapshot; // the last one
  gpus: RecordedGPU[]; // of the latest recording
  top_chain?: Chain; // the most expensive of the last hour
}

/** PlaceTime divides the time of a thread in one place. */
export interface PlaceTime {
  place: string; // gpu_waits, calls, between_calls
  ns: number;
  percent: number; // one decimal, of elapsed_ns, as in the parts
  parts: BreakdownPart[];
}

/** ProcessReport is a process with its calls in a window. */
export interface ProcessReport {
  pid: number;
  ppid?: number;
  ns_pid?: number; // in its own PID namespace
  uid: number;
  comm?: string;
  exe?: string;
  cgroup?: string;
  started?: string;
  ended?: string;
  mapped?: string; // its first CUDA library
  attached?: string; // earlier calls were not seen
  launches_counted?: boolean; // currently counted, not timed
  cmdline?: string;
  runtime?: string;
  container?: string;
  container_name?: string;
  pod?: string;
  namespace?: string;
  pod_uid?: string;
  qos?: string;
  unit?: string;
  job?: string;
  step?: string;
  rank?: number;
  local_rank?: number;
  world_size?: number;
  local_world_size?: number;
  node_rank?: number;
  master?: string;
  visible_devices?: string;
  from?: string; // of the window, since the attach
  to?: string;
  calls: number; // in all layers, including nested calls
  outermost_calls: number; // not nested
  errors: number; // in all layers
  breakdown?: Breakdown; // Breakdown divides the time by the threads' ledger, Time by the calls and the gaps between them; absent: unknown.
  time?: TimeReport;
  launches?: number;
  memory?: Memory; // absent: no allocations, or unknown
  functions?: Launches; // launched functions
  layers: Layer[];
  ops: Op[];
  notes: string[];
}

/** Processes is the answer of /api/v1/processes. */
export interface Processes {
  from: string;
  to: string;
  node: string;
  processes: RecordedProcess[];
  more: number;
  notes: string[];
}

/** Progress describes how far the database goes. */
export interface Progress {
  node?: string;
  version?: string;
  recording: boolean;
  session: string;
  to_ms: number;
  records: number;
}

/** Rank is a rank of an NCCL communicator, in a process of the machine. Its activity is known up to SeenNS. */
export interface Rank {
  comm: string; // the id that its ranks share
  rank: number; // below 0: unknown
  ranks: number;
  pid: number;
  name: string; // process name
  state: string;
  done: number; // number of collectives entered
  seen_ns: number;
  ended_ns?: number; // end of the process; 0: it is alive, or unknown
  entries: Entry[]; // the last of them, in order
}

/** RecordedGPU is a GPU of a recording. */
export interface RecordedGPU {
  bus: string;
  uuid: string;
  name: string;
  mem_total_bytes: number | null; // null: unknown
}

/** RecordedProcess is a recorded process. */
export interface RecordedProcess {
  node: string;
  session: string;
  pid: number;
  ppid: number;
  comm: string;
  exe: string;
  cmdline?: string;
  started_ms: number | null; // null: unknown, or still running
  ended_ms: number | null;
  cgroup: string;
  pod?: string;
  namespace?: string;
  container?: string;
  job?: string;
  calls: number;
  call_ns: number;
  threads: RecordedThread[]; // those with most time in calls recently
}

/** RecordedThread is a thread of a recorded process. */
export interface RecordedThread {
  tid: number;
  comm: string;
}

/** RecordedXid is a GPU fault. */
export interface RecordedXid {
  at_ms: number;
  bus: string;
  code: number;
  switch?: boolean; // an NVSwitch's
  name: string;
  severity: string;
  burst: number;
  root: number;
  pid?: number;
  comm?: string;
  via: string;
  msg: string;
}

/** Recording is a recording. */
export interface Recording {
  id: string;
  node: string;
  from: string;
  to: string; // last known time
  state: string;
  problem?: string;
  version: string;
  kernel: string;
  mode: string;
  target: string;
  calls: number;
  log_bytes: number;
  pruned: boolean; // its calls were deleted
  cut: boolean; // its first calls were deleted
  chains: number;
}

/** Recordings is the answer of /api/v1/recordings. */
export interface Recordings {
  node: string;
  recordings: Recording[];
  more: number;
}

/** Refusal is the reason why a question has no answer, and what to do. */
export interface Refusal {
  error: string;
  do?: string;
}

/** Report is the report of a window. Times are UTC, durations nanoseconds; unknown values are absent. */
export interface Report {
  from?: string;
  to?: string;
  node?: string;
  source?: string;
  chains: Chain[]; // most severe first
  hidden?: Hidden[]; // chains that are not shown
  processes: ProcessReport[];
  threads: Thread[]; // as of the end
  concurrent_pids?: number[]; // used CUDA at the same time
  xids?: Xid[];
  notes: string[];
  drops: Drop[];
  reports: Limitation[];
  host?: Host;
  self?: Self;
  host_sums: HostSum[]; // host events
}

/** Explained is the answer of /api/v1/explain: the report as JSON and as text. R is Report, or json.RawMessage where the report of another machine, of another version, passes through. */
export interface ReportExplained {
  node: string;
  report: Report;
  text: string;
}

/** ReportFile is a report's data, in place of a server. */
export interface ReportFile {
  version: number;
  made: string;
  from: string;
  to: string;
  node: string;
  answers: Record<string, unknown>;
  errors: Record<string, Refusal>;
}

/** Rows is the answer of /api/v1/query. */
export interface Rows {
  node: string;
  columns: string[];
  rows: ((string | number | null | { hex: string })[])[];
  cut: string; // why further rows are missing
  notes: string[];
  took_ms: number;
}

/** Self is ingero's own use of the machine. */
export interface Self {
  cpu_ns: number; // since the session began
  rss_bytes: number;
}

/** Series is a part of the time. */
export interface Series {
  kind: string;
  name: string; // program on the CPU, or the wait; "": unknown, or the small ones
  ns: (number | null)[];
}

/** Share is the part of a time that one process or one kind of wait has. */
export interface Share {
  ns: number;
  count: number;
  comm?: string; // had the CPU, or ended the wait
  pid?: number;
  tid?: number;
  own?: boolean;
  agent?: boolean;
  idle?: boolean;
  by_irq?: boolean;
  reason?: string; // reason of the wait
  syscall?: string;
  file?: string;
  arg?: number;
  dev?: string;
  at?: string; // the GIL: where it was released
  across?: string; // the call during which it was held
  waker?: Waker;
}

/** Snapshot is the machine's state at one time. Shares are from 0 to 1. */
export interface Snapshot {
  time: string;
  node: string;
  cpu: number;
  cpus: number;
  load: [number, number, number];
  mem_total_bytes: number;
  mem_available_bytes: number;
  swap_total_bytes: number;
  swap_used_bytes: number;
  records: number;
  agent_cpu_ns: number;
  agent_rss_bytes: number;
}

/** Snapshots is the answer of /api/v1/snapshots. */
export interface Snapshots {
  from: string;
  to: string;
  node: string;
  every: number; // 1: all, n: every n-th
  snapshots: Snapshot[];
}

/** Stack sums up one operation's calls with one stack. Sampled stacks stand for the omitted calls. */
export interface Stack {
  site?: string; // program location
  op: string;
  node: string;
  pid: number;
  calls: number;
  wall_ns: number;
  gpu_wait_ns: number;
  runnable_ns: number;
  live_bytes: number; // allocated and not freed
  frames: Frame[]; // innermost first
  cut?: boolean; // the outermost are missing
}

/** Stacks is the answer of /api/v1/stacks. */
export interface Stacks {
  node: string;
  without: number; // calls without a stack
  stacks: Stack[]; // most time first
  notes: string[];
}

/** Step is one step; its parts add up to ns. */
export interface Step {
  from: string;
  to: string;
  ns: number;
  parts: StepPart[];
  took?: Share[]; // CPU users and waits
  why?: string; // differences from the usual step, in words
}

/** StepPart is one part of a step. */
export interface StepPart {
  name: string;
  ns: number;
}

/** Sum is the sum of an operation's calls, for adding to others. Sketch is the binary form of a sketch of package stats. */
export interface Sum {
  op: string;
  source: number;
  pid?: number; // 0: all processes
  comm?: string;
  counts: Counts;
  sketch: string;
}

/** Thread is the account of a thread: in_calls and between add up to the time from since to until. */
export interface Thread {
  pid: number;
  tid: number;
  comm?: string;
  enrolled?: boolean; // makes no traced calls, but woke a thread that does
  ended?: boolean;
  since: string;
  until: string;
  in_calls: Times;
  between_calls: Times;
  in_synchronizing_calls: Times; // of in_calls
  now?: ThreadState;
  open?: OpenCall[]; // calls that have not returned, outermost first
}

/** ThreadState is what a thread does now. */
export interface ThreadState {
  state: string; // on-cpu, runnable, throttled, blocked
  reason?: string;
  syscall?: string;
  file?: string;
  arg?: number;
  dev?: string;
  cpu: number;
  since?: string;
}

/** ThreadTime divides the time of one thread: all parts of all places add up to elapsed_ns, and their percentages to 100. */
export interface ThreadTime {
  tid?: number; // absent: all threads without their own entry
  comm?: string;
  elapsed_ns: number;
  in: PlaceTime[];
}

/** TimePart is one part of the time of threads. */
export interface TimePart {
  name: string;
  ns: number;
  percent: number; // one decimal; all add up to 100
  in_calls_ns: number;
  between_calls_ns: number;
  ops?: OpTime[]; // InCallsNS, the largest first
}

/** TimeReport divides the time of a process's threads from its first call to its last: Parts add up to ThreadNS. */
export interface TimeReport {
  thread_ns: number;
  between_calls_known: boolean;
  between_calls_estimated: boolean;
  parts: TimePart[];
  classes: ClassTime[]; // the time in calls, by class
}

/** Timeline is the answer of /api/v1/timeline. */
export interface Timeline {
  from: string;
  to: string;
  node: string;
  start_ms: number;
  bucket_ms: number;
  buckets: number;
  resolution: string; // of the recorded data
  rows: TimelineRow[];
  more: number; // omitted rows
  notes: string[];
}

/** TimelineRow is where the time of a process (all threads) or of one thread went, by bucket. In each bucket the series add up to the time of its threads. */
export interface TimelineRow {
  pid: number;
  tid: number; // 0: all threads, or the rest
  rest?: boolean; // the threads without a row of their own
  comm: string;
  node: string;
  session: string;
  elapsed_ns: number;
  series: Series[];
}

/** Times are the states of a thread: on a CPU, ready to run, throttled by a CPU quota, blocked. */
export interface Times {
  on_cpu_ns: number;
  runnable_ns: number;
  throttled_ns: number;
  blocked_ns: number;
}

/** UnnamedLaunches counts launches of functions without a known name, by reason. */
export interface UnnamedLaunches {
  why: string;
  launches: number;
}

/** Waker is what the thread that ended the waits did meanwhile. */
export interface Waker {
  on_cpu_ns: number;
  runnable_ns: number;
  throttled_ns: number;
  blocked_ns: number;
  reason?: string;
  syscall?: string;
  dev?: string;
  by_comm?: string; // had the CPU while it was runnable
  by_pid?: number;
  hypervisor?: boolean; // the hypervisor took the CPU
  root_comm?: string; // thread at the end of the chain, if another
  root_pid?: number;
  root_tid?: number;
  at?: string; // place in the program where that thread spent most of the time
}

/** Xid is a fault of a GPU. */
export interface Xid {
  type: string; // "xid"
  timestamp: string;
  code: number;
  switch?: boolean; // an SXid, of an NVSwitch
  name?: string;
  severity?: string;
  pci: string;
  gpu_instance?: number; // MIG instance, if the driver names one
  compute_instance?: number;
  msg: string;
  via: string;
  no_code?: boolean; // the driver gave no code
  caused_by?: number; // code of the fault that the driver names as the cause
  injected?: boolean; // a program wrote it to the kernel log
  meaning: string;
  do: string;
  said_pid?: number; // from the message
  said_name?: string;
  pid?: number;
  comm?: string;
  burst: number;
  at: number; // position in its burst; 1 is the root
  root: number;
  after_ns: number; // time after the root
  last_calls?: XidCall[];
}

/** XidCall is one of the last calls before a fault. */
export interface XidCall {
  tid: number;
  op: string;
  before_ns: number; // time from its start to the fault
  duration_ns?: number;
  result?: number;
  open?: boolean;
}
