// What is slow and why: causes of lost time, most severe first, or that nothing is wrong.
import { useEffect } from "preact/hooks";
import { type Answer, file } from "./api";
import { bytes, clock, count, length, ns, plural, share } from "./fmt";
import type { Capabilities, Chain, Culprit, Hidden, ReportExplained } from "./types";
import { Copy, Notes, Problem } from "./ui";
import { look, zoom } from "./view";

const who = (name: string | undefined, pid: number | undefined) => (pid ? `${name || "process"} (${pid})` : name || "it");

const lostShare = (c: Chain) => (c.window_ns > 0 ? ` (${share(c.lost_ns / c.window_ns)})` : "");

// cause returns the part of a headline that has the reason.
function cause(c: Chain): string {
  const at = c.headline.indexOf(" - ");
  return at < 0 ? c.headline : c.headline.slice(at + 3);
}

function title(e: ReportExplained, watched: boolean): string {
  const chains = e.report.chains;
  const c = chains[0];
  if (c) return `${who(c.comm, c.pid)}${c.lost_ns > 0 ? ` lost ${ns(c.lost_ns)} of ${ns(c.window_ns)}${lostShare(c)}` : ""}: ${cause(c)}`;
  if (!e.report.processes.some((p) => p.calls > 0)) return "No CUDA calls in this time range";
  const x = e.report.processes.find((p) => p.unexplained?.unfinished) ?? e.report.processes.find((p) => p.unexplained);
  if (x) return `${who(x.comm, x.pid)}: ${x.unexplained!.unfinished ? "no step finished" : "slow steps"}, no known cause`;
  return watched ? "Nothing is wrong" : "This recording has no data to find causes";
}

function Healthy({ e, watched }: { e: ReportExplained; watched: boolean }) {
  const r = e.report;
  const long = r.from && r.to ? ` in ${length(Date.parse(r.to) - Date.parse(r.from))}` : "";
  if (!watched) return <p>Where the time went is below. To find causes, ingero must trace the scheduler: ingero check reports the missing permission.</p>;
  return (
    <ul class="plain">
      {r.processes.filter((p) => p.calls > 0 && !p.unexplained).slice(0, 8).map((p) => {
        const parts = p.breakdown?.parts ?? p.time?.parts ?? [];
        const gpu = parts.find((x) => x.name === "gpu_wait");
        const steps = p.breakdown?.steps ? `, ${plural(p.breakdown.steps, "step")} of ${ns(p.breakdown.step_p50_ns)} (p99 ${ns(p.breakdown.step_p99_ns)})` : "";
        const usual = (p.breakdown?.loop?.usual ?? []).filter((x) => x.ns > 0).map((x) => `${x.name.replaceAll("_", " ")} ${ns(x.ns)}`);
        return (
          <li>
            Nothing slowed <b>{who(p.comm, p.pid)}</b>
            {long}
            {steps}: {count(p.calls)} calls{gpu ? `, waiting for the GPU ${share(gpu.percent / 100)} of the time` : ""}.
            {usual.length > 0 && <span class="soft"> Typical step: {usual.join(", ")}.</span>}
          </li>
        );
      })}
    </ul>
  );
}

function nameOf(c: Culprit): string {
  if (c.own) return "its own threads";
  if (c.agent) return "ingero itself";
  return c.name || c.pid ? who(c.name, c.pid) : (c.what ?? "unknown");
}

function Person({ c }: { c: Culprit }) {
  const more = [c.parent && `started by ${c.parent}`, c.cgroup, c.where, c.cpus?.length && `CPU ${c.cpus.join(", ")}`].filter(Boolean);
  return (
    <li>
      <b>{nameOf(c)}</b>
      {c.what && c.what !== nameOf(c) && `: ${c.what}`}
      {c.lost_ns > 0 && ` · ${ns(c.lost_ns)}`}
      {more.length > 0 && <span class="soft"> · {more.join(" · ")}</span>}
      {c.cmdline && (
        <code class="cmd" title={c.cmdline}>
          {c.cmdline}
        </code>
      )}
    </li>
  );
}

function lost(c: Chain): string {
  const between = c.lost_min_ns !== c.lost_max_ns ? ` (between ${ns(c.lost_min_ns)} and ${ns(c.lost_max_ns)})` : "";
  const steps = c.steps ? `; ${count(c.slow_steps)} of ${plural(c.steps, "step")} ${c.slow_steps === 1 ? "was" : "were"} slow` : "";
  return `${ns(c.lost_ns)}${between} of ${ns(c.window_ns)}${lostShare(c)}${steps}`;
}

// without describes the result without the cause.
function without(c: Chain): string {
  if (c.step_p99_without_ns && c.step_p99_ns) return `a step's p99 would be ${ns(c.step_p99_without_ns)}, not ${ns(c.step_p99_ns)}`;
  if (c.window_ns > 0 && c.lost_ns > 0) return `the same work would have taken ${ns(c.window_ns - c.lost_ns)}, not ${ns(c.window_ns)}`;
  return "";
}

function why(c: Chain): string {
  const of = c.excess_ns > 0 ? `: this explains ${ns(Math.min(c.lost_ns, c.excess_ns))} of ${ns(c.excess_ns)} extra time` : "";
  return `${of}${c.baseline ? `; baseline: ${c.baseline}` : ""}`;
}

function Facts({ c }: { c: Chain }) {
  const than = without(c);
  const [from, to] = [Date.parse(c.from ?? ""), Date.parse(c.to ?? "")];
  return (
    <dl class="facts">
      {c.lost_ns > 0 && <dt>Lost</dt>}
      {c.lost_ns > 0 && <dd>{lost(c)}</dd>}
      <dt>Root cause</dt>
      <dd class="cause">{c.root_cause}</dd>
      {c.culprits.length > 0 && <dt>Culprit</dt>}
      {c.culprits.length > 0 && (
        <dd>
          <ul class="plain">
            {c.culprits.slice(0, 6).map((x) => (
              <Person c={x} />
            ))}
          </ul>
        </dd>
      )}
      {than && <dt>Without it</dt>}
      {than && <dd>{than}</dd>}
      {c.fix && <dt>Fix</dt>}
      {c.fix && (
        <dd class="fix">
          <code>{c.fix}</code> <Copy text={c.fix} what="the fix" />
        </dd>
      )}
      <dt>Confidence</dt>
      <dd>
        <meter min={0} max={1} value={c.confidence} aria-label="confidence" /> {share(c.confidence, 0)}
        <span class="soft">{why(c)}</span>
      </dd>
      {c.at && <dt>Where</dt>}
      {c.at && <dd>{c.at}</dd>}
      {c.not_it.length > 0 && <dt>Not it</dt>}
      {c.not_it.length > 0 && <dd>{c.not_it.join(", ")}</dd>}
      {from < to && <dt>When</dt>}
      {from < to && (
        <dd>
          {clock(from, to - from)} – {clock(to, to - from)} ({length(to - from)}){" "}
          <button type="button" class="small" onClick={() => zoom({ from: from - (to - from) * 0.05, to: to + (to - from) * 0.05 })}>
            Zoom to this time
          </button>{" "}
          {!file && (
            <button type="button" class="small" onClick={() => look({ pid: String(c.pid) })}>
              Show only {who(c.comm, c.pid)}
            </button>
          )}
        </dd>
      )}
    </dl>
  );
}

function Moments({ c }: { c: Chain }) {
  if (!c.timeline.length) return null;
  return (
    <div class="moments">
      <h3 class="h4">Timeline</h3>
      <ol>
        {c.timeline.map((m) => (
          <li>
            <time dateTime={m.time}>{clock(Date.parse(m.time), 60_000)}</time> <span class="tag">{m.source}</span> {m.text}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Card({ c, open }: { c: Chain; open: boolean }) {
  return (
    <li>
      <details class={`card sev-${c.severity.toLowerCase()}`} open={open}>
        <summary>
          <span class="sev">{c.severity}</span>
          <h2 class="h3">{c.headline}</h2>
          <span class="lost">
            {c.lost_ns > 0 && `${ns(c.lost_ns)} lost${lostShare(c)} · `}
            {who(c.comm, c.pid)}
          </span>
        </summary>
        <div class="two">
          <Facts c={c} />
          <Moments c={c} />
        </div>
      </details>
    </li>
  );
}

function HiddenOnes({ hidden }: { hidden: Hidden[] }) {
  const words = (h: Hidden) => `${h.severity} ${h.rule}${h.culprit ? `, ${h.culprit}` : ""}: ${ns(h.lost_ns)} (${h.why})`;
  return (
    <details class="notes">
      <summary>{plural(hidden.length, "hidden cause")}: silenced or below the minimum severity</summary>
      <ul>
        {hidden.map((h) => (
          <li>{words(h)}</li>
        ))}
      </ul>
    </details>
  );
}

// Unexplained shows slow and unfinished steps that no cause explains.
function Unexplained({ e }: { e: ReportExplained }) {
  const all = e.report.processes.filter((p) => p.unexplained);
  if (!all.length) return null;
  return (
    <ul class="plain">
      {all.slice(0, 8).map((p) => (
        <li>{p.unexplained!.text}</li>
      ))}
      {all.length > 8 && <li class="soft">{plural(all.length - 8, "more process", "more processes")}</li>}
    </ul>
  );
}

// Alarms shows faults and calls that have not returned, whatever the causes are.
function Alarms({ e }: { e: ReportExplained }) {
  const open = e.report.threads.filter((t) => t.open?.length && !t.ended);
  const long = open.filter((t) => Date.parse(t.until) - Date.parse(t.open![0]!.start) > 5000);
  return (
    <>
      {e.report.xids?.slice(0, 4).map((x) => (
        <p class="problem">
          <strong>
            XID {x.code} {x.name} of GPU {x.pci}
          </strong>{" "}
          at {clock(Date.parse(x.timestamp))}: {x.meaning} {x.do}
        </p>
      ))}
      {long.slice(0, 4).map((t) => (
        <p class="problem">
          <strong>{t.open![0]!.op} has not returned</strong> in {who(t.comm, t.pid)}, thread {t.tid}, for {length(Date.parse(t.until) - Date.parse(t.open![0]!.start))}.
        </p>
      ))}
    </>
  );
}

interface Props {
  answer: Answer<ReportExplained>;
  capabilities: Capabilities | undefined;
  recording: boolean; // a trace is running
}

// spoken returns the text that screen readers announce. It has no numbers, which change all the time.
function spoken(e: ReportExplained | undefined, text: string): string {
  const c = e?.report.chains[0];
  return c ? `${c.severity}: ${who(c.comm, c.pid)}, ${cause(c)}` : text;
}

export function Headline({ answer, capabilities, recording }: Props) {
  const { data: e, error, loading } = answer;
  const watched = capabilities?.capabilities.find((c) => c.name === "causes")?.available !== false || recording;
  let text = "Loading …";
  if (e) text = title(e, watched);
  else if (error) text = error.status === 404 ? "Nothing was recorded in this time range" : "No answer";
  const chains = e?.report.chains ?? [];
  useEffect(() => {
    document.title = `${text} · ingero`;
  }, [text]);
  const graver = chains[0] ? `sev-${chains[0].severity.toLowerCase()}` : e && watched && e.report.processes.some((p) => p.calls > 0) && !e.report.processes.some((p) => p.unexplained) ? "fine" : "";
  return (
    <section id="headline" class={`headline ${graver}`} aria-labelledby="headline-h" tabIndex={-1} aria-busy={loading}>
      <h1 id="headline-h">{text}</h1>
      <p class="hidden" aria-live="polite">
        {spoken(e, text)}
      </p>
      {error && error.status !== 404 && <Problem what={error.what} todo={error.todo} />}
      {error?.status === 404 && <p>Choose another time range above, or record: {error.todo}</p>}
      {chains.length > 1 && <p class="soft">{chains.length} causes, most severe first.</p>}
      {e && <Alarms e={e} />}
      {e && <Unexplained e={e} />}
      {e && !chains.length && e.report.processes.some((p) => p.calls > 0) && <Healthy e={e} watched={watched} />}
      {chains.length > 0 && (
        <ul class="cards">
          {chains.slice(0, 30).map((c, i) => (
            <Card key={c.id} c={c} open={i === 0} />
          ))}
        </ul>
      )}
      {chains.length > 30 && <p class="soft">{plural(chains.length - 30, "more cause")}: choose a shorter time range to see them.</p>}
      {e?.report.hidden?.length ? <HiddenOnes hidden={e.report.hidden} /> : null}
      <Notes notes={e?.report.notes} />
    </section>
  );
}

// machineLine summarizes the machine's state.
export function machineLine(s: { cpu: number; cpus: number; mem_available_bytes: number; mem_total_bytes: number } | undefined): string {
  return s ? `CPU ${share(s.cpu, 0)} of ${s.cpus} · ${bytes(s.mem_available_bytes)} of ${bytes(s.mem_total_bytes)} free` : "";
}

