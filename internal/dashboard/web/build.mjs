// Builds the page: node build.mjs OUTDIR, beside node_modules. The build is reproducible: the same
// sources and versions give the same bytes on any machine.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";

const to = process.argv[2];
mkdirSync(to, { recursive: true });

// notice is the text that the licences of the bundled packages require.
const { dependencies } = JSON.parse(readFileSync("package.json", "utf8"));
const notice = Object.keys(dependencies).map((name) => `${name} ${dependencies[name]}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}`);

await build({
  entryPoints: { app: "src/main.tsx" },
  outdir: to,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022", "chrome110", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  banner: { js: `/*! This has\n\n${notice.join("\n\n")}\n*/` },
  legalComments: "none",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) copyFileSync(`src/${name}`, `${to}/${name}`);
