// Formats numbers and times: three significant digits and a suitable unit.

const units: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "us"],
  [1, "ns"],
];

function digits(v: number): string {
  const a = Math.abs(v);
  if (a >= 100) return v.toFixed(0);
  if (a >= 10) return v.toFixed(1);
  return v.toFixed(2);
}

// ns formats a duration in nanoseconds: "1.41 s", "27.4 ms"; "–" if unknown.
export function ns(v: number | null | undefined): string {
  if (v === null || v === undefined) return "–";
  if (v === 0) return "0 s";
  const a = Math.abs(v);
  if (a >= 3600e9) return `${digits(v / 3600e9)} h`;
  if (a >= 600e9) return `${digits(v / 60e9)} min`;
  for (const [size, name] of units) {
    if (a >= size * 0.9995) return a >= 1000e9 ? `${count(Math.round(v / size))} ${name}` : `${digits(v / size)} ${name}`;
  }
  return `${digits(v)} ns`;
}

// bytes formats a size: "1.41 GiB".
export function bytes(v: number | null | undefined): string {
  if (v === null || v === undefined) return "–";
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let n = 0;
  let x = v;
  while (Math.abs(x) >= 1024 && n < names.length - 1) {
    x /= 1024;
    n++;
  }
  return n === 0 ? `${x} B` : `${digits(x)} ${names[n]}`;
}

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

// count formats a number of things: "1,204,331".
export function count(v: number | null | undefined): string {
  return v === null || v === undefined ? "–" : grouped.format(v);
}

// share formats a part of a whole, 0 to 1: "2.4 %".
export function share(v: number | null | undefined, decimals = 1): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  const p = v * 100;
  if (p > 0 && p < 0.05 && decimals === 1) return "<0.1 %";
  return `${p.toFixed(decimals)} %`;
}

// inUnit formats a value of a flame graph.
export function inUnit(v: number, unit: string): string {
  if (unit === "bytes") return bytes(v);
  return unit === "ns" ? ns(v) : count(v);
}

const two = (n: number) => String(n).padStart(2, "0");

// clock formats a time of day in the reader's zone, more precisely for a shorter range.
export function clock(ms: number, lengthMs = 0): string {
  const d = new Date(ms);
  const hm = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return lengthMs > 0 && lengthMs < 120_000 ? `${hm}.${String(d.getMilliseconds()).padStart(3, "0").slice(0, lengthMs < 12_000 ? 3 : 1)}` : hm;
}

const minute = 60_000;
const hour = 60 * minute;

// steps are the allowed distances of marks on a time axis, in ms.
export const steps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000,
  ...[1, 2, 5, 10, 15, 30].map((m) => m * minute),
  ...[1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 2160, 8760].map((h) => h * hour),
];

// marks returns round times in [from, to], at most `most` of them.
export function marks(from: number, to: number, most: number): number[] {
  const step = steps.find((s) => (to - from) / s <= most) ?? (to - from) / most;
  const east = new Date(from).getTimezoneOffset() * minute;
  const out: number[] = [];
  for (let t = Math.ceil((from - east) / step) * step + east; t <= to; t += step) out.push(t);
  return out;
}

// mark formats a time below an axis of that length.
export function mark(ms: number, length: number): string {
  const d = new Date(ms);
  const hm = `${two(d.getHours())}:${two(d.getMinutes())}`;
  if (length > 20 * hour) return `${two(d.getMonth() + 1)}-${two(d.getDate())} ${hm}`;
  if (length > 20 * minute) return hm;
  const s = `${hm}:${two(d.getSeconds())}`;
  return length < 10_000 ? `${s}.${String(d.getMilliseconds()).padStart(3, "0").slice(0, length < 1000 ? 3 : 1)}` : s;
}

// day formats a date: "2026-11-22".
export function day(ms: number): string {
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
}

// range formats a time range, with the date once if it has one.
export function range(from: number, to: number): string {
  const other = day(from) === day(to) ? "" : `${day(to)} `;
  return `${day(from)} ${clock(from, to - from)} – ${other}${clock(to, to - from)}`;
}

// zone returns the name of the reader's time zone.
export function zone(): string {
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(new Date());
  return parts.find((p) => p.type === "timeZoneName")?.value ?? "local time";
}

// length formats the length of a range: "5 min 20 s".
export function length(ms: number): string {
  if (ms < 60_000) return ns(ms * 1e6);
  const s = Math.round(ms / 1000);
  const [d, h, m, rest] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60, s % 60];
  const words = [d ? `${d} d` : "", h ? `${h} h` : "", m ? `${m} min` : "", rest ? `${rest} s` : ""];
  return words.filter(Boolean).slice(0, 2).join(" ");
}

// plural formats a number with its noun: "1 step", "2 steps".
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// base returns the last part of a path.
export function base(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
