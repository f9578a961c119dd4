// A sortable table that stays fast with thousands of rows: rows out of sight are not in the
// document.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

type Value = number | string | null | undefined;

export interface Column<R> {
  name: string;
  title?: string; // tooltip: what the name means
  value: (row: R) => Value; // sort key
  show?: (row: R) => ComponentChildren;
  text?: boolean; // left-aligned
  head?: boolean; // names the row
}

interface GridProps<R> {
  label: string;
  columns: Column<R>[];
  rows: R[];
  sort?: string; // initial sort column, largest first
  rowKey?: (row: R) => string;
  mark?: (row: R) => string | undefined; // CSS class of the row
  most?: number; // visible rows
}

const height = 30; // px of a row, as in style.css

function compare(a: Value, b: Value): number {
  const [x, y] = [a ?? null, b ?? null];
  if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1; // unknown values come last
  if (typeof x === "number" && typeof y === "number") return y - x;
  return String(x).localeCompare(String(y), "en", { numeric: true });
}

function sorted<R>(rows: R[], c: Column<R> | undefined, turned: boolean): R[] {
  if (!c) return rows;
  const out = rows.map((row) => ({ row, v: c.value(row) }));
  out.sort((a, b) => {
    const none = (a.v ?? null) === null || (b.v ?? null) === null;
    const n = compare(a.v, b.v);
    return turned && !none ? -n : n;
  });
  return out.map((x) => x.row);
}

export function Grid<R>({ label, columns, rows, sort, rowKey, mark, most = 14 }: GridProps<R>) {
  const [by, setBy] = useState({ name: sort ?? "", turned: false });
  const [top, setTop] = useState(0);
  const column = columns.find((c) => c.name === by.name);
  const all = useMemo(() => sorted(rows, column, by.turned), [rows, by, columns.length]);
  const many = all.length > most * 4;
  const first = many ? Math.max(0, Math.min(Math.floor(top / height), all.length - most) - 8) : 0;
  const some = many ? all.slice(first, first + most + 24) : all;
  const below = all.length - first - some.length;
  const press = (c: Column<R>) => setBy({ name: c.name, turned: c.name === by.name && !by.turned });
  const order = (c: Column<R>) => {
    if (c !== column) return undefined;
    return (c.text ? by.turned : !by.turned) ? "descending" : "ascending";
  };
  return (
    <div
      class="scroll"
      role="region"
      aria-label={`${label}, ${all.length} rows`}
      tabIndex={0}
      style={{ maxHeight: `${(most + 1) * height + 12}px` }}
      onScroll={(e) => many && setTop(Math.floor(e.currentTarget.scrollTop / (height * 4)) * height * 4)}
    >
      <table class="grid" aria-rowcount={all.length + 1}>
        <caption class="hidden">{label}</caption>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((c) => (
              <th scope="col" class={c.text ? "text" : ""} aria-sort={order(c)} title={c.title}>
                <button type="button" onClick={() => press(c)}>
                  {c.name}
                  <span aria-hidden="true">{c === column ? (order(c) === "descending" ? " ▾" : " ▴") : ""}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true" style={{ height: `${first * height}px` }} />}
          {some.map((row, i) => (
            <tr key={rowKey?.(row) ?? String(first + i)} aria-rowindex={first + i + 2} class={mark?.(row)}>
              {columns.map((c) => {
                const cell = c.show ? c.show(row) : (c.value(row) ?? "–");
                if (c.head) return <th scope="row" class="text">{cell}</th>;
                return <td class={c.text ? "text" : ""}>{cell}</td>;
              })}
            </tr>
          ))}
          {below > 0 && <tr aria-hidden="true" style={{ height: `${below * height}px` }} />}
        </tbody>
      </table>
    </div>
  );
}
