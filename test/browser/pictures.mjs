// Makes the pictures of the docs: the dashboard in both themes, and the live view of a terminal.
// Arguments: directory of the packages, path of Chromium, address of a dashboard, file with the
// output of a live view on a terminal, output directory.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, executablePath, url, session, out] = process.argv.slice(2);
const { chromium } = createRequire(packages + "/")("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });

for (const colorScheme of ["light", "dark"]) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 840 }, colorScheme, reducedMotion: "reduce", timezoneId: "UTC" });
  await page.goto(url);
  await page.waitForSelector("#time canvas");
  await page.waitForSelector("[aria-busy=true]", { state: "detached" });
  await page.screenshot({ path: `${out}/dashboard-${colorScheme}.png` });
}

// The last frame of a full-screen program that draws whole lines: "CSI row;1H", text, colors.
const rows = [];
for (const [, sequence, text] of readFileSync(session, "utf8").matchAll(/\x1b(\[[?0-9;]*[A-Za-z])([^\x1b]*)/g)) {
  const at = /^\[(\d+);1H$/.exec(sequence);
  if (sequence === "[?1049l") break; // the program has ended
  if (at) rows[(rows.at = at[1] - 1)] = [];
  else if (sequence === "[J") rows.length = rows.at;
  rows[rows.at]?.push([/^\[[0-9;]*m$/.exec(sequence)?.[0] ?? "", text]);
}

const palette = ["#484f58", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#e6edf3"];
function html(row) {
  let style = {};
  return row.map(([sequence, text]) => {
    for (const code of sequence ? sequence.slice(1, -1).split(";").map(Number) : []) {
      if (code === 0) style = {};
      else if (code === 1) style.fontWeight = "bold";
      else if (code === 2) style.opacity = 0.6;
      else if (code === 7) style.filter = "invert(1)";
      else if (code >= 30 && code < 38) style.color = palette[code - 30];
      else if (code >= 90 && code < 98) style.color = palette[code - 90];
    }
    const css = Object.entries(style).map(([k, v]) => `${k.replace(/[A-Z]/g, (c) => "-" + c.toLowerCase())}:${v}`).join(";");
    return `<span style="${css}">${text.replace(/[&<]/g, (c) => (c === "&" ? "&amp;" : "&lt;"))}</span>`;
  }).join("");
}
const terminal = await browser.newPage({ viewport: { width: 900, height: 600 } });
await terminal.setContent(`<pre style="display:inline-block;margin:0;padding:16px;background:#0d1117;color:#e6edf3;font:14px/1.3 'DejaVu Sans Mono',monospace">${rows.map((r) => html(r ?? [])).join("\n")}</pre>`);
await terminal.locator("pre").screenshot({ path: `${out}/live.png` });
await browser.close();
