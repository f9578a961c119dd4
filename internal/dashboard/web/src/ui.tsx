// Building blocks of panels.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, file } from "./api";

interface PanelProps {
  id: string;
  title: string;
  about?: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
  wide?: boolean;
}

// Panel is a section of the page, with a heading.
export function Panel({ id, title, about, tools, children, wide }: PanelProps) {
  return (
    <section id={id} class={wide ? "panel wide" : "panel"} aria-labelledby={`${id}-h`} tabIndex={-1}>
      <div class="panel-head">
        <h2 id={`${id}-h`}>{title}</h2>
        {about && <p class="about">{about}</p>}
        {tools && <div class="tools">{tools}</div>}
      </div>
      {children}
    </section>
  );
}

interface GuardProps {
  id: string; // of the panel
  title: string;
  answer: Answer<unknown>;
  children: ComponentChildren;
}

// Guard shows an error in place of a panel that cannot be drawn, until its next answer. The other
// panels stay up to date.
export class Guard extends Component<GuardProps, { error: unknown; of: unknown }> {
  override componentDidCatch(error: unknown): void {
    console.warn(error);
    this.setState({ error, of: this.props.answer.data });
  }

  override render({ id, title, answer, children }: GuardProps) {
    const { error, of } = this.state;
    if (error === undefined || of !== answer.data) return children;
    return (
      <Panel id={id} title={title}>
        <Problem what={`This part of the page cannot be drawn: ${error}.`} todo="Choose another time range, or reload the page." />
      </Panel>
    );
  }
}

interface ReadyProps<T> {
  answer: Answer<T>;
  nothing?: string; // text if there is no data, also for status 404
  empty?: (data: T) => boolean;
  children: (data: T) => ComponentChildren;
}

// Ready shows an answer, or why there is none.
export function Ready<T>({ answer, nothing, empty, children }: ReadyProps<T>) {
  const { data, error, loading } = answer;
  if (error?.status === 404 && (nothing || file)) return <p class="empty">{file ? error.what : nothing}</p>;
  if (error) return <Problem what={error.what} todo={error.todo} />;
  if (data === undefined) return <p class="empty" aria-busy="true">Loading …</p>;
  if (empty?.(data)) return <p class="empty">{nothing ?? "Nothing was recorded in this time range."}</p>;
  return <div class={loading ? "body stale" : "body"} aria-busy={loading}>{children(data)}</div>;
}

export function Problem({ what, todo }: { what: string; todo?: string }) {
  return (
    <p class="problem" role="alert">
      <strong>{what}</strong>
      {todo && <span> {todo}</span>}
    </p>
  );
}

// Notes lists what is missing, estimated or damaged.
export function Notes({ notes }: { notes: string[] | undefined | null }) {
  if (!notes?.length) return null;
  return (
    <details class="notes">
      <summary>{notes.length === 1 ? "1 note on these numbers" : `${notes.length} notes on these numbers`}</summary>
      <ul>
        {notes.map((n) => (
          <li>{n}</li>
        ))}
      </ul>
    </details>
  );
}

export function Copy({ text, what }: { text: string; what: string }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("The browser does not allow copying here: select the text");
    }
    setTimeout(() => say(""), 2500);
  };
  return (
    <>
      <button type="button" class="small" onClick={copy} aria-label={`Copy ${what}`}>
        {said === "Copied" ? "Copied" : "Copy"}
      </button>
      <span role="status" class={said && said !== "Copied" ? "hint" : "hidden"}>
        {said}
      </span>
    </>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  options: [string, string][];
  set: (value: string) => void;
}

// Choice is a row of buttons; one of them is pressed.
export function Choice({ label, value, options, set }: ChoiceProps) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([name, text]) => (
        <button type="button" aria-pressed={value === name} onClick={() => set(name)}>
          {text}
        </button>
      ))}
    </div>
  );
}

// useWidth returns an element's width in CSS pixels, 0 before it is shown.
export function useWidth<T extends HTMLElement>(): [{ current: T | null }, number] {
  const ref = useRef<T | null>(null);
  const [width, set] = useState(0);
  useEffect(() => {
    const e = ref.current;
    if (!e) return;
    const o = new ResizeObserver(() => set(Math.floor(e.clientWidth)));
    o.observe(e);
    set(Math.floor(e.clientWidth));
    return () => o.disconnect();
  }, []);
  return [ref, width];
}

// Swatch shows the colour of a kind, beside its name.
export function Swatch({ kind }: { kind: string }) {
  return <span class={`swatch k-${kind}`} aria-hidden="true" />;
}
