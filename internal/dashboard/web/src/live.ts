// Live updates: the server sends an event when there is new data. The page reads the events with
// fetch, since EventSource cannot send a token. A hidden page closes its stream: a browser has only
// six connections for all tabs of a server without TLS.
import { file, headers } from "./api";
import { Store } from "./store";
import type { ChainChange, Progress } from "./types";

export interface Live {
  state: "off" | "waiting" | "on" | "paused"; // off: no trace is running; waiting: no connection to the server
  heard: boolean; // state is from the server
  beats: number; // number of times that new data arrived
  chain: string; // last announcement of a cause
}

export const live = new Store<Live>({ state: "off", heard: false, beats: 0, chain: "" });

const least = 2000; // minimum time between two refreshes, ms
let due = 0;
let timer = 0;
let missed = false; // data was new while the page was hidden

// beat makes the page request all data again, soon, or once it is visible.
export function beat(): void {
  const l = live.get();
  if (l.state === "paused") return;
  missed = document.hidden;
  if (missed) return;
  const now = Date.now();
  clearTimeout(timer);
  if (now < due) {
    timer = setTimeout(beat, due - now) as unknown as number;
    return;
  }
  due = now + least;
  live.set({ ...l, beats: l.beats + 1 });
}

export function pause(): void {
  const l = live.get();
  if (l.state === "on") live.set({ ...l, state: "paused" });
  else if (l.state === "paused") {
    live.set({ ...l, state: "on" });
    beat();
  }
}

export interface Event {
  event: string;
  data: Partial<Progress & ChainChange>;
}

// events splits a stream of bytes into events. It calls alive for each part that arrives.
async function* events(body: ReadableStream<Uint8Array>, alive: () => void): AsyncGenerator<Event> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    text += value.replaceAll("\r", "");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const of = (name: string) => lines.filter((l) => l.startsWith(`${name}:`)).map((l) => l.slice(name.length + 1).trimStart()).join("\n");
      const data = of("data");
      if (data) yield { event: of("event") || "message", data: JSON.parse(data) as Event["data"] };
    }
  }
}

let known = ""; // progress that the server last reported

export function hear(e: Event): void {
  const l = live.get();
  if (e.event === "hello" || e.event === "data") {
    const { session, to_ms, records, recording } = e.data;
    const [now, before] = [`${session} ${to_ms} ${records} ${recording}`, known];
    known = now;
    if (l.state !== "paused") live.set({ ...l, state: recording ? "on" : "off", heard: true });
    // After a reconnection, the hello tells whether the page missed events.
    if (e.event === "data" || missed || (before && before !== now)) beat();
  } else if (e.event === "chain") {
    const who = [e.data.comm, e.data.pid ? `(${e.data.pid})` : ""].filter(Boolean).join(" ");
    live.set({ ...live.get(), chain: `${e.data.severity} cause ${e.data.change}: ${e.data.rule} in ${who}` });
    beat();
  }
}

const wait = (ms: number) => new Promise((go) => setTimeout(go, ms));

// shown waits until the page is visible.
async function shown(): Promise<void> {
  while (document.hidden) await new Promise<void>((go) => addEventListener("visibilitychange", () => go(), { once: true }));
}

const silence = 40_000; // ms without a byte after which a stream is dead; the server sends one every 15 s

// follow reads one stream to its end, until the page is hidden, or until the stream is dead. It returns
// "refused" if the server requires a token, "heard" after an event.
export async function follow(): Promise<"refused" | "heard" | ""> {
  const abort = new AbortController();
  const hide = () => {
    if (document.hidden) abort.abort();
  };
  let dead = 0;
  const alive = () => {
    clearTimeout(dead);
    dead = setTimeout(() => abort.abort(), silence) as unknown as number;
  };
  let heard = false;
  addEventListener("visibilitychange", hide);
  alive();
  try {
    const r = await fetch("/api/v1/updates", { headers: headers(), cache: "no-store", signal: abort.signal });
    if (r.status === 401) return "refused";
    if (r.ok && r.body) {
      for await (const e of events(r.body, alive)) {
        heard = true;
        hear(e);
      }
    }
  } catch {
    // the stream was closed, or the server is down and may return
  } finally {
    clearTimeout(dead);
    removeEventListener("visibilitychange", hide);
  }
  return heard ? "heard" : "";
}

// listen never ends: it reconnects after 1 s, 2 s ... 30 s, and at once when the page becomes visible.
export async function listen(): Promise<void> {
  if (file) return;
  for (let pause = 1000; ; pause = Math.min(pause * 2, 30_000)) {
    await shown();
    const end = await follow();
    if (end === "refused") return; // the token dialog reloads the page
    if (end === "heard" || document.hidden) pause = 1000;
    if (document.hidden) continue;
    const l = live.get();
    if (l.state === "on") live.set({ ...l, state: "waiting" });
    await wait(pause);
    beat();
  }
}
