// Flame graphs: the program from top to bottom, each frame as wide as what it took.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Answer } from "./api";
import { base, inUnit, share } from "./fmt";
import { type Column, Grid } from "./grid";
import { useStore } from "./store";
import type { Flame, FlameNode } from "./types";
import { Choice, Notes, Panel, Ready, useWidth } from "./ui";
import { look, view } from "./view";

const tall = 21; // px of a frame
const least = 2; // px; narrower ones are not drawn

interface Box {
  node: FlameNode;
  path: string; // indices from the root
  depth: number;
  from: number; // share of what is shown
  width: number;
}

export function labelOf(n: FlameNode): string {
  const at = n.file ? `${base(n.file)}${n.line ? `:${n.line}` : ""}` : n.module ? base(n.module) : "";
  if (n.kind === "process") return n.pid ? `${n.name} (${n.pid})` : n.name;
  return at ? `${n.name} · ${at}` : n.name;
}

function find(root: FlameNode, path: string): FlameNode[] {
  const out = [root];
  for (const i of path.split(".").filter(Boolean)) {
    const next = out.at(-1)!.children?.[Number(i)];
    if (!next) break;
    out.push(next);
  }
  return out;
}

function boxes(root: FlameNode, path: string, width: number): Box[] {
  const out: Box[] = [];
  const add = (node: FlameNode, at: string, depth: number, from: number, w: number): void => {
    if (w * width < least) return;
    out.push({ node, path: at, depth, from, width: w });
    let x = from;
    node.children?.forEach((c, i) => {
      const cw = node.value > 0 ? (w * c.value) / node.value : 0;
      add(c, at ? `${at}.${i}` : String(i), depth + 1, x, cw);
      x += cw;
    });
  };
  const above = find(root, path);
  const last = above.length - 1;
  above.slice(0, last).forEach((node, depth) => out.push({ node, path: path.split(".").slice(0, depth).join("."), depth, from: 0, width: 1 }));
  add(above[last]!, path, last, 0, 1);
  return out;
}

// next is the frame that an arrow key leads to.
function next(all: Box[], b: Box, key: string): Box | undefined {
  const level = all.filter((x) => x.depth === b.depth);
  const i = level.indexOf(b);
  switch (key) {
    case "ArrowRight":
      return level[i + 1];
    case "ArrowLeft":
      return level[i - 1];
    case "ArrowUp":
      return all.findLast((x) => x.depth === b.depth - 1 && x.from <= b.from + 1e-9);
    case "ArrowDown":
      return all.find((x) => x.depth === b.depth + 1 && x.from >= b.from - 1e-9 && x.from < b.from + b.width);
    case "Home":
      return all[0];
  }
  return undefined;
}

function Frames({ f }: { f: Flame }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [path, setPath] = useState("");
  const [focus, setFocus] = useState("");
  const [over, setOver] = useState<FlameNode | null>(null);
  const tree = useRef<HTMLDivElement>(null);
  const root = f.root;
  const shown = find(root, path).length > path.split(".").filter(Boolean).length ? path : "";
  const all = useMemo(() => boxes(root, shown, width), [root, shown, width]);
  const deep = all.reduce((m, b) => Math.max(m, b.depth), 0) + 1;
  const now = all.some((b) => b.path === focus) ? focus : "";
  const say = over ?? find(root, now || shown).at(-1)!;
  const enter = (b: Box) => (setPath(b.path === shown ? b.path.split(".").slice(0, -1).join(".") : b.path), setFocus(b.path));
  const keys = (e: KeyboardEvent) => {
    const b = all.find((x) => x.path === now);
    if (!b || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "Enter" || e.key === " ") enter(b);
    else if (e.key === "Escape" && shown) setPath("");
    else {
      const to = next(all, b, e.key);
      if (!to) return;
      setFocus(to.path);
      (tree.current?.children[all.indexOf(to)] as HTMLElement | undefined)?.focus();
    }
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div ref={box}>
      <p class="says" aria-hidden="true">
        <b>{labelOf(say)}</b> {inUnit(say.value, f.unit)} <span class="soft">{share(root.value ? say.value / root.value : 0)}</span>
        {say.file && <span class="soft"> {say.file}{say.line ? `:${say.line}` : ""}</span>}
      </p>
      <div class="flame" role="tree" aria-label="frames, the outermost first" ref={tree} style={{ height: `${deep * tall}px` }} onKeyDown={keys} onPointerLeave={() => setOver(null)}>
        {all.map((b) => (
          <div
            key={b.path}
            role="treeitem"
            aria-level={b.depth + 1}
            aria-label={`${labelOf(b.node)}, ${inUnit(b.node.value, f.unit)}, ${share(root.value ? b.node.value / root.value : 0)}`}
            tabIndex={b.path === now ? 0 : -1}
            class={`frame f-${b.node.kind ?? "native"}${b.path.length < shown.length ? " above" : ""}`}
            style={{ left: `${b.from * 100}%`, width: `${b.width * 100}%`, top: `${b.depth * tall}px` }}
            onClick={() => enter(b)}
            onFocus={() => setFocus(b.path)}
            onPointerEnter={() => setOver(b.node)}
          >
            {b.width * width > 24 ? labelOf(b.node) : ""}
          </div>
        ))}
      </div>
    </div>
  );
}

interface LineSum {
  at: string;
  name: string;
  kind: string;
  value: number;
}

// lines are the Python lines, or functions where there are none, with what was directly below them.
function lines(root: FlameNode): LineSum[] {
  const sums = new Map<string, LineSum>();
  const walk = (n: FlameNode, above: FlameNode | null): void => {
    const mine = n.kind === "python" ? n : n.kind === "native" && above?.kind !== "python" ? n : above;
    const inner = (n.children ?? []).reduce((a, c) => a + c.value, 0);
    const self = n.self ?? Math.max(n.value - inner, 0);
    if (self > 0 && mine && mine.kind !== "process") {
      const at = mine.file ? `${mine.file}${mine.line ? `:${mine.line}` : ""}` : (mine.module ?? "");
      const key = `${at} ${mine.name}`;
      const x = sums.get(key) ?? { at, name: mine.name, kind: mine.kind ?? "", value: 0 };
      x.value += self;
      sums.set(key, x);
    }
    for (const c of n.children ?? []) walk(c, mine);
  };
  walk(root, null);
  return [...sums.values()];
}

const isPython = (n: FlameNode): boolean => n.kind === "python" || (n.children?.some(isPython) ?? false);

// python is the tree without native frames wherever Python called: what they took is their
// callers'. Frames that come together so are one.
function python(n: FlameNode): FlameNode {
  const out: FlameNode = { ...n, children: [] };
  const by = new Map<string, FlameNode>();
  const add = (c: FlameNode): void => {
    if (c.kind === "native") {
      c.children?.forEach(add);
      return;
    }
    const key = `${c.kind} ${c.name} ${c.file} ${c.line} ${c.pid}`;
    const was = by.get(key);
    if (was) by.set(key, { ...was, value: was.value + c.value, self: (was.self ?? 0) + (c.self ?? 0), children: [...(was.children ?? []), ...(c.children ?? [])] });
    else by.set(key, c);
  };
  n.children?.forEach(add);
  out.children = [...by.values()].map(python).sort((a, b) => b.value - a.value);
  return out;
}

// tidy takes native frames out of the processes that run Python.
function tidy(root: FlameNode): FlameNode {
  return { ...root, children: root.children?.map((p) => (isPython(p) ? python(p) : p)) ?? [] };
}

const units: Record<string, string> = { time: "time", gpu_wait: "time", runnable: "time", memory: "live bytes" };

export function FlamePanel({ answer }: { answer: Answer<Flame> }) {
  const v = useStore(view);
  const [native, setNative] = useState(false);
  const mixed = useMemo(() => (answer.data ? isPython(answer.data.root) : false), [answer.data]);
  const short = useMemo(() => (answer.data && mixed ? tidy(answer.data.root) : undefined), [answer.data, mixed]);
  const choice = (
    <Choice
      label="what widths are"
      value={v.flame}
      set={(flame) => look({ flame })}
      options={[
        ["time", "Time in calls"],
        ["gpu_wait", "GPU wait"],
        ["runnable", "Runnable"],
        ["memory", "Live GPU memory"],
      ]}
    />
  );
  const tools = (
    <>
      {mixed && (
        <label>
          <input type="checkbox" checked={native} onChange={(e) => setNative(e.currentTarget.checked)} /> native frames too
        </label>
      )}
      {choice}
    </>
  );
  return (
    <Panel id="code" title="Which lines of code" about="the outermost frame on top; a click or Enter goes into a frame, and again out of it" tools={tools} wide>
      <Ready
        answer={answer}
        nothing={v.flame === "memory" ? "No live GPU memory with stacks in this time." : "No stacks were recorded in this time: ingero trace --stack records them."}
        empty={(d) => !d.root.children?.length}
      >
        {(d) => {
          const columns: Column<LineSum>[] = [
            { name: "function", text: true, head: true, value: (l) => l.name },
            { name: "line", text: true, value: (l) => l.at },
            { name: units[d.what] ?? "value", value: (l) => l.value, show: (l) => inUnit(l.value, d.unit) },
            { name: "share", value: (l) => l.value, show: (l) => share(d.total ? l.value / d.total : 0) },
          ];
          const notes = [...d.notes];
          if (d.without) notes.push(`${d.without} calls have no stack and are not in the picture`);
          if (d.sampled !== undefined && d.sampled < 1) notes.push(`${share(d.sampled)} of the calls were looked at; values are scaled up`);
          if (d.cut) notes.push(`${d.cut} narrow frames were left out; their part is their parent's`);
          return (
            <>
              <Frames key={`${d.what} ${native}`} f={native || !short ? d : { ...d, root: short }} />
              <details class="behind">
                <summary>As a table, by line</summary>
                <Grid label="By line of code" columns={columns} rows={lines(d.root)} sort={units[d.what] ?? "value"} />
              </details>
              <Notes notes={notes} />
            </>
          );
        }}
      </Ready>
    </Panel>
  );
}
