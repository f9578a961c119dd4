// Keyboard shortcuts, and the dialog that lists them.
import { useEffect, useRef } from "preact/hooks";
import { around } from "./bar";
import { pause } from "./live";
import { Store, useStore } from "./store";
import { toggle } from "./theme";
import type { Overview } from "./types";
import { type Range, later, look, zoom } from "./view";

const sections: [string, string][] = [
  ["headline", "What is wrong"],
  ["time", "Where the time went"],
  ["latency", "How long calls took"],
  ["ops", "Calls"],
  ["code", "Lines of code"],
  ["memory", "GPU memory"],
  ["gpus", "GPUs and faults"],
  ["nccl", "NCCL"],
  ["graphs", "CUDA graphs"],
  ["machine", "Machine"],
  ["fleet", "Fleet"],
  ["sql", "SQL"],
  ["capabilities", "Available data"],
];

const requestsSection: [string, string] = ["requests", "Requests"];

// shownSections returns the sections below the headline. Requests come first, if there are any.
export function shownSections(requests: boolean): [string, string][] {
  return [...(requests ? [requestsSection] : []), ...sections.slice(1)];
}

export function titleOf(id: string): string {
  return [requestsSection, ...sections].find(([name]) => name === id)?.[1] ?? id;
}

const keys: [string, string][] = [
  ["← →", "earlier, later"],
  ["+ −", "zoom in, zoom out"],
  ["0", "the default time range"],
  ["1 … 9", "go to the first nine sections, without requests"],
  ["r", "go to the requests"],
  ["f", "choose a process"],
  ["c", "clear the filters"],
  ["s", "write SQL; Ctrl+Enter runs it"],
  ["p", "pause or resume"],
  ["t", "light or dark"],
  ["?", "this list"],
];

const storeKey = "ingero-keys";

function kept(): boolean {
  try {
    return localStorage.getItem(storeKey) !== "off";
  } catch {
    return true;
  }
}

const keysOn = new Store(kept());

function setKeys(on: boolean): void {
  keysOn.set(on);
  try {
    localStorage.setItem(storeKey, on ? "on" : "off");
  } catch {
    // no storage: the setting holds until the page is closed
  }
}

export function goTo(id: string): void {
  const e = document.getElementById(id);
  e?.scrollIntoView({ block: "start" });
  e?.focus({ preventScroll: true });
}

interface KeyProps {
  range: Range | undefined;
  overview: Overview | undefined;
  help: () => void;
}

type Does = (p: KeyProps) => void;

const does: Record<string, Does> = {
  ArrowLeft: ({ range }) => range && zoom(around(range, 1, -0.25)),
  ArrowRight: ({ range, overview }) => range && zoom(later(range, 0.25, overview)),
  "+": ({ range }) => range && zoom(around(range, 0.5)),
  "=": ({ range }) => range && zoom(around(range, 0.5)),
  "-": ({ range }) => range && zoom(around(range, 2)),
  "0": () => look({ last: "", from: null, to: null }),
  r: () => goTo("requests"),
  f: () => document.getElementById("filter-pid")?.focus(),
  c: () => look({ op: "", pid: "", node: "", session: "" }),
  s: () => (goTo("sql"), document.getElementById("sql-text")?.focus()),
  p: pause,
  t: toggle,
  "?": ({ help }) => help(),
};

const typing = "input, textarea, select, [role=tree], dialog";

// useKeys handles key presses while the page is mounted.
export function useKeys(p: KeyProps): void {
  const now = useRef(p);
  now.current = p;
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      if (!keysOn.get() || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
      if ((e.target as Element | null)?.closest?.(typing)) return;
      if (e.key.startsWith("Arrow") && (e.target as Element | null)?.closest?.(".scroll")) return; // arrow keys scroll it
      const section = /^[1-9]$/.test(e.key) ? sections[Number(e.key) - 1] : undefined;
      if (!section && !does[e.key]) return;
      e.preventDefault();
      if (section) goTo(section[0]);
      else does[e.key]!(now.current);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

export function Help({ open, close }: { open: boolean; close: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  const on = useStore(keysOn);
  useEffect(() => {
    if (open) ref.current?.showModal();
    else ref.current?.close();
  }, [open]);
  return (
    <dialog ref={ref} onClose={close} aria-labelledby="help-h">
      <h2 id="help-h">Keys</h2>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <p>In the flame graph, arrows move from frame to frame; Enter zooms in and out.</p>
      <label>
        <input type="checkbox" checked={on} onChange={(e) => setKeys(e.currentTarget.checked)} /> enable these keys
      </label>
      <p>
        <button type="button" class="main" onClick={close}>
          Close
        </button>
      </p>
    </dialog>
  );
}
