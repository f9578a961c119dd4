// NCCL: the roll-call of each communicator: which rank entered collectives last, and how late.
import { useEffect, useMemo } from "preact/hooks";
import type { Answer } from "./api";
import { count, ns } from "./fmt";
import { type Column, Grid } from "./grid";
import { themed } from "./kinds";
import { type Comm, type RankSum, comms, lateness, least, median, verdict } from "./rollcall";
import { useStore } from "./store";
import { theme } from "./theme";
import type { Rank } from "./types";
import { Panel, Ready, useWidth } from "./ui";

// Strip shows how late each rank entered each of the last collectives.
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
      <canvas role="img" aria-label={`how late ranks ${c.ranks.map((r) => r.r.rank).join(", ")} entered each collective; the table has the numbers`} style={{ width: `${width}px`, height: `${c.ranks.length * high}px` }} />
    </div>
  );
}

const columns: Column<RankSum>[] = [
  { name: "rank", text: true, head: true, value: (x) => x.r.rank, show: (x) => `rank ${x.r.rank ?? "?"} of ${x.r.ranks ?? "?"}` },
  { name: "process", text: true, value: (x) => `${x.r.name ?? ""} (${x.r.pid})` },
  { name: "state", text: true, value: (x) => x.r.state },
  { name: "last entered", value: (x) => x.seq, show: (x) => `${x.op} #${x.seq}` },
  { name: "behind", title: "collectives that other ranks have entered and this rank has not", value: (x) => x.behind, show: (x) => (x.behind ? <b class="bad">{x.behind}</b> : "0") },
  { name: "came last", value: (x) => x.lastOf, show: (x) => count(x.lastOf) },
  { name: "late, total", title: "sum of its delays after the first rank", value: lateness, show: (x) => ns(lateness(x)) },
  { name: "late, median", value: (x) => median(x.late), show: (x) => ns(median(x.late)) },
  { name: "late, max", value: (x) => (x.late.length ? Math.max(...x.late) : null), show: (x) => ns(x.late.length ? Math.max(...x.late) : null) },
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
    <Panel id="nccl" title="NCCL roll-call" about="which ranks entered each collective, and how long after the first; stronger colour: later" wide={all.length > 0}>
      <Ready answer={answer} nothing="No NCCL collectives in this time range." empty={(d) => !d.ranks.length}>
        {() => all.map((c) => <One key={c.id} c={c} />)}
      </Ready>
    </Panel>
  );
}
