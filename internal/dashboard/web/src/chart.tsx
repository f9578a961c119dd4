// A uPlot chart that follows its width and the theme. A stretch that is drawn with the
// mouse becomes the range of everything.
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
  series: uPlot.Series[]; // but for x
  from: number;
  to: number;
  yMax?: number;
  yText?: (v: number) => string;
  axis?: boolean; // times below it
  yWide?: number; // px of its numbers
  ySteps?: number[]; // that they may be apart
  sync?: string;
  label: string;
  marks?: [number, number, string][]; // stretches that are marked: from, to, name of a colour
  hover?: (index: number | null) => void;
}

const font = "11px system-ui, sans-serif";

function axes(s: Spec): uPlot.Axis[] {
  const [ink, line] = [themed("soft"), themed("line")];
  const shared = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  return [
    { ...shared, show: s.axis ?? true, size: 26, gap: 4, space: 90, splits: (u) => marks(s.from, s.to, Math.max(1, u.bbox.width / devicePixelRatio / 90)), values: (_, splits) => splits.map((v) => mark(v, s.to - s.from)) },
    { ...shared, size: s.yWide ?? 60, gap: 4, space: 24, ...(s.ySteps ? { incrs: s.ySteps } : {}), values: (_, splits) => splits.map((v) => (v === null ? "" : (s.yText?.(v) ?? String(v)))) },
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

function options(s: Spec, width: number, set: (u: uPlot) => void): uPlot.Options {
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
    scales: { x: { time: false, range: [s.from, s.to] }, y: { range: (_u, _min, max) => [0, s.yMax ?? (max > 0 ? max * 1.05 : 1)] } },
    axes: axes(s),
    series: [{}, ...s.series],
    hooks: {
      setSelect: [
        (u) => {
          if (u.select.width < 4) return;
          set(u);
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      setCursor: [(u) => s.hover?.(u.cursor.left !== undefined && u.cursor.left >= 0 ? (u.cursor.idx ?? null) : null)],
      draw: [(u) => drawMarks(u, s)],
    },
  };
}

export function Chart(s: Spec) {
  const [box, width] = useWidth<HTMLDivElement>();
  const on = useStore(theme);
  const spec = useRef(s);
  spec.current = s;
  useEffect(() => {
    if (!box.current || width < 40) return;
    const chosen = (u: uPlot) => zoom({ from: u.posToVal(u.select.left, "x"), to: u.posToVal(u.select.left + u.select.width, "x") });
    const u = new uPlot(options(s, width, chosen), s.data, box.current);
    return () => u.destroy();
  }, [width, on, s.data, s.from, s.to, s.height]);
  return <div class="chart" ref={box} role="img" aria-label={s.label} style={{ minHeight: `${s.height}px` }} />;
}
