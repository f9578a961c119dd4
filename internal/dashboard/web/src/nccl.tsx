// NCCL: the roll-call of each communicator. Who came to its collectives last, and by how much?
import { useEffect, useMemo } from "preact/hooks";
import type { Answer } from "./api";
import { count, ns, plural } from "./fmt";
import { type Column, Grid } from "./grid";
import { themed } from "./kinds";
import { useStore } from "./store";
import { theme } from "./theme";
import type { Rank } from "./types";
import { Panel, Ready, useWidth } from "./ui";

interface RankSum {
  r: Rank;
  seq: number; // that it entered last
  op: string;
  behind: number; // collectives that others have entered and it has not
  late: number[]; // ns after the first rank, of those that all entered
  lastOf: number; // collectives that it was the last to enter
}

interface Comm {
  id: string;
  ranks: RankSum[];
  seqs: number[]; // that all ranks entered
  missing: number[]; // numbers of ranks that are not in the recording
}

const median = (v: number[]) => (v.length ? [...v].sort((a, b) => a - b)[Math.floor(v.length / 2)]! : null);
const least = 50e3; // ns; nearer than this nobody is late

function commOf(id: string, ranks: Rank[]): Comm {
  ranks.sort((a, b) => (a.rank ?? 1e9) - (b.rank ?? 1e9));
  const times = ranks.map((r) => new Map(r.entries.map((e) => [e.seq, Number(e.time_ns)])));
  const seqs = [...(times[0]?.keys() ?? [])].filter((s) => times.every((t) => t.has(s))).sort((a, b) => a - b);
  const front = ranks.reduce((m, r) => Math.max(m, r.entries.at(-1)?.seq ?? 0), 0);
  const out = ranks.map((r): RankSum => {
    const end = r.entries.at(-1);
    return { r, seq: end?.seq ?? 0, op: end?.op ?? "", behind: end ? front - end.seq : 0, late: [], lastOf: 0 };
  });
  for (const s of seqs) {
    const at = times.map((t) => t.get(s)!);
    const [first, final] = [Math.min(...at), Math.max(...at)];
    at.forEach((t, i) => out[i]!.late.push(t - first));
    if (final - first > least) out[at.indexOf(final)]!.lastOf++;
  }
  const size = ranks.reduce((m, r) => Math.max(m, r.ranks ?? 0), 0);
  const missing = Array.from({ length: size }, (_, i) => i).filter((i) => !ranks.some((r) => r.rank === i));
  return { id, ranks: out, seqs, missing };
}

function comms(ranks: Rank[]): Comm[] {
  const by = new Map<string, Rank[]>();
  for (const r of ranks) by.set(r.comm, [...(by.get(r.comm) ?? []), { ...r }]);
  return [...by].map(([id, all]) => commOf(id, all));
}

// lateness is for how long the others had entered and it had not.
const lateness = (r: RankSum) => r.late.reduce((a, x) => a + (x > least ? x : 0), 0);

function verdict(c: Comm): string {
  const behind = c.ranks.filter((r) => r.behind > 0 && r.r.state !== "destroyed");
  if (behind.length && behind.length < c.ranks.length) return `At the end rank ${behind.map((r) => r.r.rank).join(", ")} had not entered what others had.`;
  if (c.ranks.length < 2) return "Only one rank is in the recording.";
  const worst = [...c.ranks].sort((a, b) => lateness(b) - lateness(a))[0]!;
  const total = lateness(worst);
  if (total === 0) return "No rank kept the others waiting.";
  return `Rank ${worst.r.rank} came last to ${count(worst.lastOf)} of ${plural(c.seqs.length, "collective")}, up to ${ns(Math.max(...worst.late))} after the first; in all ${ns(total)}.`;
}

// Strip shows for each rank and each of the last collectives how late it came.
function Strip({ c }: { c: Comm }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const on = useStore(theme);
  const high = 16;
  useEffect(() => {
    const canvas = box.current?.querySelector("canvas");
    const g = canvas?.getContext("2d");
    if (!canvas || !g || width < 50) return;
    const ratio = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [width * ratio, c.ranks.length * high * ratio];
    g.scale(ratio, ratio);
    const n = Math.min(c.seqs.length, Math.floor(width / 2));
    const from = c.seqs.length - n;
    const most = Math.log1p(Math.max(1, ...c.ranks.flatMap((r) => r.late.slice(from).map((x) => x / least))));
    c.ranks.forEach((r, i) => {
      for (let k = 0; k < n; k++) {
        const late = r.late[from + k] ?? 0;
        const level = late < least ? 0 : Math.min(7, 1 + Math.floor((Math.log1p(late / least) / most) * 6.99));
        g.fillStyle = themed(`heat-${level}`);
        g.fillRect((k * width) / n, i * high, Math.max(width / n, 1), high - 2);
      }
    });
  }, [c, width, on]);
  return (
    <div ref={box} class="strip">
      <canvas role="img" aria-label={`how late ranks ${c.ranks.map((r) => r.r.rank).join(", ")} came to each collective; the table has the numbers`} style={{ width: `${width}px`, height: `${c.ranks.length * high}px` }} />
    </div>
  );
}

const columns: Column<RankSum>[] = [
  { name: "rank", text: true, head: true, value: (x) => x.r.rank, show: (x) => `rank ${x.r.rank ?? "?"} of ${x.r.ranks ?? "?"}` },
  { name: "process", text: true, value: (x) => `${x.r.name ?? ""} (${x.r.pid})` },
  { name: "state", text: true, value: (x) => x.r.state },
  { name: "last entered", value: (x) => x.seq, show: (x) => `${x.op} #${x.seq}` },
  { name: "behind", title: "collectives that others have entered and it has not", value: (x) => x.behind, show: (x) => (x.behind ? <b class="bad">{x.behind}</b> : "0") },
  { name: "came last", value: (x) => x.lastOf, show: (x) => count(x.lastOf) },
  { name: "late, in all", title: "for how long others had entered and it had not", value: lateness, show: (x) => ns(lateness(x)) },
  { name: "late, median", value: (x) => median(x.late), show: (x) => ns(median(x.late)) },
  { name: "late, most", value: (x) => (x.late.length ? Math.max(...x.late) : null), show: (x) => ns(x.late.length ? Math.max(...x.late) : null) },
];

function One({ c }: { c: Comm }) {
  return (
    <div class="comm">
      <h3>
        Communicator <code>{c.id}</code>
      </h3>
      <p>
        {verdict(c)}
        {c.missing.length > 0 && ` Not in this recording: rank ${c.missing.join(", ")}.`}
      </p>
      {c.seqs.length > 1 && c.ranks.length > 1 && <Strip c={c} />}
      <Grid label="Ranks" columns={columns} rows={c.ranks} most={10} />
    </div>
  );
}

export function NCCLPanel({ answer }: { answer: Answer<{ ranks: Rank[] }> }) {
  const data = answer.data;
  const all = useMemo(() => comms(data?.ranks ?? []), [data]);
  return (
    <Panel id="nccl" title="NCCL roll-call" about="which ranks entered their collectives, and how long after the first; stronger colours: later" wide={all.length > 0}>
      <Ready answer={answer} nothing="No collectives of NCCL in this time." empty={(d) => !d.ranks.length}>
        {() => all.map((c) => <One key={c.id} c={c} />)}
      </Ready>
    </Panel>
  );
}
