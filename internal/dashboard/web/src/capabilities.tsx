// The manifest: the available data, and in grey the missing data with the tool that would supply it.
import type { Answer } from "./api";
import type { Capabilities, Capability } from "./types";
import { Panel, Ready } from "./ui";

function One({ c }: { c: Capability }) {
  return (
    <li class={c.available ? "have" : "lack"}>
      <span class="mark" aria-hidden="true">
        {c.available ? "✓" : c.collected ? "–" : "○"}
      </span>
      <span>
        <b>{c.about}</b>
        <br />
        {c.available ? "recorded" : c.collected ? `not in this recording: ${c.tool}` : `not collected by ingero: use ${c.tool}`}
      </span>
    </li>
  );
}

export function CapabilitiesPanel({ answer }: { answer: Answer<Capabilities> }) {
  return (
    <Panel id="capabilities" title="Available data" about="grey: missing from the latest recording, with the tool that would supply it" wide>
      <Ready answer={answer} nothing="Nothing has been recorded.">
        {(d) => (
          <>
            <ul class="capabilities">
              {[...d.capabilities].sort((a, b) => Number(b.available) - Number(a.available)).map((c) => (
                <One key={c.name} c={c} />
              ))}
            </ul>
            {d.reports.length > 0 && (
              <details class="notes">
                <summary>What could not be traced, and why ({d.reports.length})</summary>
                <ul>
                  {d.reports.map((r) => (
                    <li>
                      <b>{r.object}</b>: {r.why}
                    </li>
                  ))}
                </ul>
              </details>
            )}
          </>
        )}
      </Ready>
    </Panel>
  );
}
