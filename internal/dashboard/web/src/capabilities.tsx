// The manifest: which data there are, and in grey which are not, with what would supply them.
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
        {c.available ? "recorded" : c.collected ? `not in this recording: ${c.tool}` : `ingero does not collect it: ${c.tool} does`}
      </span>
    </li>
  );
}

export function CapabilitiesPanel({ answer }: { answer: Answer<Capabilities> }) {
  return (
    <Panel id="capabilities" title="What is known, and what is not" about="grey: not in the latest recording, with the tool that would supply it" wide>
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
                <summary>What could not be watched, and why ({d.reports.length})</summary>
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
