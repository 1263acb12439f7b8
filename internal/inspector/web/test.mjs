// Runs the tests of the pure modules: npm test.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const outdir = mkdtempSync(join(tmpdir(), "inspector-test-"));
try {
  const names = readdirSync("test").filter((name) => name.endsWith(".test.mjs"));
  await build({ entryPoints: names.map((name) => `test/${name}`), outdir, bundle: true, platform: "node", format: "esm", outExtension: { ".js": ".mjs" } });
  process.exitCode = spawnSync(process.execPath, ["--test", ...names.map((name) => join(outdir, name))], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(outdir, { recursive: true });
}
