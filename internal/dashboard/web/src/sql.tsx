// Free SQL statements. Errors appear in the server's words.
import { useState } from "preact/hooks";
import { Refused, ask, file } from "./api";
import { count, plural } from "./fmt";
import { Grid } from "./grid";
import type { Rows } from "./types";
import { Notes, Panel, Problem } from "./ui";

const samples: [string, string][] = [
  ["Slowest calls", "SELECT iso(timestamp) AS time, pid, op, us(duration_ns) AS us FROM events WHERE nested = 0 ORDER BY duration_ns DESC LIMIT 20"],
  ["Calls by operation", "SELECT op, sum(weight) AS calls, us(sum(weight * duration_ns)) AS us FROM events WHERE nested = 0 GROUP BY op ORDER BY us DESC"],
  ["Tables", "SELECT name, type FROM sqlite_schema ORDER BY name"],
];

type Cell = string | number | null;

function cell(v: unknown): Cell {
  if (v === null || typeof v === "number" || typeof v === "string") return v;
  if (typeof v === "object" && "hex" in v) return `0x${String(v.hex)}`;
  return JSON.stringify(v);
}

function Result({ t }: { t: Rows }) {
  const notes = [...(t.notes ?? []), ...(t.cut ? [`rows are missing: ${t.cut}`] : [])];
  const columns = t.columns.map((name, i) => ({
    name: t.columns.indexOf(name) === i ? name : `${name} (${i + 1})`,
    text: t.rows.some((r) => typeof r[i] === "string"),
    value: (r: unknown[]) => cell(r[i]),
    show: (r: unknown[]) => (r[i] === null ? <span class="soft">NULL</span> : String(cell(r[i]))),
  }));
  return (
    <>
      <p role="status" class="soft">
        {plural(t.rows.length, "row")} in {count(t.took_ms)} ms
        {t.cut && <b> · truncated: {t.cut}</b>}
      </p>
      {t.rows.length > 0 && <Grid label="Result" columns={columns} rows={t.rows} most={20} />}
      <Notes notes={notes} />
    </>
  );
}

export function SQLPanel() {
  const [text, setText] = useState(samples[0]![1]);
  const [busy, setBusy] = useState(false);
  const [result, setResult] = useState<Rows | null>(null);
  const [error, setError] = useState<Refused | null>(null);
  const run = async (statement: string) => {
    if (busy || !statement.trim()) return;
    setBusy(true);
    setError(null);
    try {
      setResult(await ask<Rows>("/api/v1/query", {}, undefined, { sql: statement, limit: 10_000 }));
    } catch (e) {
      setResult(null);
      setError(e instanceof Refused ? e : new Refused(0, String(e), ""));
    }
    setBusy(false);
  };
  const keys = (e: KeyboardEvent) => {
    if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    void run(text);
  };
  if (file)
    return (
      <Panel id="sql" title="SQL">
        <p class="empty">A saved report cannot run SQL. Open the database with ingero dashboard.</p>
      </Panel>
    );
  return (
    <Panel id="sql" title="SQL" about="one read-only statement; the time range and filters above do not apply. Tables: docs/reference/schema.md" wide>
      <div class="sql">
        <textarea id="sql-text" rows={4} spellcheck={false} aria-label="SQL statement; Ctrl+Enter runs it" value={text} onInput={(e) => setText(e.currentTarget.value)} onKeyDown={keys} />
        <div class="tools">
          <button type="button" class="main" disabled={busy} onClick={() => run(text)}>
            {busy ? "Running …" : "Run"} <kbd>Ctrl ⏎</kbd>
          </button>
          {samples.map(([name, statement]) => (
            <button type="button" class="small" onClick={() => (setText(statement), void run(statement))}>
              {name}
            </button>
          ))}
        </div>
      </div>
      {error && <Problem what={error.what} todo={error.todo} />}
      {result && <Result t={result} />}
    </Panel>
  );
}
