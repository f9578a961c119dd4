// CUDA graphs: how often they are captured, instantiated and launched, and the life of each graph.
import type { Answer } from "./api";
import { clock, count, ns, plural } from "./fmt";
import { type Column, Grid } from "./grid";
import type { GraphMetrics } from "./types";
import { Notes, Panel, Ready } from "./ui";

type OpRate = GraphMetrics["operations"][0];
type Row = GraphMetrics["graphs"][0];

const rates: Column<OpRate>[] = [
  { name: "operation", text: true, head: true, value: (r) => r.op },
  { name: "calls", value: (r) => r.calls, show: (r) => count(r.calls) },
  { name: "per second", value: (r) => r.per_second, show: (r) => r.per_second.toFixed(r.per_second < 10 ? 2 : 0) },
  { name: "failed", value: (r) => r.errors, show: (r) => (r.errors ? <b class="bad">{count(r.errors)}</b> : "0") },
  { name: "total", value: (r) => r.total_ns, show: (r) => ns(r.total_ns) },
  { name: "p50", value: (r) => r.p50_ns, show: (r) => ns(r.p50_ns) },
  { name: "p99", value: (r) => r.p99_ns, show: (r) => ns(r.p99_ns) },
];

const moment = (v: Row[number]) => (typeof v === "string" && v.includes("T") ? clock(Date.parse(v), 10_000) : String(v ?? "–"));

// lives returns the columns of the table of graphs, with units.
function lives(names: string[]): Column<Row>[] {
  return names.map((name, i): Column<Row> => {
    const value = (r: Row) => (typeof r[i] === "object" ? null : r[i]);
    const head = name === "exec";
    if (name.endsWith("_ns")) return { name: name.replace(/_ns$/, "").replaceAll("_", " "), value, show: (r) => ns(r[i] as number | null) };
    if (name === "captured" || name === "last_launch" || name === "destroyed") return { name: name.replaceAll("_", " "), value, show: (r) => moment(r[i] ?? null) };
    return { name: name.replaceAll("_", " "), value, head, text: head, show: (r) => (typeof r[i] === "number" && name !== "pid" ? count(r[i]) : String(r[i] ?? "–")) };
  });
}

// remark summarizes the graphs.
function remark(d: GraphMetrics): string {
  const at = (name: string) => d.graph_columns.indexOf(name);
  const [launches, captured] = [at("launches"), at("captured")];
  if (launches < 0 || !d.graphs.length) return "";
  const unused = d.graphs.filter((g) => Number(g[launches] ?? 0) <= 1 && g[captured] !== null).length;
  const total = d.graphs.reduce((a, g) => a + Number(g[launches] ?? 0), 0);
  const few = unused > 1 ? `; ${count(unused)} were launched at most once, so creating them cost more time than it saved` : "";
  return `${plural(d.graphs.length, "graph")}, ${plural(total, "launch", "launches")}${few}.`;
}

export function GraphsPanel({ answer }: { answer: Answer<GraphMetrics> }) {
  return (
    <Panel id="graphs" title="CUDA graphs" about="captures, instantiations and launches, and the life of each graph" wide={(answer.data?.operations.length ?? 0) > 0}>
      <Ready answer={answer} nothing="No CUDA graphs in this time range." empty={(d) => !d.operations.length && !d.graphs.length}>
        {(d) => (
          <>
            <p>{remark(d)}</p>
            <Grid label="CUDA graph operations" columns={rates} rows={d.operations} sort="total" most={6} />
            {d.graphs.length > 0 && <Grid label="Graphs" columns={lives(d.graph_columns)} rows={d.graphs} sort="launches" most={8} />}
            <Notes notes={d.notes} />
          </>
        )}
      </Ready>
    </Panel>
  );
}
