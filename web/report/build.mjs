// Bundles the report's modules into the two files that the Go package embeds.
import { build } from "esbuild";

const out = process.argv[2] ?? new URL("../../internal/report/dist", import.meta.url).pathname;

await build({
  absWorkingDir: new URL(".", import.meta.url).pathname,
  entryPoints: { report: "src/main.ts" },
  outdir: out,
  bundle: true,
  format: "iife",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
await build({
  absWorkingDir: new URL(".", import.meta.url).pathname,
  entryPoints: { report: "src/style.css" },
  outdir: out,
  minify: true,
  charset: "utf8",
  logLevel: "warning",
});
