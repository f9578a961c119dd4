// Live updates: the server sends an event when there is new data. The page reads the events with
// fetch, since EventSource cannot send a token.
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

// beat makes the page request all data again, soon.
export function beat(): void {
  const l = live.get();
  if (l.state === "paused" || document.hidden) return;
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

interface Event {
  event: string;
  data: Partial<Progress & ChainChange>;
}

// events splits a stream of bytes into events.
async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
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

function hear(e: Event): void {
  const l = live.get();
  if (e.event === "hello" || e.event === "data") {
    if (l.state !== "paused") live.set({ ...l, state: e.data.recording ? "on" : "off", heard: true });
    if (e.event === "data") beat();
  } else if (e.event === "chain") {
    const who = [e.data.comm, e.data.pid ? `(${e.data.pid})` : ""].filter(Boolean).join(" ");
    live.set({ ...live.get(), chain: `${e.data.severity} cause ${e.data.change}: ${e.data.rule} in ${who}` });
    beat();
  }
}

const wait = (ms: number) => new Promise((go) => setTimeout(go, ms));

// listen never ends: it reconnects after 1 s, 2 s ... 30 s.
export async function listen(): Promise<void> {
  if (file) return;
  for (let pause = 1000; ; pause = Math.min(pause * 2, 30_000)) {
    try {
      const r = await fetch("/api/v1/updates", { headers: headers(), cache: "no-store" });
      if (r.status === 401) return; // the token dialog reloads the page
      if (r.ok && r.body) {
        for await (const e of events(r.body)) {
          pause = 1000;
          hear(e);
        }
      }
    } catch {
      // the server is down, and may return
    }
    const l = live.get();
    if (l.state === "on") live.set({ ...l, state: "waiting" });
    await wait(pause);
    beat();
  }
}

addEventListener("visibilitychange", () => {
  if (!document.hidden && live.get().state === "on") beat();
});
