// The page: it requests the data of the current view and passes the answers to the panels.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Answer, type Params, file, span, useAnswer } from "./api";
import { Bar } from "./bar";
import { CapabilitiesPanel } from "./capabilities";
import { FlamePanel } from "./flame";
import { FleetPanel } from "./fleet";
import { length } from "./fmt";
import { GPUPanel, MemoryPanel } from "./gpu";
import { GraphsPanel } from "./graphs";
import { Headline, machineLine } from "./headline";
import { HeatmapPanel } from "./heatmap";
import { Help, goTo, shownSections, titleOf, useKeys } from "./help";
import { beat, live } from "./live";
import { MachinePanel } from "./machine";
import { NCCLPanel } from "./nccl";
import { OpsPanel } from "./ops";
import { RequestsPanel, served } from "./requests";
import { SQLPanel } from "./sql";
import { useStore } from "./store";
import { TimelinePanel } from "./timeline";
import { Token } from "./token";
import type { Capabilities, Collectives, Flame, GPULines, GraphMetrics, Heatmap, Machines, MemoryLines, Operations, Overview, Processes, RecordedProcess, Recording, Recordings, ReportExplained, Requests, Snapshots, Timeline } from "./types";
import { Guard, Problem } from "./ui";
import { type Range, type View, rangeOf, view } from "./view";

const api = "/api/v1/";

interface Known {
  overview: Overview;
  range: Range;
}

function guarded(id: string, answer: Answer<unknown>, panel: VNode): VNode {
  return (
    <Guard id={id} title={titleOf(id)} answer={answer}>
      {panel}
    </Guard>
  );
}

function Panels({ overview, range, processes }: Known & { processes: RecordedProcess[] }) {
  const v = useStore(view);
  const { beats } = useStore(live);
  const place: Params = { pid: v.pid, node: v.node, session: v.session };
  const when = { ...span(range), ...place };
  const op = { ...when, op: v.op };
  const ended = Number(!overview.recording); // the last answers may be from before the last data, for the same time range
  const explained = useAnswer<ReportExplained>(`${api}explain`, when, ended);
  const capabilities = useAnswer<Capabilities>(`${api}capabilities`, {}, Math.floor(beats / 5));
  const requests = useAnswer<Requests>(`${api}requests`, when, ended);
  const timeline = useAnswer<Timeline>(`${api}timeline`, when, ended);
  const heatmap = useAnswer<Heatmap>(`${api}heatmap`, op, ended);
  const ops = useAnswer<Operations>(`${api}ops`, { ...op, ...(processes.length > 1 ? { per_process: 1 } : {}) }, ended);
  const flame = useAnswer<Flame>(`${api}flame`, { ...op, what: v.flame }, ended);
  const memory = useAnswer<MemoryLines>(`${api}memory`, when, ended);
  const gpus = useAnswer<GPULines>(`${api}gpus`, { ...span(range), node: v.node, session: v.session }, ended);
  const nccl = useAnswer<Collectives>(`${api}collectives`, when, ended);
  const graphs = useAnswer<GraphMetrics>(`${api}graph-metrics`, when, ended);
  const machine = useAnswer<Snapshots>(`${api}snapshots`, { ...span(range), node: v.node, session: v.session }, ended);
  const fleet = useAnswer<Machines>(`${api}fleet`, { since: "1h" }, Math.floor(beats / 15));
  return (
    <>
      {guarded("headline", explained, <Headline answer={explained} capabilities={capabilities.data} recording={overview.recording} />)}
      <nav class="toc" aria-label="sections">
        {shownSections(served(requests.data)).map(([id, name]) => (
          <a
            href={`#${id}`}
            onClick={(e) => {
              e.preventDefault();
              goTo(id);
            }}
          >
            {name}
          </a>
        ))}
      </nav>
      {file && <p class="soft">This is a saved report: tables and flame graphs always cover all of it; a zoom changes only the charts over time.</p>}
      <div class="panels">
        {guarded("requests", requests, <RequestsPanel answer={requests} />)}
        {guarded("time", timeline, <TimelinePanel answer={timeline} range={range} chains={explained.data?.report.chains ?? []} />)}
        {guarded("latency", heatmap, <HeatmapPanel answer={heatmap} range={range} />)}
        {guarded("ops", ops, <OpsPanel answer={ops} />)}
        {guarded("code", flame, <FlamePanel answer={flame} />)}
        {guarded("memory", memory, <MemoryPanel answer={memory} range={range} />)}
        {guarded("gpus", gpus, <GPUPanel answer={gpus} range={range} />)}
        {guarded("nccl", nccl, <NCCLPanel answer={nccl} />)}
        {guarded("graphs", graphs, <GraphsPanel answer={graphs} />)}
        {guarded("machine", machine, <MachinePanel answer={machine} range={range} />)}
        {guarded("fleet", fleet, <FleetPanel answer={fleet} />)}
        <SQLPanel />
        {guarded("capabilities", capabilities, <CapabilitiesPanel answer={capabilities} />)}
      </div>
      <footer>
        ingero {overview.version} · {machineLine(overview.snapshot)} · {length(Date.parse(overview.to) - Date.parse(overview.from))} recorded
        {file ? " · this file makes no network requests" : ""}
      </footer>
    </>
  );
}

// rangeNow returns the time range to show: the chosen one, else the file's, else the default.
function rangeNow(v: View, o: Overview | undefined, recordings: Recording[]): Range | undefined {
  const custom = v.from !== null && v.to !== null;
  if (custom) return o ? rangeOf(v, o, undefined) : { from: v.from!, to: v.to! };
  const [from, to] = [Date.parse(file?.from ?? ""), Date.parse(file?.to ?? "")];
  if (from < to) return { from: Math.floor(from), to: Math.ceil(to) };
  if (!o || !recordings.length) return undefined;
  return rangeOf(v, o, v.session ? recordings.find((r) => r.id === v.session) : recordings[0]);
}

export function App() {
  const v = useStore(view);
  const { beats, chain, state, heard } = useStore(live);
  const [help, setHelp] = useState(false);
  const overview = useAnswer<Overview>(`${api}overview`, {}, beats);
  const list = useAnswer<Recordings>(`${api}recordings`, {}, beats);
  const recordings = list.data?.recordings ?? [];
  const o = overview.data;
  const range = rangeNow(v, o, recordings);
  const processes = useAnswer<Processes>(range ? `${api}processes` : null, range ? { ...span(range), node: v.node, session: v.session } : {}, Number(!o?.recording)).data?.processes;
  const showHelp = () => setHelp(true);
  // The recording may end between two answers, or before the server's first event. Answers from
  // before the end are then stale, and the page requests them again.
  const running = [o?.recording, recordings[0]?.state === "running"];
  useEffect(() => {
    const differ = o && list.data && running[0] !== running[1];
    if (differ || (running.includes(true) && heard && state === "off")) beat();
  }, [o, list.data, heard, state]);
  useKeys({ range, overview: o, help: showHelp });
  return (
    <>
      <a class="skip" href="#headline" onClick={(e) => (e.preventDefault(), goTo("headline"))}>
        Skip to the findings
      </a>
      <Bar overview={o} recordings={recordings} processes={processes ?? []} range={range} help={showHelp} />
      <main>
        {overview.error && (
          <section id="headline" class="headline" aria-labelledby="headline-h" tabIndex={-1}>
            <h1 id="headline-h">{overview.error.status === 404 ? "Nothing has been recorded yet" : "No answer"}</h1>
            {overview.error.status === 404 ? <p>New data appears here as it is recorded: {overview.error.todo}.</p> : <Problem what={overview.error.what} todo={overview.error.todo} />}
          </section>
        )}
        {o && range && <Panels overview={o} range={range} processes={processes ?? []} />}
        {!o && !overview.error && <p class="empty">Loading …</p>}
      </main>
      <p class="hidden" role="status" aria-live="polite">
        {chain}
      </p>
      <Help open={help} close={() => setHelp(false)} />
      <Token />
    </>
  );
}
