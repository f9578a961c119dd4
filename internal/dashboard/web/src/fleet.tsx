// The fleet's machines, as the server sees them.
import type { Answer } from "./api";
import { count, ns } from "./fmt";
import { type Column, Grid } from "./grid";
import type { Machine } from "./types";
import { Notes, Panel, Ready } from "./ui";

const order: Record<string, number> = { HIGH: 3, MEDIUM: 2, LOW: 1 };

// known returns a count, undefined for a machine that does not answer.
const known = (m: Machine, n?: number) => (m.error ? undefined : n);

const columns: Column<Machine>[] = [
  { name: "machine", text: true, head: true, value: (m) => m.name || m.address },
  {
    name: "state",
    text: true,
    value: (m) => (m.error ? 4 : (order[m.gravest?.severity ?? ""] ?? 0)),
    show: (m) => {
      if (m.error) return <b class="bad">no answer</b>;
      return m.gravest ? <span class={`sev sev-${m.gravest.severity.toLowerCase()}`}>{m.gravest.severity}</span> : "nothing wrong";
    },
  },
  { name: "causes", value: (m) => known(m, m.chains), show: (m) => (m.error ? "–" : count(m.chains)) },
  { name: "faults", title: "XIDs", value: (m) => known(m, m.faults), show: (m) => (m.error ? "–" : count(m.faults)) },
  { name: "lost", title: "lost to the most severe cause", value: (m) => m.gravest?.lost_ns, show: (m) => (m.gravest ? ns(m.gravest.lost_ns) : "–") },
  {
    name: "most severe cause",
    text: true,
    value: (m) => m.gravest?.headline ?? m.error ?? "",
    show: (m) => (m.error ? `${m.error}${m.do ? `: ${m.do}` : ""}` : m.gravest ? `${m.gravest.headline} · ${m.gravest.comm ?? ""} (${m.gravest.pid})` : "–"),
  },
  { name: "clock ahead", value: (m) => m.ahead_ns, show: (m) => (m.ahead_ns === undefined ? "–" : `${ns(m.ahead_ns)} ± ${ns(m.within_ns)}`) },
  { name: "version", text: true, value: (m) => m.version ?? "–" },
];

export function FleetPanel({ answer }: { answer: Answer<{ machines: Machine[]; notes?: string[] }> }) {
  return (
    <Panel id="fleet" title="Fleet" about="the most severe cause of the last hour on each machine">
      <Ready answer={answer} nothing="No other machines are configured. Name them in fleet.nodes of ingero.yaml." empty={(d) => !d.machines.length}>
        {(d) => (
          <>
            <Grid label="Machines" columns={columns} rows={d.machines} sort="state" rowKey={(m) => m.address} />
            <Notes notes={d.notes} />
          </>
        )}
      </Ready>
    </Panel>
  );
}
