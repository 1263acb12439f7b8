#!/usr/bin/env node
// Writes a project: npm create tailrace-chat@latest my-chat. It asks no questions and installs nothing.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const usage = "npm create tailrace-chat@latest FOLDER -- [--template next]";
const here = dirname(fileURLToPath(import.meta.url));
const templates = readdirSync(join(here, "template"));

function fail(text) {
  console.error(`create-tailrace-chat: ${text}`);
  process.exit(1);
}

function argumentsOf(args) {
  try {
    return parseArgs({ args, allowPositionals: true, options: { template: { type: "string", default: "next" }, help: { type: "boolean", short: "h" } } });
  } catch (error) {
    return fail(`${error.message}\n${usage}`);
  }
}

const { values, positionals } = argumentsOf(process.argv.slice(2));
if (values.help) {
  console.log(usage);
  process.exit(0);
}
if (positionals.length !== 1) fail(`want one folder: ${usage}`);
if (!templates.includes(values.template)) fail(`there is no template "${values.template}"; want ${templates.join(" or ")}`);

const target = resolve(positionals[0]);
if (existsSync(target) && readdirSync(target).length > 0) fail(`${positionals[0]} is not empty: name a folder that does not exist`);
mkdirSync(target, { recursive: true });
cpSync(join(here, "template", values.template), target, { recursive: true });
renameSync(join(target, "gitignore"), join(target, ".gitignore")); // npm publishes no file with that name

// The client has the version of this package.
const { version } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const file = join(target, "package.json");
const manifest = JSON.parse(readFileSync(file, "utf8"));
manifest.name = basename(target).toLowerCase().replace(/[^a-z0-9-]+/g, "-").replace(/^-+|-+$/g, "") || "chat";
manifest.dependencies["tailrace-client"] = version;
writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);

const folder = relative(process.cwd(), target);
console.log(`Wrote a chat to ${target}. Next:\n`);
if (folder !== "") console.log(`  cd ${folder}`);
console.log("  npm install\n  npm run dev");
