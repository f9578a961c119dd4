// What is looked at: the range of time, the filters and the choices of panels. It is kept
// in the address, so that a link shows the same and the back button works.
import { Store } from "./store";
import type { Overview, Recording } from "./types";

export interface View {
  last: string; // a preset: "rec", "all", "5m" ...; "" with from and to: those; "" alone: the default
  from: number | null; // Unix ms
  to: number | null;
  pid: string;
  op: string;
  node: string;
  session: string;
  rows: string; // of the timeline: "process" or "thread"
  flame: string;
}

const empty: View = { last: "", from: null, to: null, pid: "", op: "", node: "", session: "", rows: "process", flame: "time" };

export interface Range {
  from: number; // Unix ms
  to: number;
}

export const presets: [string, string][] = [
  ["rec", "This recording"],
  ["1m", "Last minute"],
  ["5m", "Last 5 min"],
  ["15m", "Last 15 min"],
  ["1h", "Last hour"],
  ["6h", "Last 6 h"],
  ["1d", "Last day"],
  ["all", "All there is"],
];

const lengths: Record<string, number> = { "1m": 60e3, "5m": 300e3, "15m": 900e3, "1h": 3600e3, "6h": 6 * 3600e3, "1d": 86400e3 };

const choices: Partial<Record<keyof View, string[]>> = {
  rows: ["process", "thread"],
  flame: ["time", "gpu_wait", "runnable", "memory"],
};

// read takes the view out of an address; what makes no sense is left out.
export function read(search: string): View {
  const p = new URLSearchParams(search);
  const v: View = { ...empty };
  for (const key of ["pid", "op", "node", "session", "rows", "flame"] as const) {
    const x = p.get(key);
    if (x !== null && (choices[key]?.includes(x) ?? true)) v[key] = x;
  }
  if (!/^\d+(,\d+)*$/.test(v.pid)) v.pid = "";
  const last = p.get("last") ?? "";
  if (presets.some(([name]) => name === last)) v.last = last;
  const [from, to] = [Date.parse(p.get("from") ?? ""), Date.parse(p.get("to") ?? "")];
  if (from < to) [v.from, v.to, v.last] = [from, to, ""];
  return v;
}

// write is the inverse of read.
export function write(v: View): string {
  const p = new URLSearchParams();
  if (v.from !== null && v.to !== null) {
    p.set("from", new Date(v.from).toISOString());
    p.set("to", new Date(v.to).toISOString());
  } else if (v.last) p.set("last", v.last);
  for (const key of ["pid", "op", "node", "session", "rows", "flame"] as const) if (v[key] !== empty[key]) p.set(key, v[key]);
  return p.toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
}

export const view = new Store<View>(read(location.search));

addEventListener("popstate", () => view.set(read(location.search)));

// look changes what is looked at. It is a step that the back button takes back.
export function look(change: Partial<View>): void {
  const next = { ...view.get(), ...change };
  const search = write(next);
  if (search === write(view.get())) return;
  if (location.protocol !== "about:") history.pushState(null, "", search ? `?${search}` : location.pathname);
  view.set(next);
}

// zoom sets the range. It is no shorter than a millisecond.
export function zoom(r: Range): void {
  const from = Math.floor(r.from);
  look({ last: "", from, to: Math.max(Math.ceil(r.to), from + 1) });
}

// rangeOf is the range of a view, given what there is. Presets end where the data end.
export function rangeOf(v: View, o: Overview, latest: Recording | undefined): Range {
  const [first, end] = [Date.parse(o.from), Math.ceil(Date.parse(o.to)) + 1];
  if (v.from !== null && v.to !== null) return { from: v.from, to: v.to };
  let last = v.last || (o.recording ? "15m" : "rec");
  if (last === "rec" && !latest) last = "all";
  if (last === "rec" && latest) return { from: Math.floor(Date.parse(latest.from)), to: Math.max(Math.ceil(Date.parse(latest.to)) + 1, Date.parse(latest.from) + 1000) };
  const from = lengths[last];
  return { from: Math.max(Math.floor(first), from ? end - from : 0), to: end };
}

// presetOf is the preset that a view shows, "" where the range is chosen by hand.
export function presetOf(v: View, o: Overview | undefined): string {
  if (v.from !== null) return "";
  return v.last || (o?.recording ? "15m" : "rec");
}
