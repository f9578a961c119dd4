// The client of the read API. A report file contains the answers and sends no requests.
import { useEffect, useRef, useState } from "preact/hooks";
import { Store } from "./store";
import type { Refusal, ReportFile } from "./types";
import type { Range } from "./view";

export type Params = Record<string, string | number | undefined>;

// Refused is an error, with what to do.
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly what: string,
    readonly todo: string,
  ) {
    super(what);
  }
}

function saved(): ReportFile | null {
  const e = document.getElementById("ingero-answers");
  return e ? (JSON.parse(e.textContent ?? "") as ReportFile) : null;
}

export const file = saved();

// needToken is true while the server requires a token that the page does not have.
export const needToken = new Store(false);
const tokenKey = "ingero-token";

function takeToken(): void {
  const m = /^#token=(.+)$/.exec(location.hash);
  if (!m) return;
  sessionStorage.setItem(tokenKey, decodeURIComponent(m[1]!));
  history.replaceState(null, "", location.pathname + location.search);
}
if (!file) takeToken();

export function setToken(token: string): void {
  sessionStorage.setItem(tokenKey, token);
  needToken.set(false);
}

export function headers(): Record<string, string> {
  const token = sessionStorage.getItem(tokenKey);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

const left = new Set(["from", "to", "since", "zone", "buckets", "limit"]);

// keyOf returns the key of a request in a report file.
export function keyOf(path: string, params: Params): string {
  const names = Object.keys(params).filter((n) => params[n] !== undefined && params[n] !== "" && !left.has(n));
  const query = names.sort().map((n) => `${n}=${params[n]}`);
  return query.length ? `${path}?${query.join("&")}` : path;
}

const atOnce = 3;
let running = 0;
const waiting: (() => void)[] = [];

async function turn(signal?: AbortSignal): Promise<void> {
  if (running >= atOnce) await new Promise<void>((go) => waiting.push(go));
  running++;
  if (signal?.aborted) {
    done();
    throw new DOMException("the request was aborted", "AbortError");
  }
}

function done(): void {
  running--;
  waiting.shift()?.();
}

const pause = (ms: number) => new Promise((go) => setTimeout(go, ms));

async function refusalOf(r: Response): Promise<Refused> {
  try {
    const x = (await r.json()) as Refusal;
    return new Refused(r.status, x.error, x.do ?? "");
  } catch {
    return new Refused(r.status, `the server answered ${r.status}`, "");
  }
}

// fromFile returns an answer from the report file: with the filters if it has one, else without.
function fromFile<T>(path: string, params: Params): T {
  const key = keyOf(path, params);
  const { op: _op, ...all } = params;
  const { pid: _pid, node: _node, session: _session, ...plain } = all;
  for (const k of [key, keyOf(path, all), keyOf(path, plain)]) {
    const answer = file!.answers[k];
    if (answer !== undefined) return answer as T;
  }
  const e = file!.errors?.[key];
  throw e ? new Refused(404, e.error, e.do ?? "") : new Refused(404, "This is not in this file.", "open the database of this file with ingero dashboard");
}

// ask sends a request and returns the answer. It retries while the server is busy.
export async function ask<T>(path: string, params: Params, signal?: AbortSignal, body?: unknown): Promise<T> {
  if (file) return fromFile<T>(path, params);
  const p = new URLSearchParams();
  for (const [name, v] of Object.entries(params)) if (v !== undefined && v !== "") p.set(name, String(v));
  const url = p.size ? `${path}?${p}` : path;
  await turn(signal);
  try {
    for (let tries = 0; ; tries++) {
      let r: Response;
      const init: RequestInit = { headers: headers(), signal: signal ?? null, cache: "no-store" };
      if (body !== undefined) Object.assign(init, { method: "POST", body: JSON.stringify(body), headers: { ...headers(), "Content-Type": "application/json" } });
      try {
        r = await fetch(url, init);
      } catch (e) {
        if ((e as Error).name === "AbortError") throw e;
        throw new Refused(0, "The server does not answer.", "check that ingero dashboard is still running");
      }
      if (r.status === 401) needToken.set(true);
      if (r.status === 503 && tries < 4) {
        await pause(1000);
        continue;
      }
      if (!r.ok) throw await refusalOf(r);
      return body === undefined ? ((await r.json()) as T) : parse<T>(await r.text());
    }
  } finally {
    done();
  }
}

type Source = { source?: string };

// parse parses SQL rows. An integer that a double cannot hold stays text.
function parse<T>(text: string): T {
  if (!/\d{16}/.test(text)) return JSON.parse(text) as T;
  const exact = (_: string, v: unknown, at?: Source) =>
    typeof v === "number" && !Number.isSafeInteger(v) && at?.source && /^-?\d+$/.test(at.source) ? at.source : v;
  return JSON.parse(text, exact as (k: string, v: unknown) => unknown) as T;
}

const nanos = (ms: number) => String(BigInt(Math.round(ms * 1000)) * 1000n);

export const span = (r: Range): Params => ({ from: nanos(r.from), to: nanos(r.to) });

export interface Answer<T> {
  data: T | undefined;
  error: Refused | undefined;
  loading: boolean;
}

const again = 5000; // ms before a failed request is retried
const tooLong = 60_000; // ms before a request that took the server too long is repeated

// Slow is a request that took the server too long.
export interface Slow {
  length: number; // of its time range; 0: none
  until: number; // ms
}

// lengthOf returns the length of the time range of parameters, ns.
export const lengthOf = (p: Params): number => Number(p.to ?? 0) - Number(p.from ?? 0);

// rests reports whether a request should wait: the same one took too long a short while ago, for a time
// range that was not longer.
export const rests = (slow: Slow | null, length: number, now: number): boolean => slow !== null && length >= 0.9 * slow.length && now < slow.until;

const flatly = (p: Params) => JSON.stringify(p, Object.keys(p).sort());

// useAnswer sends a request when path or params change, and again when fresh changes. The previous
// answer stays until the next arrives. A request that differs only in its time range waits for the
// current one, so that slow answers arrive too; any other change aborts the current one.
export function useAnswer<T>(path: string | null, params: Params, fresh = 0): Answer<T> {
  const [state, set] = useState<Answer<T> & { of: string }>({ data: undefined, error: undefined, loading: true, of: "" });
  const { from, to, ...rest } = params;
  const subject = path === null ? "" : `${path} ${flatly(rest)}`;
  const question = `${subject} ${from} ${to} ${fresh}`;
  const now = useRef({ question: "", asked: "", params, path, abort: null as AbortController | null, timer: 0, slow: null as Slow | null });
  Object.assign(now.current, { question, params, path });

  useEffect(
    () => () => {
      now.current.abort?.abort();
      now.current.slow = null;
      clearTimeout(now.current.timer);
    },
    [subject],
  );
  useEffect(() => {
    const go = async (): Promise<void> => {
      const n = now.current;
      if (n.path === null || n.abort) return;
      if (rests(n.slow, lengthOf(n.params), Date.now())) {
        clearTimeout(n.timer);
        n.timer = setTimeout(go, n.slow!.until - Date.now()) as unknown as number;
        return;
      }
      const abort = new AbortController();
      [n.abort, n.asked] = [abort, n.question];
      const length = lengthOf(n.params);
      clearTimeout(n.timer);
      set((s) => (s.loading ? s : { ...s, loading: true }));
      try {
        const data = await ask<T>(n.path, n.params, abort.signal);
        n.slow = null;
        if (!abort.signal.aborted) set({ data, error: undefined, loading: false, of: subject });
      } catch (e) {
        if (!abort.signal.aborted) {
          const error = e instanceof Refused ? e : new Refused(0, String(e), "");
          n.slow = error.status === 422 ? { length, until: Date.now() + tooLong } : null;
          if (error.status === 0 || error.status >= 500) n.timer = setTimeout(go, again) as unknown as number;
          // While the server is unreachable, its last answer stays.
          set((s) => (error.status === 0 && s.of === subject && s.data !== undefined ? { ...s, loading: false } : { data: undefined, error, loading: false, of: subject }));
        }
      }
      if (n.abort === abort) n.abort = null;
      if (!abort.signal.aborted && n.asked !== n.question) await go();
    };
    if (now.current.abort?.signal.aborted) now.current.abort = null;
    void go();
  }, [question]);
  return state;
}
