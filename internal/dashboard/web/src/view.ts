// The view: time range, filters and choices of panels. The URL holds it, so that a link shows the
// same and the back button works.
import { Store } from "./store";
import type { Overview, Recording } from "./types";

export interface View {
  last: string; // a preset: "rec", "all", "5m" ...; "": from and to, or else the default
  from: number | null; // Unix ms
  to: number | null;
  pid: string;
  op: string;
  node: string;
  session: string;
  rows: string; // timeline rows: "process" or "thread"
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
  ["all", "All data"],
];

const lengths: Record<string, number> = { "1m": 60e3, "5m": 300e3, "15m": 900e3, "1h": 3600e3, "6h": 6 * 3600e3, "1d": 86400e3 };

const choices: Partial<Record<keyof View, string[]>> = {
  rows: ["process", "thread"],
  flame: ["time", "gpu_wait", "runnable", "memory"],
};

// read parses the query of a URL and ignores invalid values.
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

// look changes the view. The back button undoes the change.
export function look(change: Partial<View>): void {
  const next = { ...view.get(), ...change };
  const search = write(next);
  if (search === write(view.get())) return;
  if (location.protocol !== "about:") history.pushState(null, "", search ? `?${search}` : location.pathname);
  view.set(next);
}

// zoom sets the time range, of at least one millisecond.
export function zoom(r: Range): void {
  const from = Math.floor(r.from);
  look({ last: "", from, to: Math.max(Math.ceil(r.to), from + 1) });
}

// endOf returns where the data ends, ms.
const endOf = (o: Overview) => Math.ceil(Date.parse(o.to)) + 1;

// later returns a range that is moved by that many of its lengths, at most to the end of the data.
export function later(r: Range, by: number, o: Overview | undefined): Range {
  const move = Math.min(by * (r.to - r.from), o ? Math.max(0, endOf(o) - r.to) : Infinity);
  return { from: r.from + move, to: r.to + move };
}

// inside returns a range that ends where the data ends, if not earlier. A range without data becomes
// the closest one of the same length.
function inside(from: number, to: number, first: number, end: number): Range {
  if (from >= end) return { from: Math.max(first, end - (to - from)), to: end };
  if (to <= first) return { from: first, to: Math.min(end, first + (to - from)) };
  return { from, to: Math.min(to, end) };
}

// rangeOf returns the time range of a view. Presets end where the data ends, other ranges not later.
export function rangeOf(v: View, o: Overview, latest: Recording | undefined): Range {
  const [first, end] = [Math.floor(Date.parse(o.from)), endOf(o)];
  if (v.from !== null && v.to !== null) return inside(v.from, v.to, first, end);
  let last = v.last || (o.recording ? "15m" : "rec");
  if (last === "rec" && !latest) last = "all";
  if (last === "rec" && latest) return { from: Math.floor(Date.parse(latest.from)), to: Math.max(Math.ceil(Date.parse(latest.to)) + 1, Date.parse(latest.from) + 1000) };
  const from = lengths[last];
  return { from: Math.max(first, from ? end - from : 0), to: end };
}

// presetOf returns the preset of a view, "" for a custom range.
export function presetOf(v: View, o: Overview | undefined): string {
  if (v.from !== null) return "";
  return v.last || (o?.recording ? "15m" : "rec");
}
