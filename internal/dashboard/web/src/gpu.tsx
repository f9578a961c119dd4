// GPUs: memory by process, state over time, and faults.
import { useMemo } from "preact/hooks";
import uPlot from "uplot";
import type { Answer } from "./api";
import { Chart } from "./chart";
import { bytes, clock, day, plural, share } from "./fmt";
import { type Column, Grid } from "./grid";
import { themed } from "./kinds";
import { useStore } from "./store";
import { theme } from "./theme";
import type { GPULine, GPULines, MemoryLines, RecordedXid } from "./types";
import { Notes, Panel, Ready } from "./ui";
import type { Range } from "./view";

export type Line = (number | null)[];

const doubled = Array.from({ length: 50 }, (_, i) => 2 ** i);

const known = (v: Line | undefined) => v?.some((x) => x !== null) ?? false;
const last = (v: Line) => v.findLast((x) => x !== null) ?? null;
const most = (v: Line) => v.reduce<number>((m, x) => Math.max(m, x ?? 0), 0);

export interface LineChartProps {
  name: string;
  at: number[];
  lines: [string, Line][];
  range: Range;
  text: (v: number) => string;
  most?: number;
  gaps?: boolean; // connect values across gaps
  straight?: boolean; // straight lines between values; else each value holds until the next
}

// LineChart shows lines over time. The caption of a single line has its last value.
export function LineChart({ name, at, lines, range, text, most: top, gaps, straight }: LineChartProps) {
  const on = useStore(theme);
  const series = useMemo(
    () => lines.map(([label], i): uPlot.Series => ({ label, stroke: themed(`line-${i % 4}`), width: 1.5, spanGaps: gaps ?? false, ...(straight ? {} : { paths: uPlot.paths.stepped!({ align: 1 }) }), dash: i < 4 ? [] : [4, 3], points: { show: at.length < 3, size: 4 } })),
    [on, lines, gaps, straight],
  );
  const data = useMemo(() => [at, ...lines.map(([, v]) => v)] as uPlot.AlignedData, [at, lines]);
  const said = lines.map(([label, v]) => `${label} last ${text(last(v) ?? 0)}, max ${text(most(v))}`).join("; ");
  return (
    <figure class="mini">
      <figcaption>
        {name} <b>{lines.length === 1 && last(lines[0]![1]) !== null ? text(last(lines[0]![1])!) : ""}</b>
      </figcaption>
      <Chart height={110} data={data} series={series} from={range.from} to={range.to} yText={text} yWide={66} {...(text === bytes ? { ySteps: doubled } : {})} label={`${name}: ${said}`} sync="time" {...(top === undefined ? {} : { yMax: top })} />
    </figure>
  );
}

function MemoryOf({ m, range }: { m: MemoryLines; range: Range }) {
  const shown = useMemo(() => m.processes.filter((p) => known(p.gpu_bytes)).sort((a, b) => (b.peak_bytes ?? 0) - (a.peak_bytes ?? 0)), [m]);
  const lines = useMemo(() => shown.slice(0, 8).map((p): [string, Line] => [`${p.comm} (${p.pid})`, p.gpu_bytes]), [shown]);
  const columns: Column<MemoryLines["processes"][0]>[] = [
    { name: "process", text: true, head: true, value: (p) => `${p.comm} (${p.pid})` },
    { name: "GPU memory now", value: (p) => last(p.gpu_bytes), show: (p) => bytes(last(p.gpu_bytes)) },
    { name: "peak", value: (p) => p.peak_bytes, show: (p) => bytes(p.peak_bytes) },
    { name: "pinned host memory", value: (p) => last(p.host_bytes), show: (p) => bytes(last(p.host_bytes)) },
    { name: "exact", text: true, value: (p) => (p.exact ? "yes" : "only since the attach") },
  ];
  return (
    <>
      {lines.length > 0 && <LineChart name="GPU memory allocated by processes" at={m.at_ms} lines={lines} range={range} text={bytes} />}
      <Grid label="GPU memory by process" columns={columns} rows={m.processes} sort="GPU memory now" most={6} />
      <Notes notes={m.notes} />
    </>
  );
}

export function MemoryPanel({ answer, range }: { answer: Answer<MemoryLines>; range: Range }) {
  return (
    <Panel id="memory" title="GPU memory" about="live allocations by process; for the lines of code, choose “Live GPU memory” above">
      <Ready answer={answer} nothing="No process allocated GPU memory in this time range." empty={(d) => !d.processes.length}>
        {(d) => <MemoryOf m={d} range={range} />}
      </Ready>
    </Panel>
  );
}

const whole = (v: number) => share(v, 0);
const mhz = (v: number) => `${(v / 1e6).toFixed(0)} MHz`;
const celsius = (v: number) => `${v.toFixed(0)} °C`;
const watts = (v: number) => `${v.toFixed(0)} W`;

function throttles(g: GPULine): string {
  const said = new Map<string, number>();
  g.throttle?.forEach((t) => t && said.set(t, (said.get(t) ?? 0) + 1));
  return [...said].map(([why, n]) => `${why} (${share(n / g.at_ms.length, 0)} of the time)`).join(", ");
}

function One({ g, range }: { g: GPULine; range: Range }) {
  const charts = useMemo(
    (): [string, Line, (v: number) => string, number | undefined][] => [
      ["Utilization", g.busy, whole, 1],
      ["Memory in use", g.mem_used_bytes, bytes, g.mem_total_bytes ?? undefined],
      ["SM clock", g.clock_sm_hz, mhz, undefined],
      ["Temperature", g.temperature_c, celsius, undefined],
      ["Power", g.power_w, watts, last(g.power_limit_w ?? []) ?? undefined],
    ],
    [g],
  );
  const why = throttles(g);
  return (
    <div class="gpu">
      <h3>
        {g.name || "GPU"} <span class="soft">{[g.bus, g.node].filter(Boolean).join(" · ")}</span>
      </h3>
      {g.lost?.some(Boolean) && <p class="problem">The GPU has fallen off the bus: reboot the machine.</p>}
      {why && <p>Clocks were lowered: {why}</p>}
      {most(g.ecc_uncorrected ?? []) > 0 && <p class="problem">{plural(most(g.ecc_uncorrected), "uncorrectable memory error")}</p>}
      <div class="minis">
        {charts.filter(([, v]) => known(v)).map(([name, v, text, top]) => (
          <Mini name={name} v={v} at={g.at_ms} range={range} text={text} top={top} />
        ))}
      </div>
    </div>
  );
}

function Mini({ name, v, at, range, text, top }: { name: string; v: Line; at: number[]; range: Range; text: (v: number) => string; top: number | undefined }) {
  const lines = useMemo((): [string, Line][] => [[name, v]], [v]);
  return <LineChart name={name} at={at} lines={lines} range={range} text={text} {...(top === undefined ? {} : { most: top })} />;
}

const xids: Column<RecordedXid>[] = [
  { name: "time", text: true, head: true, value: (x) => x.at_ms, show: (x) => `${day(x.at_ms)} ${clock(x.at_ms)}` },
  { name: "XID", value: (x) => x.code, show: (x) => <b>{x.code}</b> },
  { name: "name", text: true, value: (x) => x.name },
  { name: "severity", text: true, value: (x) => x.severity },
  { name: "GPU", text: true, value: (x) => x.bus },
  { name: "process", text: true, value: (x) => (x.pid ? `${x.comm ?? ""} (${x.pid})` : "–") },
  { name: "message", text: true, value: (x) => x.msg },
];

export function GPUPanel({ answer, range }: { answer: Answer<GPULines>; range: Range }) {
  return (
    <Panel id="gpus" title="GPUs and faults" about="state reported by the driver, and XIDs">
      <Ready answer={answer} nothing="No GPU state and no faults were recorded in this time range." empty={(d) => !d.gpus.length && !d.xids.length}>
        {(d) => (
          <>
            {d.gpus.map((g) => (
              <One key={g.uuid || g.bus} g={g} range={range} />
            ))}
            {d.xids.length > 0 ? <Grid label="GPU faults (XIDs)" columns={xids} rows={d.xids} sort="time" most={8} /> : <p class="empty">No faults (XIDs) in this time range.</p>}
            <Notes notes={d.notes} />
          </>
        )}
      </Ready>
    </Panel>
  );
}
