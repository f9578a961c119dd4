// A uPlot chart that follows its width and the theme. Dragging the mouse over it sets the time
// range of the whole page.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { mark, marks } from "./fmt";
import { useStore } from "./store";
import { theme } from "./theme";
import { useWidth } from "./ui";
import { zoom } from "./view";
import { themed } from "./kinds";

export interface Spec {
  height: number;
  data: uPlot.AlignedData; // x in Unix ms
  series: uPlot.Series[]; // without x
  from: number;
  to: number;
  yMax?: number;
  yText?: (v: number) => string;
  axis?: boolean; // show the time axis
  yWide?: number; // px of the y labels
  ySteps?: number[]; // allowed distances of the y labels
  sync?: string;
  label: string;
  marks?: [number, number, string][]; // marked ranges: from, to, name of a colour
  hover?: (ms: number | null) => void; // called with the time under the mouse, null once it leaves
}

const font = "11px system-ui, sans-serif";

type Now = () => Spec;

function axes(now: Now): uPlot.Axis[] {
  const [ink, line, s] = [themed("soft"), themed("line"), now()];
  const shared = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  const length = () => now().to - now().from;
  const splits = (u: uPlot) => marks(now().from, now().to, Math.max(1, u.bbox.width / devicePixelRatio / 90));
  return [
    { ...shared, show: s.axis ?? true, size: 26, gap: 4, space: 90, splits, values: (_, at) => at.map((v) => mark(v, length())) },
    { ...shared, size: s.yWide ?? 60, gap: 4, space: 24, ...(s.ySteps ? { incrs: s.ySteps } : {}), values: (_, at) => at.map((v) => (v === null ? "" : (now().yText?.(v) ?? String(v)))) },
  ];
}

function drawMarks(u: uPlot, s: Spec): void {
  if (!s.marks?.length) return;
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  ctx.save();
  for (const [from, to, name] of s.marks) {
    const a = Math.max(left, u.valToPos(from, "x", true));
    const b = Math.min(left + width, u.valToPos(to, "x", true));
    if (b < left || a > left + width) continue;
    ctx.fillStyle = themed(name);
    ctx.fillRect(a, top, Math.max(b - a, 2), 3 * devicePixelRatio);
    ctx.globalAlpha = 0.35;
    for (const x of [a, b]) ctx.fillRect(x - 0.5, top, 1, height);
    ctx.globalAlpha = 1;
  }
  ctx.restore();
}

// pressed is the chart on which a drag began. Synchronized charts show the selection but do not zoom.
let pressed: uPlot | null = null;

function chosen(u: uPlot): void {
  if (u.select.width === 0) return;
  const drawn = u.select.width >= 4 && pressed === u;
  const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (drawn) zoom({ from, to });
}

function options(now: Now, width: number): uPlot.Options {
  const s = now();
  return {
    width,
    height: s.height,
    ms: 1,
    pxAlign: false,
    padding: [6, 26, s.axis === false ? 4 : 0, 0],
    legend: { show: false },
    cursor: {
      drag: { x: true, y: false, setScale: false },
      points: { show: false },
      y: false,
      ...(s.sync ? { sync: { key: s.sync, setSeries: false, scales: ["x", null] } } : {}),
    },
    scales: { x: { time: false, range: () => [now().from, now().to] }, y: { range: (_u, _min, max) => [0, now().yMax ?? (max > 0 ? max * 1.05 : 1)] } },
    axes: axes(now),
    series: [{}, ...s.series],
    hooks: {
      setSelect: [chosen],
      setCursor: [(u) => now().hover?.(u.over.matches(":hover") && (u.cursor.left ?? -1) >= 0 ? u.posToVal(u.cursor.left!, "x") : null)],
      draw: [(u) => drawMarks(u, now())],
    },
  };
}

// Chart recreates the plot when the width, the theme or the number of lines changes. New data only
// replaces the data of the plot, so that a drag continues.
export function Chart(s: Spec) {
  const [box, width] = useWidth<HTMLDivElement>();
  const on = useStore(theme);
  const spec = useRef(s);
  const plot = useRef<uPlot | null>(null);
  spec.current = s;
  useEffect(() => {
    if (!box.current || width < 40) return;
    const u = new uPlot(options(() => spec.current, width), spec.current.data, box.current);
    plot.current = u;
    u.over.addEventListener("mousedown", () => (pressed = u));
    return () => {
      plot.current = null;
      u.destroy();
    };
  }, [width, on, s.height, s.axis, s.series.length]);
  useEffect(() => {
    const u = plot.current;
    if (u && (u.data !== s.data || u.scales.x?.min !== s.from || u.scales.x?.max !== s.to)) u.setData(s.data);
  }, [s.data, s.from, s.to, s.yMax, s.marks?.map(String).join()]);
  return <div class="chart" ref={box} role="img" aria-label={s.label} style={{ minHeight: `${s.height}px` }} />;
}
