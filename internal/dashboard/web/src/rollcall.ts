// The roll-call of NCCL communicators: which rank entered which collective when.
import { count, ns, plural } from "./fmt";
import type { Rank } from "./types";

export interface RankSum {
  r: Rank;
  seq: number; // of the last collective that it entered
  op: string;
  behind: number; // collectives that others have entered and it has not
  late: number[]; // ns after the first rank, for each collective that all entered
  lastOf: number; // number of collectives that it entered last
}

export interface Comm {
  id: string;
  ranks: RankSum[];
  seqs: number[]; // collectives that all ranks entered
  missing: number[]; // ranks that are not in the recording
}

export const median = (v: number[]) => (v.length ? [...v].sort((a, b) => a - b)[Math.floor(v.length / 2)]! : null);
export const least = 50e3; // ns; a smaller delay does not count as late

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

// comms groups ranks by communicator.
export function comms(ranks: Rank[]): Comm[] {
  const by = new Map<string, Rank[]>();
  for (const r of ranks) by.set(r.comm, [...(by.get(r.comm) ?? []), { ...r }]);
  return [...by].map(([id, all]) => commOf(id, all));
}

// lateness returns the sum of a rank's delays after the first rank.
export const lateness = (r: RankSum) => r.late.reduce((a, x) => a + (x > least ? x : 0), 0);

// verdict says which rank was late, if any.
export function verdict(c: Comm): string {
  const behind = c.ranks.filter((r) => r.behind > 0 && r.r.state !== "destroyed");
  if (behind.length && behind.length < c.ranks.length) return `At the end, rank ${behind.map((r) => r.r.rank).join(", ")} had not entered collectives that others had entered.`;
  if (c.ranks.length < 2) return "Only one rank is in the recording.";
  const worst = [...c.ranks].sort((a, b) => lateness(b) - lateness(a))[0]!;
  const total = lateness(worst);
  if (total === 0) return "No rank kept the others waiting.";
  return `Rank ${worst.r.rank} came last to ${count(worst.lastOf)} of ${plural(c.seqs.length, "collective")}, up to ${ns(Math.max(...worst.late))} after the first; total ${ns(total)}.`;
}
