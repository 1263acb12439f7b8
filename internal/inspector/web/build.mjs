// Builds the files that the binary embeds: npm ci && npm run build.
import { build } from "esbuild";
import { copyFile } from "node:fs/promises";

await build({
  entryPoints: ["src/main.tsx", "src/style.css"],
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
});
for (const name of ["index.html", "favicon.svg"]) await copyFile(`src/${name}`, `dist/${name}`);
