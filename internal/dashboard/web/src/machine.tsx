// The recorded machines: CPU, memory, load, and what ingero itself uses.
import { useMemo } from "preact/hooks";
import type { Answer } from "./api";
import { bytes, share } from "./fmt";
import { type Line, LineChart } from "./gpu";
import type { Snapshot, Snapshots } from "./types";
import { Notes, Panel, Ready } from "./ui";
import type { Range } from "./view";

interface Machines {
  at: number[];
  charts: { name: string; lines: [string, Line][]; text: (v: number) => string; most?: number }[];
}

// ownCPU returns the share of one CPU that ingero used between two snapshots.
function ownCPU(was: Snapshot | undefined, now: Snapshot): number | null {
  if (!was) return null;
  const ns = (Date.parse(now.time) - Date.parse(was.time)) * 1e6;
  const took = now.agent_cpu_ns - was.agent_cpu_ns;
  return ns > 0 && took >= 0 ? took / ns : null;
}

type Value = (s: Snapshot, was: Snapshot | undefined) => number | null;

const whole = (v: number) => share(v, 0);
const values: [string, Value, (v: number) => string, number | undefined][] = [
  ["CPU in use", (s) => s.cpu, whole, 1],
  ["Load (1 minute)", (s) => s.load[0], (v) => v.toFixed(1), undefined],
  ["Available memory", (s) => s.mem_available_bytes, bytes, undefined],
  ["Swap in use", (s) => (s.swap_total_bytes ? s.swap_used_bytes : null), bytes, undefined],
  ["ingero itself (share of one CPU)", (s, was) => ownCPU(was, s), share, undefined],
];

// machines puts the snapshots of all machines on one time axis.
function machines(all: Snapshot[]): Machines {
  const sorted = all.map((s): [number, Snapshot] => [Date.parse(s.time), s]).sort((a, b) => a[0] - b[0]);
  const at = [...new Set(sorted.map(([t]) => t))];
  const index = new Map(at.map((t, i) => [t, i]));
  const nodes = [...new Set(all.map((s) => s.node))];
  const charts = values.map(([name, value, text, most]) => {
    const lines = nodes.map((node): [string, Line] => {
      const line: Line = new Array<number | null>(at.length).fill(null);
      let was: Snapshot | undefined;
      for (const [t, s] of sorted) {
        if (s.node !== node) continue;
        line[index.get(t)!] = value(s, was);
        was = s;
      }
      return [node || "machine", line];
    });
    return { name, lines, text, ...(most === undefined ? {} : { most }) };
  });
  return { at, charts: charts.filter((c) => c.lines.some(([, v]) => v.some((x) => x !== null && (x > 0 || c.most !== undefined)))) };
}

function Charts({ d, range }: { d: Snapshots; range: Range }) {
  const m = useMemo(() => machines(d.snapshots), [d]);
  return (
    <>
      <div class="minis">
        {m.charts.map((c) => (
          <LineChart key={c.name} name={c.name} at={m.at} lines={c.lines} range={range} text={c.text} straight gaps={c.lines.length > 1} {...(c.most === undefined ? {} : { most: c.most })} />
        ))}
      </div>
      {d.every > 1 && <Notes notes={[`only every ${d.every}th snapshot is shown`]} />}
    </>
  );
}

export function MachinePanel({ answer, range }: { answer: Answer<Snapshots>; range: Range }) {
  return (
    <Panel id="machine" title="Machine" about="CPU, memory and load, and what ingero itself uses" wide>
      <Ready answer={answer} nothing="The machine's state was not recorded in this time range." empty={(d) => !d.snapshots.length}>
        {(d) => <Charts d={d} range={range} />}
      </Ready>
    </Panel>
  );
}
