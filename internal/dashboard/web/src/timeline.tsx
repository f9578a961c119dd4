// Where the time went: the kinds of time of each process or thread, over time.
import { useMemo, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Answer } from "./api";
import { Chart } from "./chart";
import { clock, ns, share } from "./fmt";
import { type Column, Grid } from "./grid";
import { colour, kindName, kinds } from "./kinds";
import { useStore } from "./store";
import { theme } from "./theme";
import type { Chain, Timeline, TimelineRow } from "./types";
import { Choice, Notes, Panel, Ready, Swatch } from "./ui";
import { type Range, look, view } from "./view";

// byKind returns the sums of a row's series by kind: [kind][bucket].
function byKind(row: TimelineRow, buckets: number): (number | null)[][] {
  return kinds.map(([kind]) => {
    const out: (number | null)[] = new Array<number | null>(buckets).fill(null);
    for (const s of row.series) {
      if (s.kind !== kind) continue;
      s.ns.forEach((v, i) => {
        if (v !== null && i < buckets) out[i] = (out[i] ?? 0) + v;
      });
    }
    return out;
  });
}

const sum = (v: (number | null)[]) => v.reduce<number>((a, x) => a + (x ?? 0), 0);

interface Stack {
  row: TimelineRow;
  kinds: (number | null)[][];
  data: uPlot.AlignedData; // x, then cumulative sums, from all kinds down to the first
  totals: number[];
  all: number;
  most: number; // maximum of all buckets, in threads
}

function stackOf(t: Timeline, row: TimelineRow): Stack {
  const parts = byKind(row, t.buckets);
  const known = Array.from({ length: t.buckets }, (_, i) => parts.some((p) => p[i] !== null));
  const upTo: (number | null)[][] = [];
  let below: number[] = new Array<number>(t.buckets).fill(0);
  for (const p of parts) {
    below = below.map((v, i) => v + (p[i] ?? 0));
    upTo.push(below.map((v, i) => (known[i] ? v / (t.bucket_ms * 1e6) : null)));
  }
  const x = Array.from({ length: t.buckets }, (_, i) => t.start_ms + i * t.bucket_ms);
  const most = upTo.at(-1)!.reduce<number>((m, v) => Math.max(m, v ?? 0), 0);
  // Draw the last step to the end of its bucket.
  const ends = (v: (number | null)[]) => [...v, v.at(-1) ?? null];
  const data = [[...x, t.start_ms + t.buckets * t.bucket_ms], ...upTo.reverse().map(ends)] as uPlot.AlignedData;
  const totals = parts.map(sum);
  return { row, kinds: parts, data, totals, all: sum(totals), most };
}

const nameOf = (r: TimelineRow) => (r.rest ? "other threads" : r.comm || "process");

function seriesOf(): uPlot.Series[] {
  const stepped = uPlot.paths.stepped!({ align: 1 });
  return [...kinds].reverse().map(([kind, name]) => {
    const c = colour(kind);
    return { label: name, paths: stepped, points: { show: false }, stroke: c, fill: c, width: 0 };
  });
}

interface At {
  row: number;
  bucket: number;
}

function Legend({ t, stacks, at }: { t: Timeline; stacks: Stack[]; at: At | null }) {
  const hovered = at ? stacks[at.row] : undefined;
  const values = hovered && at ? hovered.kinds.map((k) => k[at.bucket] ?? 0) : kinds.map((_, i) => stacks.reduce((a, s) => a + s.totals[i]!, 0));
  const all = sum(values);
  const about = hovered && at ? `${nameOf(hovered.row)} ${hovered.row.tid || hovered.row.pid} at ${clock(t.start_ms + at.bucket * t.bucket_ms, t.buckets * t.bucket_ms)}` : "Total";
  return (
    <ul class="legend" aria-label="kinds of time">
      <li class="soft of">{about}</li>
      {kinds.map(([kind, name, meaning], i) => (
        <li title={meaning}>
          <Swatch kind={kind} /> {name} <b>{ns(values[i])}</b> <span class="soft">{all ? share(values[i]! / all) : ""}</span>
        </li>
      ))}
    </ul>
  );
}

interface Culprit {
  row: TimelineRow;
  kind: string;
  name: string;
  ns: number;
  of: number;
}

const culprits: Column<Culprit>[] = [
  { name: "who", text: true, head: true, value: (c) => `${nameOf(c.row)} (${c.row.tid || c.row.pid})` },
  { name: "kind", text: true, value: (c) => kindName(c.kind), show: (c) => (<><Swatch kind={c.kind} /> {kindName(c.kind)}</>) },
  { name: "taken by, or waited for", text: true, value: (c) => c.name || "–" },
  { name: "time", value: (c) => c.ns, show: (c) => ns(c.ns) },
  { name: "share", value: (c) => (c.of ? c.ns / c.of : 0), show: (c) => share(c.of ? c.ns / c.of : 0) },
];

function details(stacks: Stack[]): Culprit[] {
  return stacks.flatMap((s) => s.row.series.map((x) => ({ row: s.row, kind: x.kind, name: x.name, ns: sum(x.ns), of: s.all })).filter((c) => c.ns > 0));
}

function Label({ row, all }: { row: TimelineRow; all: number }) {
  const id = row.tid ? `${row.pid} / ${row.tid}` : String(row.pid);
  return (
    <div class="row-label">
      <button type="button" class="link" title={`show only process ${row.pid}`} onClick={() => look({ pid: String(row.pid) })}>
        {nameOf(row)}
      </button>
      <span class="soft">{row.rest ? `of ${row.pid}` : id}</span>
      <span>{ns(all)}</span>
      {row.node && <span class="soft">{row.node}</span>}
    </div>
  );
}

function Rows({ t, range, chains, by }: { t: Timeline; range: Range; chains: Chain[]; by: string }) {
  const [at, setAt] = useState<At | null>(null);
  const on = useStore(theme);
  const stacks = useMemo(() => t.rows.filter((r) => (by === "process" ? r.tid === 0 && !r.rest : r.tid !== 0 || r.rest)).map((r) => stackOf(t, r)), [t, by]);
  const series = useMemo(seriesOf, [on]);
  const tall = stacks.length <= 2 ? 124 : stacks.length <= 6 ? 84 : 60;
  const marks = (pid: number) =>
    chains.filter((c) => c.pid === pid && c.from && c.to).map((c): [number, number, string] => [Date.parse(c.from!), Date.parse(c.to!), `sev-${c.severity.toLowerCase()}`]);
  return (
    <>
      <Legend t={t} stacks={stacks} at={at} />
      <div class="rows">
        {stacks.map((s, i) => (
          <div class="row" key={`${s.row.session} ${s.row.pid} ${s.row.tid} ${s.row.rest}`}>
            <Label row={s.row} all={s.all} />
            <Chart
              height={tall + (i === stacks.length - 1 ? 26 : 0)}
              yWide={26}
              axis={i === stacks.length - 1}
              data={s.data}
              series={series}
              from={range.from}
              to={range.to}
              yMax={Math.max(1, Math.ceil(s.most - 0.05))}
              yText={(v) => (Number.isInteger(v) ? String(v) : "")}
              sync="time"
              marks={marks(s.row.pid)}
              label={`${nameOf(s.row)} ${s.row.pid}: ${kinds.map(([, name], k) => `${name} ${ns(s.totals[k])}`).join(", ")}`}
              hover={(ms) => setAt((was) => (ms === null ? (was?.row === i ? null : was) : { row: i, bucket: Math.min(Math.max(Math.floor((ms - t.start_ms) / t.bucket_ms), 0), t.buckets - 1) }))}
            />
          </div>
        ))}
      </div>
      <p class="soft small-text">
        Height: number of threads. Drag over a chart to zoom the whole page; − zooms out. A bar on top marks a cause.
        {t.resolution && ` Recorded in steps of ${t.resolution}.`}
        {t.more ? ` ${t.more} more rows are not shown: choose a process.` : ""}
      </p>
      <details class="behind">
        <summary>As a table: who had the CPU, and what threads waited for</summary>
        <Grid label="Where the time went" columns={culprits} rows={details(stacks)} sort="time" />
      </details>
    </>
  );
}

export function TimelinePanel({ answer, range, chains }: { answer: Answer<Timeline>; range: Range; chains: Chain[] }) {
  const v = useStore(view);
  const tools = (
    <Choice
      label="rows"
      value={v.rows}
      set={(rows) => look({ rows })}
      options={[
        ["process", "Processes"],
        ["thread", "Threads"],
      ]}
    />
  );
  return (
    <Panel id="time" title="Where the time went" about="measured at each context switch; the parts add up to the threads' time" tools={tools} wide>
      <Ready answer={answer} nothing="No thread times were recorded in this time range." empty={(d) => !d.rows.length}>
        {(d) => (
          <>
            <Rows t={d} range={range} chains={chains} by={v.rows} />
            <Notes notes={d.notes} />
          </>
        )}
      </Ready>
    </Panel>
  );
}
