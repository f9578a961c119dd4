// Answers of the read API (docs/reference/api.md): the fields that the page reads. An unknown value
// is absent or null, never 0.

export interface Refusal {
  error: string;
  do?: string;
}

export interface Overview {
  node: string;
  version: string;
  recording: boolean;
  recordings: number;
  nodes: string[];
  from: string;
  to: string;
  database_bytes: number;
  calls: number;
  chains: number;
  snapshot?: Snapshot;
  gpus: { bus: string; uuid: string; name: string; mem_total_bytes: number | null }[];
}

export interface Snapshot {
  time: string;
  cpu: number;
  cpus: number;
  load: [number, number, number];
  mem_total_bytes: number;
  mem_available_bytes: number;
  swap_total_bytes: number;
  swap_used_bytes: number;
  node: string;
  agent_cpu_ns: number;
  agent_rss_bytes: number;
}

export interface Snapshots {
  every: number; // 1: all, n: every n-th
  snapshots: Snapshot[];
}

export interface Recording {
  id: string;
  node: string;
  from: string;
  to: string;
  state: string;
  problem?: string;
  version?: string;
  target?: string;
  calls: number;
  chains: number;
}

export interface Culprit {
  name?: string;
  pid?: number;
  own?: boolean;
  agent?: boolean;
  what?: string;
  cgroup?: string;
  cmdline?: string;
  where?: string;
  parent?: string;
  cpus?: number[];
  lost_ns: number;
}

export interface Chain {
  id: string;
  rule: string;
  severity: string;
  pid: number;
  tid?: number;
  comm?: string;
  op?: string;
  at?: string;
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
  step_p50_ns?: number;
  step_p99_ns?: number;
  step_p99_without_ns?: number;
  op_p50_ns?: number;
  op_p99_ns?: number;
  culprits: Culprit[];
  timeline: { time: string; source: string; text: string }[];
  not_it: string[];
}

export interface TimePart {
  name: string;
  ns: number;
  percent: number;
  ops?: { op: string; ns: number; calls: number }[];
}

export interface ReportProcess {
  pid: number;
  comm?: string;
  cmdline?: string;
  calls: number;
  errors: number;
  launches?: number;
  time?: { thread_ns: number; between_calls_estimated: boolean; parts: TimePart[] };
  breakdown?: { steps: number; step_p50_ns?: number; step_p99_ns?: number; parts: { name: string; ns: number; percent: number }[]; loop?: { usual: { name: string; ns: number }[] } };
  notes: string[];
}

export interface ReportXid {
  timestamp: string;
  code: number;
  name?: string;
  severity?: string;
  pci: string;
  meaning: string;
  do: string;
  pid?: number;
  comm?: string;
}

export interface Hidden {
  id: string;
  rule: string;
  severity: string;
  lost_ns: number;
  why: string;
  culprit?: string;
}

export interface Explained {
  node: string;
  report: {
    from?: string;
    to?: string;
    chains: Chain[];
    hidden?: Hidden[];
    processes: ReportProcess[];
    threads: { pid: number; tid: number; comm?: string; until: string; open?: { op: string; start: string }[]; ended?: boolean }[];
    xids?: ReportXid[];
    notes: string[];
  };
  text: string;
}

export interface OpRow {
  comm?: string;
  pid?: number;
  node?: string;
  source: string;
  op: string;
  class: string;
  function?: string;
  calls: number;
  errors: number;
  open: number;
  total_ns?: number;
  on_cpu_ns?: number;
  runnable_ns?: number;
  throttled_ns?: number;
  blocked_ns?: number;
  p50_ns?: number;
  p95_ns?: number;
  p99_ns?: number;
  max_ns?: number;
}

export interface Ops {
  from: string;
  to: string;
  operations: OpRow[];
  notes?: string[];
}

export interface Series {
  kind: string;
  name: string;
  ns: (number | null)[];
}

export interface TimelineRow {
  pid: number;
  tid: number;
  comm: string;
  node?: string;
  session?: string;
  rest?: boolean;
  elapsed_ns?: number;
  series: Series[];
}

export interface Timeline {
  from: string;
  to: string;
  start_ms: number;
  bucket_ms: number;
  buckets: number;
  resolution?: string;
  rows: TimelineRow[];
  more?: number;
  notes: string[];
}

export interface HeatOp {
  op: string;
  source: string;
  calls: number;
  total_ns: number;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
  low_ns: number[];
  cells: [number, number, number][];
}

export interface Heatmap {
  from: string;
  to: string;
  start_ms: number;
  bucket_ms: number;
  buckets: number;
  op_names: string[];
  ops: HeatOp[];
  notes: string[];
}

export interface FlameNode {
  name: string;
  file?: string;
  line?: number;
  kind?: string;
  module?: string;
  pid?: number;
  value: number;
  self?: number;
  children?: FlameNode[];
}

export interface Flame {
  what: string;
  unit: string;
  total: number;
  without: number;
  sampled?: number;
  root: FlameNode;
  cut: number;
  notes: string[];
}

export interface Memory {
  at_ms: number[];
  processes: { pid: number; comm: string; node?: string; gpu_bytes: (number | null)[]; host_bytes: (number | null)[]; peak_bytes: number | null; exact: boolean }[];
  notes: string[];
}

type Line = (number | null)[];

export interface GPU {
  bus: string;
  uuid: string;
  name: string;
  node: string;
  mem_total_bytes: number | null;
  at_ms: number[];
  busy: Line;
  mem_used_bytes: Line;
  clock_sm_hz: Line;
  temperature_c: Line;
  power_w: Line;
  power_limit_w: Line;
  throttle: string[];
  ecc_uncorrected: Line;
  lost?: boolean[];
}

export interface Xid {
  at_ms: number;
  bus: string;
  node?: string;
  code: number;
  name: string;
  severity: string;
  pid?: number;
  comm?: string;
  msg: string;
}

export interface GPUs {
  gpus: GPU[];
  xids: Xid[];
  notes: string[];
}

export interface Process {
  node: string;
  session: string;
  pid: number;
  ppid?: number;
  comm: string;
  cmdline?: string;
  pod?: string;
  job?: string;
  calls: number;
  call_ns: number;
}

export interface Machine {
  address: string;
  name: string;
  version?: string;
  ahead_ns?: number;
  within_ns?: number;
  chains?: number;
  gravest?: { id: string; severity: string; pid: number; comm?: string; headline: string; lost_ns: number } | null;
  faults?: number;
  error?: string;
  do?: string;
}

export interface Rank {
  comm: string;
  rank: number | null;
  ranks: number | null;
  pid: number;
  name?: string;
  state: string;
  done: number;
  seen_ns: number;
  ended_ns?: number;
  entries: { seq: number; op: string; time_ns: number }[];
}

export interface Table {
  columns: string[];
  rows: unknown[][];
  cut?: string;
  notes?: string[];
  took_ms?: number;
}

export interface GraphMetrics {
  seconds: number;
  operations: { op: string; calls: number; per_second: number; errors: number; total_ns: number; p50_ns: number | null; p99_ns: number | null; max_ns: number | null }[];
  graph_columns: string[];
  graphs: (number | string | null)[][];
  notes: string[];
}

export interface Capability {
  name: string;
  about: string;
  available: boolean;
  collected: boolean;
  tool: string;
}

export interface Capabilities {
  capabilities: Capability[];
  reports: { kind: string; object: string; why: string }[];
}
