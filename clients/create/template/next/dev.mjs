// Runs `next dev` and Tailrace until one of them ends, or until Ctrl-C.
import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { basename, delimiter, join, resolve } from "node:path";

const image = "tailrace/tailrace";
const module = "github.com/tailrace/tailrace/cmd/tailrace@latest";

// Options of tailrace for each project: pages with version 7 of the AI SDK, and an end without a delay.
const options = ["--chat-major", "7", "--drain", "0s"];

// freePort returns a port that no program listens on: the wanted one, if that is free.
function freePort(wanted = 0) {
  return new Promise((found, failed) => {
    const server = createServer();
    server.once("error", (error) => (wanted === 0 ? failed(error) : found(freePort())));
    server.listen(wanted, () => {
      const { port } = server.address();
      server.close(() => found(port));
    });
  });
}

// which returns the path of a program, undefined if it is not on the PATH.
function which(name) {
  for (const dir of (process.env.PATH ?? "").split(delimiter)) {
    for (const file of process.platform === "win32" ? [`${name}.exe`, `${name}.cmd`] : [name]) {
      try {
        accessSync(join(dir, file), constants.X_OK);
        return join(dir, file);
      } catch {
        // look further
      }
    }
  }
  return undefined;
}

// writeAgents writes agents.json with the address at which Tailrace reaches the route, and returns its path.
function writeAgents(host) {
  const text = readFileSync("agents.json", "utf8").replaceAll("http://127.0.0.1:3000/", `http://${host}:${webPort}/`);
  mkdirSync(".tailrace", { recursive: true });
  writeFileSync(join(".tailrace", "agents.json"), text);
  return resolve(".tailrace", "agents.json");
}

// goProgram installs Tailrace with Go, once, and returns its path: a signal to "go run" would not reach the program.
function goProgram() {
  const bin = resolve(".tailrace", "bin");
  const program = join(bin, process.platform === "win32" ? "tailrace.exe" : "tailrace");
  if (existsSync(program)) return program;
  if (!which("go")) return undefined;
  console.log(`go install ${module}`);
  return spawnSync("go", ["install", module], { stdio: "inherit", env: { ...process.env, GOBIN: bin } }).status === 0 ? program : undefined;
}

// tailraceCommand returns the command that runs Tailrace on a port, undefined if there is none.
async function tailraceCommand(port) {
  const docker = () => which("docker") && spawnSync("docker", ["info"], { stdio: "ignore", timeout: 10_000 }).status === 0;
  const local = process.env.TAILRACE_BIN || which("tailrace");
  if (!local && docker()) {
    const volumes = ["-v", `${writeAgents("host.docker.internal")}:/agents.json:ro`, "-v", `tailrace-${basename(resolve())}:/data`];
    const network = ["-p", `127.0.0.1:${port}:4480`, "--add-host", "host.docker.internal:host-gateway"];
    return ["docker", "run", "--rm", "--init", ...network, ...volumes, image, "up", "--trust-network", "--agents", "/agents.json", ...options];
  }
  const program = local || goProgram();
  if (!program) return undefined;
  const ports = ["--listen", `127.0.0.1:${port}`, "--nats-port", String(await freePort()), "--ops-listen", ""];
  return [program, "up", "--agents", writeAgents("127.0.0.1"), ...ports, "--data-dir", join(".tailrace", "data"), ...options, "--log-level", "warn"];
}

const webPort = await freePort(Number(process.env.PORT ?? 3000));
const port = await freePort();
const command = await tailraceCommand(port);
if (command === undefined) {
  console.error(`There is no Tailrace. Do one of these, and run npm run dev again:
  - set TAILRACE_BIN to the path of the program
  - put tailrace on the PATH
  - start Docker, for the image ${image}
  - install Go 1.26 or later, for go install ${module}`);
  process.exit(1);
}

const url = `http://127.0.0.1:${port}`;
const next = join("node_modules", "next", "dist", "bin", "next");
const tailrace = spawn(command[0], command.slice(1), { stdio: "inherit" });
// In a process group of its own, Next.js does not get the signal of Ctrl-C: it must end after Tailrace, which otherwise would store that the agent has failed.
const web = spawn(process.execPath, [next, "dev", "--port", String(webPort)], {
  stdio: ["ignore", "inherit", "inherit"], detached: process.platform !== "win32", env: { ...process.env, TAILRACE_URL: url },
});
console.log(`chat: http://localhost:${webPort}   what Tailrace stores: ${url}/inspect`);

let stopping = false;
function end(error) {
  if (error) console.error(error.message);
  if (!stopping) process.exitCode = 1; // not by a signal
  stopping = true;
  if (tailrace.pid !== undefined && tailrace.exitCode === null && tailrace.signalCode === null) tailrace.kill();
  else web.kill();
}
for (const program of [tailrace, web]) program.on("error", end).on("exit", () => end());
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    stopping = true;
    end();
  });
}
