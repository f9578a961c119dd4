// Requests to servers: how many, how long they took and what they waited for, the steps of the servers'
// engines, and what the servers report of themselves.
import type { Answer } from "./api";
import { clock, count, day, ns, plural, share } from "./fmt";
import { type Column, Grid } from "./grid";
import type { EngineSteps, InferenceServer, InferenceTimes, Request, RequestWaits, Requests, Server, StepsKind } from "./types";
import { Notes, Panel, Problem, Swatch } from "./ui";
import { look } from "./view";

// The parts of requests' time, in stacking order.
const parts: [string, string][] = [
  ["unread", "until the server read the request"],
  ["receiving", "the rest of the request arrived"],
  ["server", "the server, while its engine had no work"],
  ["prompts", "the engine: prompts of other requests"],
  ["tokens", "the engine: tokens"],
  ["own-prompt", "the engine: the request's own prompt"],
  ["steps", "the engine: prompts or tokens"],
  ["delivery", "from the engine's step to the byte"],
  ["unknown", "not known"],
];

const steps: Record<string, string> = { gpu: "waiting for the GPU", cpu: "on a CPU", runnable: "waiting for a CPU", blocked: "blocked otherwise", unknown: "not known" };

const nameOf = (s: Server | EngineSteps) => `${s.comm || "process"} (${s.pid})`;

// rate formats a number of things a second.
export function rate(n: number | undefined, seconds: number): string {
  if (n === undefined || !(seconds > 0)) return "–";
  const r = n / seconds;
  return r < 99.95 ? r.toFixed(1) : count(Math.round(r));
}

// served reports whether there is something to show.
export function served(d: Requests | undefined): boolean {
  return d !== undefined && d.servers.length + d.engines.length + d.inference.length > 0;
}

function bad(s: Server): string {
  const all: [number, string][] = [
    [s.failed, "failed (status 500 and more)"],
    [s.refused, "refused (status 400 to 499)"],
    [s.unanswered, "without a response"],
  ];
  return all.filter(([n]) => n > 0).map(([n, what]) => `${count(n)} ${what}`).join(", ");
}

const servers = (seconds: number): Column<Server>[] => [
  {
    name: "server",
    text: true,
    head: true,
    value: nameOf,
    show: (s) => (
      <button type="button" class="link" title="show only this process" onClick={() => look({ pid: String(s.pid) })}>
        {nameOf(s)}
      </button>
    ),
  },
  { name: "engine", text: true, value: (s) => [s.engine?.name, s.engine?.model].filter(Boolean).join(" ") || "–" },
  { name: "port", value: (s) => s.port, show: (s) => String(s.port) },
  { name: "requests", title: "with a body (POST)", value: (s) => s.requests, show: (s) => count(s.requests) },
  { name: "per second", value: (s) => s.requests, show: (s) => rate(s.requests, seconds) },
  { name: "failed", title: "failed, refused, or without a response", value: (s) => s.failed + s.refused + s.unanswered, show: (s) => (bad(s) ? <b class="bad" title={bad(s)}>{count(s.failed + s.refused + s.unanswered)}</b> : "0") },
  { name: "first byte p50", title: "from the arrival of a request to the first byte of the response's body", value: (s) => s.first_byte.p50_ns, show: (s) => ns(s.first_byte.p50_ns) },
  { name: "p95", value: (s) => s.first_byte.p95_ns, show: (s) => ns(s.first_byte.p95_ns) },
  { name: "p99", value: (s) => s.first_byte.p99_ns, show: (s) => ns(s.first_byte.p99_ns) },
  { name: "between events p50", title: "mean time between two events of a response, usually tokens", value: (s) => s.between_events.p50_ns, show: (s) => ns(s.between_events.p50_ns) },
  { name: "between events p99", value: (s) => s.between_events.p99_ns, show: (s) => ns(s.between_events.p99_ns) },
  { name: "last byte p50", value: (s) => s.whole.p50_ns, show: (s) => ns(s.whole.p50_ns) },
];

// Waits shows what requests waited for, as a stacked bar with its legend.
function Waits({ s, w }: { s: Server; w: RequestWaits }) {
  const shown = parts.map(([kind, name]) => ({ kind, name, ns: w.parts.find((p) => p.name === kind)?.ns ?? 0 })).filter((p) => p.ns > 0);
  const all = w.engine.reduce((sum, p) => sum + p.ns, 0);
  return (
    <figure>
      <figcaption>
        <b>{nameOf(s)}</b>: time to the first byte of {plural(w.requests, "request")}, {ns(w.total_ns)} in all
      </figcaption>
      <div class="parts" role="img" aria-label={shown.map((p) => `${p.name} ${share(p.ns / w.total_ns)}`).join(", ")}>
        {shown.map((p) => (
          <span class={`k-${p.kind}`} title={`${p.name}: ${ns(p.ns)}`} style={{ flexGrow: p.ns / w.total_ns }} />
        ))}
      </div>
      <ul class="legend">
        {shown.map((p) => (
          <li>
            <Swatch kind={p.kind} /> {p.name} <b>{ns(p.ns)}</b> {share(p.ns / w.total_ns)}
          </li>
        ))}
      </ul>
      {all > 0 && <p class="soft small-text">The engine's steps: {w.engine.map((p) => `${steps[p.name] ?? p.name} ${share(p.ns / all)}`).join(", ")}.</p>}
    </figure>
  );
}

type EngineKind = StepsKind & { engine: string };

// engineKinds returns a row for each kind of steps of each engine.
function engineKinds(engines: EngineSteps[]): EngineKind[] {
  return engines.flatMap((e) => e.kinds.map((k) => ({ ...k, engine: nameOf(e) })));
}

// ofSteps returns the column of a part of the steps' time, as a share.
function ofSteps(name: string, title: string, part: (k: StepsKind) => number): Column<EngineKind> {
  const value = (k: StepsKind) => {
    const all = k.gpu_ns + k.cpu_ns + k.runnable_ns + k.blocked_ns + k.unknown_ns;
    return all > 0 ? part(k) / all : undefined;
  };
  return { name, title: `share of the steps' time: ${title}`, value, show: (k) => share(value(k)) };
}

const engine: Column<EngineKind>[] = [
  { name: "engine", text: true, head: true, value: (k) => k.engine },
  { name: "computes", title: "steps with a CUDA graph compute tokens", text: true, value: (k) => k.kind },
  { name: "steps", value: (k) => k.took.count, show: (k) => count(k.took.count) },
  { name: "requests", title: "mean number of requests that had a token computed in a step", value: (k) => k.mean_requests, show: (k) => k.mean_requests?.toFixed(1) ?? "–" },
  { name: "p50", value: (k) => k.took.p50_ns, show: (k) => ns(k.took.p50_ns) },
  { name: "p99", value: (k) => k.took.p99_ns, show: (k) => ns(k.took.p99_ns) },
  ofSteps("GPU", "waiting for the GPU", (k) => k.gpu_ns),
  ofSteps("CPU", "on a CPU", (k) => k.cpu_ns),
  ofSteps("no CPU", "waiting for a CPU", (k) => k.runnable_ns),
  ofSteps("blocked", "waiting for something else", (k) => k.blocked_ns),
];

type Slow = Request & { server: string };

const slow: Column<Slow>[] = [
  { name: "arrived", text: true, head: true, value: (r) => Date.parse(r.arrived), show: (r) => `${day(Date.parse(r.arrived))} ${clock(Date.parse(r.arrived), 10_000)}` },
  { name: "server", text: true, value: (r) => r.server },
  { name: "client", text: true, value: (r) => r.peer },
  { name: "first byte", value: (r) => r.first_ns ?? r.head_ns, show: (r) => ns(r.first_ns ?? r.head_ns) },
  { name: "until read", title: "until the server read the request", value: (r) => r.read_ns, show: (r) => ns(r.read_ns) },
  { name: "last byte", value: (r) => r.last_ns, show: (r) => ns(r.last_ns) },
  { name: "events", value: (r) => r.events, show: (r) => count(r.events) },
  { name: "longest gap", title: "longest time between two sends of the body", value: (r) => r.longest_gap_ns, show: (r) => ns(r.longest_gap_ns) },
  { name: "status", value: (r) => r.status, show: (r) => String(r.status ?? "–") },
];

const seconds = (v: number | undefined) => ns(v === undefined ? undefined : v * 1e9);
const both = (t: InferenceTimes | undefined) => (t?.p50_s === undefined ? "–" : `${seconds(t.p50_s)}, ${seconds(t.p99_s)}`);
const perSecond = (s: InferenceServer, n: number | undefined) => rate(n, (s.covered_ns ?? 0) / 1e9);

const own: Column<InferenceServer>[] = [
  { name: "server", text: true, head: true, value: (s) => `${[s.engine || "server", s.model].filter(Boolean).join(" ")} (${s.pid || s.url})` },
  { name: "running", title: "requests that it computes, at the last read", value: (s) => s.running, show: (s) => count(s.running) },
  { name: "waiting", title: "requests in its queue, at the last read", value: (s) => s.waiting, show: (s) => count(s.waiting) },
  { name: "KV cache", title: "share of the KV cache in use, at the last read", value: (s) => s.kv_cache, show: (s) => share(s.kv_cache) },
  { name: "preemptions", value: (s) => s.preemptions, show: (s) => count(s.preemptions) },
  { name: "prompt tokens/s", value: (s) => s.prompt_tokens, show: (s) => perSecond(s, s.prompt_tokens) },
  { name: "generated tokens/s", value: (s) => s.generated_tokens, show: (s) => perSecond(s, s.generated_tokens) },
  { name: "first token p50, p99", value: (s) => s.first_token?.p50_s, show: (s) => both(s.first_token) },
  { name: "between tokens p50, p99", value: (s) => s.between_tokens?.p50_s, show: (s) => both(s.between_tokens) },
];

function Content({ d }: { d: Requests }) {
  const length = (Date.parse(d.to) - Date.parse(d.from)) / 1000;
  const slowest = d.servers.flatMap((s) => s.slowest.map((r): Slow => ({ ...r, server: `${nameOf(s)}, port ${s.port}` })));
  return (
    <div class="body">
      {d.servers.length > 0 && <Grid label="Requests by server" columns={servers(length)} rows={d.servers} sort="requests" most={8} />}
      {d.servers.map((s) => s.waits && <Waits key={`${s.pid} ${s.port}`} s={s} w={s.waits} />)}
      {slowest.length > 0 && (
        <details class="behind">
          <summary>The slowest requests</summary>
          <Grid label="Slowest requests" columns={slow} rows={slowest} sort="first byte" most={10} />
        </details>
      )}
      {d.engines.length > 0 && (
        <>
          <h3>Steps of the servers' engines</h3>
          <Grid label="Steps of engines" columns={engine} rows={engineKinds(d.engines)} sort="steps" most={8} />
        </>
      )}
      {d.inference.length > 0 && (
        <>
          <h3>Metrics, as the servers report them</h3>
          <Grid label="Metrics of servers" columns={own} rows={d.inference} most={8} />
          {d.inference.map((s) => s.why && <p class="soft">{`${s.engine || "The server"} (${s.pid || s.url}) is not readable: ${[s.why, s.do].filter(Boolean).join("; ")}`}</p>)}
        </>
      )}
      <Notes notes={d.notes} />
    </div>
  );
}

// RequestsPanel shows requests to servers. Without any there is no panel.
export function RequestsPanel({ answer }: { answer: Answer<Requests> }) {
  const { data, error } = answer;
  if (!served(data) && (!error || error.status === 404)) return null;
  return (
    <Panel id="requests" title="Requests" about="HTTP requests to servers on this machine, measured at their sockets" wide>
      {error ? <Problem what={error.what} todo={error.todo} /> : <Content d={data!} />}
    </Panel>
  );
}
