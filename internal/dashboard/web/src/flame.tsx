// Flame graphs: callers above callees; a frame's width is its share of the value.
import { useMemo, useRef, useState } from "preact/hooks";
import type { Answer } from "./api";
import { inUnit, share } from "./fmt";
import { type Column, Grid } from "./grid";
import { useStore } from "./store";
import { type Box, type LineSum, boxes, find, isPython, labelOf, lines, tidy } from "./tree";
import type { Flame, FlameNode } from "./types";
import { Choice, Notes, Panel, Ready, useWidth } from "./ui";
import { look, view } from "./view";

const tall = 21; // px of a frame
// next returns the frame that an arrow key moves to.
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
      <div class="flame" role="tree" aria-label="frames, outermost first" ref={tree} style={{ height: `${deep * tall}px` }} onKeyDown={keys} onPointerLeave={() => setOver(null)}>
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

const units: Record<string, string> = { time: "time", gpu_wait: "time", runnable: "time", memory: "live bytes" };

export function FlamePanel({ answer }: { answer: Answer<Flame> }) {
  const v = useStore(view);
  const [native, setNative] = useState(false);
  const mixed = useMemo(() => (answer.data ? isPython(answer.data.root) : false), [answer.data]);
  const short = useMemo(() => (answer.data && mixed ? tidy(answer.data.root) : undefined), [answer.data, mixed]);
  const choice = (
    <Choice
      label="value shown as width"
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
          <input type="checkbox" checked={native} onChange={(e) => setNative(e.currentTarget.checked)} /> show native frames
        </label>
      )}
      {choice}
    </>
  );
  return (
    <Panel id="code" title="Which lines of code" about="outermost frame on top; click a frame or press Enter to zoom in, and again to zoom out" tools={tools} wide>
      <Ready
        answer={answer}
        nothing={v.flame === "memory" ? "No live GPU memory with stacks in this time range." : "No stacks were recorded in this time range. To record them, run ingero trace --stack."}
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
          if (d.without) notes.push(`${d.without} calls without a stack are not in the graph`);
          if (d.sampled !== undefined && d.sampled < 1) notes.push(`${share(d.sampled)} of the calls were sampled; values are scaled up`);
          if (d.cut) notes.push(`${d.cut} narrow frames are not shown; their parents include their values`);
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
