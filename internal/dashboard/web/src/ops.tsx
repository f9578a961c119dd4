// The calls: how often each operation was called and how long it took.
import type { Answer } from "./api";
import { count, ns } from "./fmt";
import { type Column, Grid } from "./grid";
import type { OpRow, Operations } from "./types";
import { Notes, Panel, Ready } from "./ui";
import { look } from "./view";

const times: [string, string, (r: OpRow) => number | undefined][] = [
  ["p50", "half of the calls took at most this long", (r) => r.p50_ns],
  ["p95", "19 of 20 calls took at most this long", (r) => r.p95_ns],
  ["p99", "99 of 100 calls took at most this long", (r) => r.p99_ns],
  ["max", "duration of the longest call", (r) => r.max_ns],
  ["on CPU", "part of the total: on a CPU", (r) => r.on_cpu_ns],
  ["runnable", "part of the total: ready to run while others had the CPU", (r) => r.runnable_ns],
  ["throttled", "part of the total: stopped by a CPU quota", (r) => r.throttled_ns ?? (r.total_ns === undefined ? undefined : 0)],
  ["blocked", "part of the total: waiting, not for a CPU", (r) => r.blocked_ns],
];

function Total({ row, most }: { row: OpRow; most: number }) {
  const part = most > 0 && row.total_ns ? row.total_ns / most : 0;
  return (
    <span class="bar">
      <span class="fill" style={{ width: `${(part * 100).toFixed(1)}%` }} />
      <span>{ns(row.total_ns)}</span>
    </span>
  );
}

function columns(many: boolean, most: number): Column<OpRow>[] {
  const out: Column<OpRow>[] = [
    {
      name: "operation",
      text: true,
      head: true,
      value: (r) => r.function ?? r.op,
      show: (r) => (
        <button type="button" class="link" title="show only this operation" onClick={() => look({ op: r.op })}>
          {r.op}
          {r.function && <span class="soft"> {r.function}</span>}
        </button>
      ),
    },
    { name: "layer", text: true, value: (r) => r.source },
  ];
  if (many) out.push({ name: "process", text: true, value: (r) => `${r.comm ?? ""} (${r.pid ?? ""})` });
  out.push(
    { name: "calls", value: (r) => r.calls, show: (r) => count(r.calls) },
    { name: "failed", title: "calls that returned an error", value: (r) => r.errors, show: (r) => (r.errors ? <b class="bad">{count(r.errors)}</b> : "0") },
    { name: "open", title: "calls that have not returned", value: (r) => r.open, show: (r) => count(r.open) },
    { name: "total", value: (r) => r.total_ns, show: (r) => <Total row={r} most={most} /> },
  );
  for (const [name, title, value] of times) out.push({ name, title, value, show: (r) => ns(value(r)) });
  return out;
}

export function OpsPanel({ answer }: { answer: Answer<Operations> }) {
  return (
    <Panel id="ops" title="Calls" about="each operation, where its time went, and exact counts" wide>
      <Ready answer={answer} nothing="No calls were recorded in this time range." empty={(d) => !d.operations.length}>
        {(d) => {
          const most = d.operations.reduce((m, r) => Math.max(m, r.total_ns ?? 0), 0);
          const many = d.operations.some((r) => r.pid);
          return (
            <>
              <Grid label="Calls by operation" columns={columns(many, most)} rows={d.operations} sort="total" rowKey={(r) => `${r.source} ${r.op} ${r.function ?? ""} ${r.pid ?? ""} ${r.node ?? ""}`} />
              <Notes notes={d.notes} />
            </>
          );
        }}
      </Ready>
    </Panel>
  );
}
