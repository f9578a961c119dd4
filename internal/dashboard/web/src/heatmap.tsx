// Latency heat maps: the stronger the colour of a cell, the more calls had that duration at that time.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Answer } from "./api";
import { clock, count, mark, marks, ns } from "./fmt";
import { themed } from "./kinds";
import { useStore } from "./store";
import { theme } from "./theme";
import type { HeatOp, Heatmap } from "./types";
import { Notes, Panel, Ready, useWidth } from "./ui";
import { type Range, look, view, zoom } from "./view";

const plot = { left: 62, right: 6, top: 4, bottom: 20, height: 150 };

interface Area {
  width: number; // px of the plot area
  height: number;
  rows: number;
  x: (ms: number) => number; // px from plot.left
}

function areaOf(o: HeatOp, range: Range, width: number): Area {
  const inner = Math.max(width - plot.left - plot.right, 1);
  const rows = Math.max(o.low_ns.length - 1, 1);
  return { width: inner, height: plot.height - plot.top - plot.bottom, rows, x: (ms) => ((ms - range.from) / (range.to - range.from)) * inner };
}

// ramp returns 8 colours, from the panel's background to the strongest.
function ramp(): string[] {
  return Array.from({ length: 8 }, (_, i) => themed(`heat-${i}`));
}

function draw(c: HTMLCanvasElement, h: Heatmap, o: HeatOp, range: Range, width: number): void {
  const ratio = devicePixelRatio || 1;
  [c.width, c.height] = [width * ratio, plot.height * ratio];
  const g = c.getContext("2d");
  if (!g) return;
  g.scale(ratio, ratio);
  const a = areaOf(o, range, width);
  const colours = ramp();
  const most = Math.log1p(o.cells.reduce((m, cell) => Math.max(m, cell[2]), 1));
  const tall = a.height / a.rows;
  for (const [t, l, n] of o.cells) {
    const from = Math.max(a.x(h.start_ms + t * h.bucket_ms), 0);
    const to = Math.min(a.x(h.start_ms + (t + 1) * h.bucket_ms), a.width);
    if (to <= from) continue;
    g.fillStyle = colours[Math.min(7, Math.floor((Math.log1p(n) / most) * 7.99))]!;
    const y = plot.top + a.height - (l + 1) * tall;
    g.fillRect(plot.left + from, y, Math.max(to - from - (to - from > 6 ? 1 : 0), 1), Math.max(tall - (tall > 5 ? 1 : 0), 1));
  }
  axes(g, o, a, range);
}

function axes(g: CanvasRenderingContext2D, o: HeatOp, a: Area, range: Range): void {
  g.fillStyle = themed("soft");
  g.strokeStyle = themed("line");
  g.font = "12px system-ui, sans-serif";
  g.strokeRect(plot.left - 0.5, plot.top - 0.5, a.width + 1, a.height + 1);
  g.textAlign = "right";
  g.textBaseline = "middle";
  const labels = Math.max(1, Math.floor(a.height / 24));
  for (let i = 0; i <= labels; i++) {
    const row = Math.round((a.rows * i) / labels);
    const y = plot.top + a.height - (row / a.rows) * a.height;
    g.fillText(ns(o.low_ns[row]), plot.left - 6, Math.min(Math.max(y, plot.top + 6), plot.top + a.height - 4));
  }
  g.textBaseline = "top";
  g.textAlign = "center";
  for (const ms of marks(range.from, range.to, Math.max(1, a.width / 90))) {
    const x = plot.left + a.x(ms);
    if (x > plot.left + 20 && x < plot.left + a.width - 20) g.fillText(mark(ms, range.to - range.from), x, plot.top + a.height + 5);
  }
}

// cellAt describes the cell under the mouse.
function cellAt(h: Heatmap, o: HeatOp, range: Range, width: number, px: number, py: number): string {
  const a = areaOf(o, range, width);
  const ms = range.from + ((px - plot.left) / a.width) * (range.to - range.from);
  const t = Math.floor((ms - h.start_ms) / h.bucket_ms);
  const l = Math.floor(((plot.top + a.height - py) / a.height) * a.rows);
  if (l < 0 || l >= a.rows || px < plot.left || px > plot.left + a.width) return "";
  const cell = o.cells.find((x) => x[0] === t && x[1] === l);
  return `${clock(ms, range.to - range.from)} · ${ns(o.low_ns[l])} to ${ns(o.low_ns[l + 1])} · ${count(cell?.[2] ?? 0)} calls`;
}

function OneMap({ h, o, range }: { h: Heatmap; o: HeatOp; range: Range }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const on = useStore(theme);
  const [says, say] = useState("");
  const [drag, setDrag] = useState<[number, number] | null>(null);
  useEffect(() => {
    const c = box.current?.querySelector("canvas");
    if (c && width > 100) draw(c, h, o, range, width);
  }, [h, o, width, on, range.from, range.to]);
  const at = (e: PointerEvent) => e.clientX - box.current!.getBoundingClientRect().left;
  const within = (px: number) => Math.min(Math.max(px, plot.left), width - plot.right);
  const toMs = (px: number) => range.from + ((within(px) - plot.left) / (width - plot.left - plot.right)) * (range.to - range.from);
  const move = (e: PointerEvent) => {
    say(cellAt(h, o, range, width, at(e), e.clientY - box.current!.getBoundingClientRect().top));
    if (drag) setDrag([drag[0], within(at(e))]);
  };
  const up = () => {
    if (drag && Math.abs(drag[1] - drag[0]) > 4) zoom({ from: toMs(Math.min(...drag)), to: toMs(Math.max(...drag)) });
    setDrag(null);
  };
  const label = `${o.op}: ${count(o.calls)} calls, p50 ${ns(o.p50_ns)}, p99 ${ns(o.p99_ns)}, longest ${ns(o.max_ns)}`;
  return (
    <figure class="heat">
      <figcaption>
        <button type="button" class="link" title="show only this operation" onClick={() => look({ op: o.op })}>
          {o.op}
        </button>
        <span class="soft">{says || `${count(o.calls)} calls · p50 ${ns(o.p50_ns)} · p99 ${ns(o.p99_ns)} · max ${ns(o.max_ns)}`}</span>
      </figcaption>
      <div
        class="canvas"
        ref={box}
        onPointerDown={(e) => e.button === 0 && (e.currentTarget.setPointerCapture(e.pointerId), setDrag([within(at(e)), within(at(e))]))}
        onPointerMove={move}
        onPointerUp={up}
        onPointerCancel={() => setDrag(null)}
        onPointerLeave={() => say("")}
      >
        <canvas role="img" aria-label={label} style={{ width: `${width}px`, height: `${plot.height}px` }} />
        {drag && <span class="select" style={{ left: `${Math.min(...drag)}px`, width: `${Math.abs(drag[1] - drag[0])}px` }} />}
      </div>
    </figure>
  );
}

export function HeatmapPanel({ answer, range }: { answer: Answer<Heatmap>; range: Range }) {
  const v = useStore(view);
  const names = answer.data?.op_names;
  const options = useMemo(() => [...new Set([...(v.op ? v.op.split(",") : []), ...(names ?? [])])], [names, v.op]);
  const tools = (
    <label>
      Operation{" "}
      <select value={v.op} onChange={(e) => look({ op: e.currentTarget.value })}>
        <option value="">operations with most time</option>
        {v.op.includes(",") && <option value={v.op}>{v.op}</option>}
        {options.map((n) => (
          <option value={n}>{n}</option>
        ))}
      </select>
    </label>
  );
  return (
    <Panel id="latency" title="How long calls took" about="time from left to right, duration from bottom to top; stronger colour: more calls" tools={tools} wide>
      <Ready answer={answer} nothing="No calls were timed in this time range." empty={(d) => !d.ops.length}>
        {(d) => (
          <>
            <div class="heats">
              {d.ops.filter((o) => !v.op || v.op.split(",").includes(o.op)).map((o) => (
                <OneMap key={`${o.source} ${o.op}`} h={d} o={o} range={range} />
              ))}
            </div>
            <Notes notes={d.notes} />
          </>
        )}
      </Ready>
    </Panel>
  );
}
