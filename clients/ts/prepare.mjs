// Writes dist. npm runs it for `npm pack`, and for a page that has the package as file:. A fresh clone has no compiler yet.
import { spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const compiler = join(here, "node_modules", "typescript", "bin", "tsc");

// run runs a program of JavaScript. Its output is not that of npm pack, which may be read.
function run(...args) {
  const { status, error } = spawnSync(process.execPath, args, { cwd: here, stdio: ["ignore", 2, 2] });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

if (!existsSync(compiler)) run(process.env.npm_execpath, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error");
rmSync(join(here, "dist"), { recursive: true, force: true });
run(compiler, "-p", "tsconfig.json");
