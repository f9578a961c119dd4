import "./browser";
import { deepEqual, equal, ok } from "node:assert/strict";
import { mock, test } from "node:test";
import { keyOf, lengthOf, rests, span } from "../src/api";
import { bytes, clock, inUnit, length, mark, marks, ns, plural, range, share } from "../src/fmt";
import { follow, hear, live } from "../src/live";
import { rate, served } from "../src/requests";
import { comms, lateness, verdict } from "../src/rollcall";
import { boxes, lines, tidy } from "../src/tree";
import type { FlameNode, Overview, Rank, Recording } from "../src/types";
import { later, look, rangeOf, read, view, write } from "../src/view";

test("durations have three digits and a suitable unit", () => {
  const want: [number | null, string][] = [
    [null, "–"], [0, "0 s"], [7, "7.00 ns"], [999.9, "1.00 us"], [1500, "1.50 us"], [27.44e6, "27.4 ms"], [1.41e9, "1.41 s"],
    [-2e6, "-2.00 ms"], [599e9, "599 s"], [900e9, "15.0 min"], [7200e9, "2.00 h"],
  ];
  for (const [v, text] of want) equal(ns(v), text);
});

test("sizes, shares and counts", () => {
  equal(bytes(512), "512 B");
  equal(bytes(1.15 * 1024 ** 3), "1.15 GiB");
  equal(bytes(null), "–");
  equal(share(0.0002), "<0.1 %");
  equal(share(0.28), "28.0 %");
  equal(share(null), "–");
  equal(plural(1, "step"), "1 step");
  equal(plural(1234, "launch", "launches"), "1,234 launches");
  equal(inUnit(1e6, "ns"), "1.00 ms");
  equal(inUnit(1024, "bytes"), "1.00 KiB");
  equal(length(320_000), "5 min 20 s");
});

test("rates have a digit while they are small", () => {
  deepEqual([rate(5, 10), rate(999, 10), rate(12_345, 10), rate(undefined, 10), rate(5, 0)], ["0.5", "99.9", "1,235", "–", "–"]);
});

test("requests are shown only if there are any", () => {
  const none = { from: "", to: "", node: "", servers: [], engines: [], inference: [], notes: [] };
  equal(served(undefined), false);
  equal(served(none), false);
  equal(served({ ...none, engines: [{ pid: 1, tid: 1, idle_ns: 0, kinds: [] }] }), true);
  equal(served({ ...none, inference: [{ pid: 1, url: "", time: "" }] }), true);
});

test("times are in the reader's zone", () => {
  const at = Date.UTC(2026, 2, 2, 14, 41, 0, 123);
  equal(clock(at), "14:41:00");
  equal(clock(at, 60_000), "14:41:00.1");
  equal(clock(at, 10_000), "14:41:00.123");
  equal(range(at, at + 3_600_000), "2026-03-02 14:41:00 – 15:41:00");
});

test("axis marks are round, and at most as many as requested", () => {
  const at = Date.UTC(2026, 2, 2, 14, 41, 0);
  for (const long of [1, 950, 6_870, 61_000, 3_600_000, 86_400_000, 40 * 86_400_000]) {
    const all = marks(at + 17, at + 17 + long, 9);
    ok(all.length >= 1 && all.length <= 10, `${long} ms: ${all.length}`);
    ok(all.every((t) => t >= at + 17 && t <= at + 17 + long));
  }
  deepEqual(marks(at, at + 60_000, 6).map((t) => mark(t, 60_000)), ["14:41:00", "14:41:10", "14:41:20", "14:41:30", "14:41:40", "14:41:50", "14:42:00"].slice(0, 7));
});

test("a view survives the round trip through a URL", () => {
  for (const search of ["", "last=5m", "from=2026-03-02T14:41:00.000Z&to=2026-03-02T14:42:00.000Z&pid=1,2&op=cudaMalloc&node=gpu-7&session=a&rows=thread&flame=memory"]) equal(write(read(search)), search);
});

test("invalid values in a URL are ignored", () => {
  for (const search of ["last=7y", "from=now&to=2026-03-02T14:42:00Z", "from=2026-03-02T14:42:00Z&to=2026-03-02T14:41:00Z", "pid=1;2", "rows=x&flame=y", "pid=%3Cscript%3E", "other=1"]) equal(write(read(search)), "", search);
});

test("the URL holds the view", () => {
  equal(view.get().last, "1h");
  look({ pid: "7" });
  equal(location.search, "?last=1h&pid=7");
  look({ pid: "", last: "" });
  equal(location.search, "");
});

const overview = { from: "2026-03-02T10:00:00Z", to: "2026-03-02T14:00:00Z", recording: false } as Overview;
const latest = { from: "2026-03-02T13:59:00Z", to: "2026-03-02T14:00:00Z" } as Recording;

test("presets end where the data ends", () => {
  const [first, end] = [Date.parse(overview.from), Date.parse(overview.to) + 1];
  const of = (search: string, o = overview, r: Recording | undefined = latest) => rangeOf(read(search), o, r);
  deepEqual(of("last=5m"), { from: end - 300_000, to: end });
  deepEqual(of("last=1d"), { from: first, to: end });
  deepEqual(of("last=all"), { from: first, to: end });
  deepEqual(of(""), { from: end - 1 - 60_000, to: end });
  deepEqual(of("", { ...overview, recording: true }), { from: end - 900_000, to: end });
  deepEqual(of("", overview, undefined), { from: end - 1 - 60_000, to: end });
  deepEqual(of("from=2026-03-02T11:00:00Z&to=2026-03-02T12:00:00Z").to, Date.parse("2026-03-02T12:00:00Z"));
});

test("a custom range ends where the data ends", () => {
  const [first, end] = [Date.parse(overview.from), Date.parse(overview.to) + 1];
  const of = (from: string, to: string) => rangeOf(read(`from=2026-03-02T${from}Z&to=2026-03-02T${to}Z`), overview, latest);
  deepEqual(of("11:00:00", "12:00:00"), { from: first + 3600e3, to: first + 7200e3 });
  deepEqual(of("13:00:00", "15:00:00"), { from: end - 1 - 3600e3, to: end });
  deepEqual(of("15:00:00", "15:10:00"), { from: end - 600e3, to: end });
  deepEqual(of("08:00:00", "09:00:00"), { from: first, to: first + 3600e3 });
  equal(rangeOf(read("from=2026-03-02T13:00:00Z&to=2026-03-02T15:00:00Z"), { ...overview, to: "2026-03-02T14:30:00Z" }, latest).to, end + 1800e3);
});

test("a range moves at most to the end of the data", () => {
  const end = Date.parse(overview.to) + 1;
  deepEqual(later({ from: end - 4000, to: end - 2000 }, 0.5, overview), { from: end - 3000, to: end - 1000 });
  deepEqual(later({ from: end - 2500, to: end - 500 }, 0.5, overview), { from: end - 2000, to: end });
  deepEqual(later({ from: end - 2000, to: end }, 0.5, overview), { from: end - 2000, to: end });
});

const hide = (hidden: boolean) => {
  Object.assign(document, { hidden });
  dispatchEvent(new Event("visibilitychange"));
};

test("a page that was hidden refreshes if it missed data, also the end of the recording", () => {
  const said = (event: string, records: number, recording = true) => hear({ event, data: { session: "a", to_ms: records, records, recording } });
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const beats = () => {
    mock.timers.tick(2000);
    return live.get().beats;
  };
  said("hello", 1);
  const before = beats();
  said("hello", 1);
  equal(beats(), before, "nothing is new");
  hide(true);
  said("data", 2);
  equal(beats(), before, "the page is hidden");
  hide(false);
  said("hello", 2);
  equal(beats(), before + 1, "data was new while the page was hidden");
  said("hello", 3, false);
  deepEqual([beats(), live.get().state], [before + 2, "off"], "the recording ended before the reconnection");
  mock.timers.reset();
});

test("a page that is hidden, or hears nothing, closes its stream", async () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let signal!: AbortSignal;
  const text = (s: string) => new TextEncoder().encode(s);
  let send!: (s: string) => void;
  Object.assign(globalThis, {
    fetch: async (_: string, init: RequestInit) => {
      signal = init.signal!;
      const body = new ReadableStream<Uint8Array>({
        start: (c) => {
          send = (s) => c.enqueue(text(s));
          signal.addEventListener("abort", () => c.error(signal.reason));
        },
      });
      return new Response(body);
    },
  });
  const settle = async () => {
    for (let i = 0; i < 5; i++) await new Promise<void>((go) => setImmediate(go));
  };
  let stream = follow();
  await settle();
  hide(true);
  equal(signal.aborted, true, "the page is hidden");
  equal(await stream, "");
  hide(false);
  stream = follow();
  await settle();
  mock.timers.tick(39_000);
  send(": still here\n\n");
  await settle();
  mock.timers.tick(39_000);
  equal(signal.aborted, false, "something was heard");
  send('event: hello\ndata: {"session":"a","to_ms":9,"records":9,"recording":true}\n\n');
  await settle();
  mock.timers.tick(40_000);
  equal(signal.aborted, true, "nothing was heard");
  equal(await stream, "heard");
  mock.timers.reset();
});

test("a request that took the server too long rests, unless it is shorter", () => {
  const slow = { length: lengthOf(span({ from: 0, to: 900_000 })), until: 1000 };
  equal(slow.length, 900e9);
  equal(rests(null, slow.length, 0), false);
  equal(rests(slow, slow.length, 999), true);
  equal(rests(slow, 2 * slow.length, 999), true);
  equal(rests(slow, slow.length / 2, 999), false);
  equal(rests(slow, slow.length, 1000), false);
});

test("requests have times in nanoseconds; keys have no times", () => {
  deepEqual(span({ from: 1795339445579, to: 1795339445580 }), { from: "1795339445579000000", to: "1795339445580000000" });
  equal(keyOf("/api/v1/flame", { from: "1", to: "2", what: "time", pid: "", op: "b", limit: 3 }), "/api/v1/flame?op=b&what=time");
  equal(keyOf("/api/v1/overview", {}), "/api/v1/overview");
});

const rank = (n: number, times: number[], more: Partial<Rank> = {}): Rank => ({
  comm: "c", rank: n, ranks: 2, pid: 100 + n, name: "", state: "active", done: times.length, seen_ns: 0,
  entries: times.map((time_ns, i) => ({ seq: i + 1, op: "ncclAllReduce", time_ns })), ...more,
});

test("the late rank is found, even if others are often last by little", () => {
  const early = [0, 10e6, 20e6, 30e6, 40e6];
  const [c] = comms([rank(0, early.map((t) => t + 60e3)), rank(1, [0, 10e6, 20e6, 30e6, 55e6])]);
  deepEqual(c!.ranks.map((r) => r.lastOf), [4, 1]);
  equal(lateness(c!.ranks[1]!), 14.94e6);
  ok(verdict(c!).startsWith("Rank 1 came last to 1 of 5 collectives"), verdict(c!));
});

test("a rank that is behind at the end is reported first", () => {
  const [c] = comms([rank(0, [0, 1e6, 2e6]), rank(1, [0, 1e6])]);
  equal(verdict(c!), "At the end, rank 1 had not entered collectives that others had entered.");
  equal(verdict(comms([rank(0, [0, 1e6]), rank(1, [10, 1e6])])[0]!), "No rank kept the others waiting.");
  deepEqual(comms([rank(1, [0])])[0]!.missing, [0]);
});

const leaf = (name: string, value: number): FlameNode => ({ name, kind: "op", value, self: value });
const tree: FlameNode = {
  name: "all", value: 10, self: 0, children: [{
    name: "train", kind: "process", pid: 7, value: 10, self: 0, children: [{
      name: "_PyEval", kind: "native", value: 10, self: 0, children: [
        { name: "step", kind: "python", file: "/a/train.py", line: 3, value: 6, self: 0, children: [{ name: "call", kind: "native", value: 6, self: 0, children: [leaf("cudaMalloc", 6)] }] },
        { name: "vm", kind: "native", value: 4, self: 0, children: [{ name: "step", kind: "python", file: "/a/train.py", line: 3, value: 4, self: 0, children: [leaf("cudaMalloc", 3), leaf("cudaFree", 1)] }] },
      ],
    }],
  }],
};

test("Python lines are merged without native frames", () => {
  const process = tidy(tree).children![0]!;
  equal(process.children!.length, 1);
  const step = process.children![0]!;
  deepEqual([step.name, step.value], ["step", 10]);
  deepEqual(step.children!.map((n) => [n.name, n.value]), [["cudaMalloc", 9], ["cudaFree", 1]]);
});

test("narrow frames are not drawn; the callers of the chosen frame are", () => {
  deepEqual(boxes(tree, "", 1000).map((b) => b.path), ["", "0", "0.0", "0.0.0", "0.0.0.0", "0.0.0.0.0", "0.0.1", "0.0.1.0", "0.0.1.0.0", "0.0.1.0.1"]);
  equal(boxes(tree, "", 10).some((b) => b.node.name === "cudaFree"), false);
  const chosen = boxes(tree, "0.0.1", 1000);
  deepEqual(chosen.slice(0, 4).map((b) => [b.path, b.from, b.width]), [["", 0, 1], ["0", 0, 1], ["0.0", 0, 1], ["0.0.1", 0, 1]]);
});

test("the value of a line is the sum of its calls", () => {
  const sums = lines(tree);
  equal(sums.reduce((a, l) => a + l.value, 0), 10);
  deepEqual(sums.filter((l) => l.kind === "python").map((l) => [l.at, l.value]), [["/a/train.py:3", 10]]);
});
