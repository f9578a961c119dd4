// Runs tests' scripts in Chromium. Each line of standard input is {"script", "args"}: the body of
// an async function of page, context, args, seen, axe and until. Each gets a line of standard
// output: {"value"} or {"error"}. seen has the page's requests, failures and console messages
// since the browser started. The first argument is the directory of the packages.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(process.argv[2] + "/");
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const seen = { requests: [], failures: [], console: [] };
const browser = await chromium.launch({ executablePath: process.argv[3], args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", timezoneId: "UTC", locale: "en-GB" });
context.setDefaultTimeout(20000);
const page = await context.newPage();
const pending = new Set(); // URLs without an answer yet
context.on("request", (r) => (seen.requests.push(r.url()), pending.add(r.url())));
for (const end of ["requestfinished", "requestfailed"]) context.on(end, (r) => pending.delete(r.url()));
// The page aborts a request whose answer it no longer needs.
context.on("requestfailed", (r) => r.failure()?.errorText !== "net::ERR_ABORTED" && seen.failures.push(`${r.url()}: ${r.failure()?.errorText}`));
context.on("response", (r) => r.status() >= 400 && seen.failures.push(`${r.url()}: ${r.status()}`));
context.on("console", (m) => ["error", "warning"].includes(m.type()) && seen.console.push(`${m.type()}: ${m.text()}`));
context.on("weberror", (e) => seen.console.push(`exception: ${e.error()}`));

// until waits until a function is true in the page. It uses nothing that the page's policy forbids.
async function until(f, arg, ms = 20000) {
  const end = Date.now() + ms;
  while (!(await page.evaluate(f, arg).catch((e) => (/destroyed/.test(e) ? false : Promise.reject(e))))) { // the page may be reloading
    if (Date.now() > end) {
      const text = await page.evaluate(() => document.body.innerText.slice(0, 4000)).catch(String);
      throw new Error(`it took too long: ${f}; failed requests: ${seen.failures.slice(-9)}; pending: ${[...pending]}; console: ${seen.console.slice(-9)}; the page says ${text}`);
    }
    await page.waitForTimeout(50);
  }
}

// axe returns the page's serious and critical accessibility violations.
async function axe() {
  const c = await context.newCDPSession(page); // the page's policy does not apply to it
  await c.send("Runtime.evaluate", { expression: axeSource });
  await c.detach();
  const { violations, passes } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  if (!passes.length) throw new Error("axe looked at nothing");
  return violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => `${v.impact} ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`);
}

const AsyncFunction = (async () => {}).constructor;
for await (const line of createInterface({ input: process.stdin })) {
  const { script, args } = JSON.parse(line);
  let out;
  try {
    const value = await new AsyncFunction("page", "context", "args", "seen", "axe", "until", script)(page, context, args, seen, axe, until);
    out = { value: value === undefined ? null : value };
  } catch (e) {
    out = { error: String(e?.stack ?? e) };
  }
  process.stdout.write(JSON.stringify(out) + "\n");
}
await browser.close();
