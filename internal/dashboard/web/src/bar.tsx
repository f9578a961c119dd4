// The top bar: recording, time range and filters, and the page's own switches.
import { useEffect, useState } from "preact/hooks";
import { file } from "./api";
import { day, length, range as rangeText, zone } from "./fmt";
import { live, pause } from "./live";
import { useStore } from "./store";
import { theme, toggle } from "./theme";
import type { Overview, RecordedProcess, Recording } from "./types";
import { type Range, later, look, presetOf, presets, view, zoom } from "./view";

interface Props {
  overview: Overview | undefined;
  recordings: Recording[];
  processes: RecordedProcess[];
  range: Range | undefined;
  help: () => void;
}

const tag = (p: RecordedProcess) => `${p.comm} (${p.pid})${p.node ? ` ${p.node}` : ""}`;

function Status({ overview, latest }: { overview: Overview | undefined; latest: Recording | undefined }) {
  const l = useStore(live);
  if (file) return <span class="status">Report{file.made ? `, made ${file.made.slice(0, 16).replace("T", " ")} UTC` : ""}</span>;
  if (!overview) return <span class="status" />;
  if (l.state === "paused") return <span class="status">Paused</span>;
  if (l.state === "waiting") return <span class="status bad">No connection to the server</span>;
  if (latest?.problem) return <span class="status bad" title={latest.problem}>{latest.state === "ended" ? latest.problem : `${latest.state}: ${latest.problem}`}</span>;
  if (overview.recording) return <span class="status on">Recording now</span>;
  return <span class="status">Recorded, ended {day(Date.parse(overview.to))}</span>;
}

// around returns a range f times as long with the same middle, moved by that many of r's lengths.
export function around(r: Range, f: number, by = 0): Range {
  const [middle, half] = [(r.from + r.to) / 2 + by * (r.to - r.from), ((r.to - r.from) * f) / 2];
  return { from: middle - half, to: middle + half };
}

function local(ms: number): string {
  const d = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return d.toISOString().slice(0, 23);
}

function ByHand({ range }: { range: Range }) {
  const [from, setFrom] = useState(local(range.from));
  const [to, setTo] = useState(local(range.to));
  useEffect(() => (setFrom(local(range.from)), setTo(local(range.to))), [range.from, range.to]);
  const [a, b] = [Date.parse(from), Date.parse(to)];
  const submit = (e: Event) => {
    e.preventDefault();
    if (a < b) zoom({ from: a, to: b });
    (e.currentTarget as HTMLElement).closest("details")?.removeAttribute("open");
  };
  return (
    <details class="byhand">
      <summary title="time range of the whole page; activate to type another">
        {rangeText(range.from, range.to)} <span class="soft">({length(range.to - range.from)})</span>
      </summary>
      <form onSubmit={submit}>
        <label>
          From <input type="datetime-local" step="0.001" value={from} onInput={(e) => setFrom(e.currentTarget.value)} />
        </label>
        <label>
          To <input type="datetime-local" step="0.001" value={to} onInput={(e) => setTo(e.currentTarget.value)} />
        </label>
        <button type="submit" disabled={!(a < b)}>
          Show
        </button>
        <span class="soft">times in {zone()}</span>
      </form>
    </details>
  );
}

const wholeFile: [string, string][] = [["rec", "The whole report"]];

function Time({ overview, range }: { overview: Overview | undefined; range: Range | undefined }) {
  const v = useStore(view);
  const preset = file && v.from === null ? "rec" : presetOf(v, overview);
  return (
    <div class="time" role="group" aria-label="time">
      <select aria-label="time range" value={preset} onChange={(e) => look({ last: file ? "" : e.currentTarget.value, from: null, to: null })}>
        {preset === "" && <option value="">Custom range</option>}
        {(file ? wholeFile : presets).map(([name, text]) => (
          <option value={name}>{text}</option>
        ))}
      </select>
      <button type="button" aria-label="earlier" title="earlier (←)" disabled={!range} onClick={() => zoom(around(range!, 1, -0.5))}>
        ‹
      </button>
      <button type="button" aria-label="later" title="later (→)" disabled={!range} onClick={() => zoom(later(range!, 0.5, overview))}>
        ›
      </button>
      <button type="button" aria-label="zoom in" title="zoom in (+)" disabled={!range} onClick={() => zoom(around(range!, 0.5))}>
        +
      </button>
      <button type="button" aria-label="zoom out" title="zoom out (-)" disabled={!range} onClick={() => zoom(around(range!, 2))}>
        −
      </button>
      {range && <ByHand range={range} />}
    </div>
  );
}

function Filters({ overview, recordings, processes }: Pick<Props, "overview" | "recordings" | "processes">) {
  const v = useStore(view);
  const nodes = (overview?.nodes ?? []).filter(Boolean);
  const set = (e: Event & { currentTarget: HTMLSelectElement }, key: "pid" | "node" | "session" | "op") => look({ [key]: e.currentTarget.value });
  const known = processes.some((p) => String(p.pid) === v.pid);
  return (
    <div class="filters" role="group" aria-label="filters">
      <select id="filter-pid" aria-label="process" value={v.pid} onChange={(e) => set(e, "pid")}>
        <option value="">All processes</option>
        {v.pid && !known && <option value={v.pid}>{v.pid}</option>}
        {processes.map((p) => (
          <option value={String(p.pid)} title={p.cmdline}>
            {tag(p)}
          </option>
        ))}
      </select>
      {(nodes.length > 1 || v.node) && (
        <select aria-label="machine" value={v.node} onChange={(e) => set(e, "node")}>
          <option value="">All machines</option>
          {[...new Set([...nodes, ...(v.node ? [v.node] : [])])].map((n) => (
            <option value={n}>{n}</option>
          ))}
        </select>
      )}
      {(recordings.length > 1 || v.session) && (
        <select
          aria-label="recording"
          value={v.session}
          onChange={(e) => {
            const r = recordings.find((x) => x.id === e.currentTarget.value);
            if (r) look({ session: r.id, last: "rec", from: null, to: null }); // its end moves while it runs
            else look({ session: "" });
          }}
        >
          <option value="">All recordings</option>
          {v.session && !recordings.some((r) => r.id === v.session) && <option value={v.session}>{v.session}</option>}
          {recordings.map((r) => (
            <option value={r.id}>
              {rangeText(Date.parse(r.from), Date.parse(r.to))} {r.node} {r.state === "ended" ? "" : r.state}
            </option>
          ))}
        </select>
      )}
      {v.op && (
        <span class="chip">
          {v.op}
          <button type="button" aria-label={`remove the filter on ${v.op}`} onClick={() => look({ op: "" })}>
            ×
          </button>
        </span>
      )}
      {(v.op || v.pid || v.node || v.session) && (
        <button type="button" class="small" onClick={() => look({ op: "", pid: "", node: "", session: "" })}>
          Clear filters
        </button>
      )}
    </div>
  );
}

export function Bar(props: Props) {
  const l = useStore(live);
  const on = useStore(theme);
  const { overview } = props;
  return (
    <header class="bar">
      <div class="brand">
        <span class="name">ingero</span>
        <span class="node">{overview?.nodes.filter(Boolean).join(", ") || overview?.node || ""}</span>
        <Status overview={overview} latest={props.recordings[0]} />
      </div>
      <Time overview={overview} range={props.range} />
      {!file && <Filters {...props} />}
      <div class="switches">
        {(l.state === "on" || l.state === "paused") && (
          <button type="button" aria-pressed={l.state === "paused"} onClick={pause} title="pause or resume (p)">
            {l.state === "paused" ? "Resume" : "Pause"}
          </button>
        )}
        <button type="button" onClick={toggle} title="light or dark (t)">
          {on === "dark" ? "Light" : "Dark"}
        </button>
        <button type="button" onClick={props.help} title="keys (?)">
          Keys
        </button>
      </div>
    </header>
  );
}
