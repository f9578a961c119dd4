// The tree of a flame graph: the visible boxes, and the sums by line.
import { base } from "./fmt";
import type { FlameNode } from "./types";

const least = 2; // px; narrower frames are not drawn

export interface Box {
  node: FlameNode;
  path: string; // indices from the root
  depth: number;
  from: number; // left edge, as a share of the visible width
  width: number;
}

export function labelOf(n: FlameNode): string {
  const at = n.file ? `${base(n.file)}${n.line ? `:${n.line}` : ""}` : n.module ? base(n.module) : "";
  if (n.kind === "process") return n.pid ? `${n.name} (${n.pid})` : n.name;
  return at ? `${n.name} · ${at}` : n.name;
}

export function find(root: FlameNode, path: string): FlameNode[] {
  const out = [root];
  for (const i of path.split(".").filter(Boolean)) {
    const next = out.at(-1)!.children?.[Number(i)];
    if (!next) break;
    out.push(next);
  }
  return out;
}

export function boxes(root: FlameNode, path: string, width: number): Box[] {
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

export interface LineSum {
  at: string;
  name: string;
  kind: string;
  value: number;
}

// lines returns the Python lines, or native functions without Python, with their own values.
export function lines(root: FlameNode): LineSum[] {
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

export const isPython = (n: FlameNode): boolean => n.kind === "python" || (n.children?.some(isPython) ?? false);

// python returns the tree without native frames: their values count for their callers. Equal frames
// that become neighbours are merged.
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

// tidy removes native frames from processes that run Python.
export function tidy(root: FlameNode): FlameNode {
  return { ...root, children: root.children?.map((p) => (isPython(p) ? python(p) : p)) ?? [] };
}
