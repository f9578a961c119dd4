// Builds the page: node build.mjs OUTDIR, beside node_modules. The same sources and
// versions give the same bytes on any machine.
import { build } from "esbuild";
import { copyFileSync, mkdirSync } from "node:fs";

const to = process.argv[2];
mkdirSync(to, { recursive: true });
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
  legalComments: "inline",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) copyFileSync(`src/${name}`, `${to}/${name}`);
