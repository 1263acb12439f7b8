// Writes a run. The argument is JSON: the options of publishRun. Each line of the standard input is a command: {"chunk":…}, {"flush":true}, {"end":…}, {"fail":…} or
// {"pause":…}. Each result is a line.
import { createInterface } from "node:readline";
import { publishRun, TailraceError } from "tailrace-client";

const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");
let retries = 0;
try {
  const run = await publishRun({ ...JSON.parse(process.argv[2]), onRetry: () => retries++ });
  write({ type: "open", id: run.runId, sequence: run.storedBefore });
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    if (command.chunk !== undefined) await run.write(command.chunk);
    if (command.flush) write({ type: "flush", id: await run.flush() });
    if (command.end !== undefined) write({ type: "end", status: (await run.end(command.end)).status });
    if (command.fail !== undefined) write({ type: "fail", status: (await run.fail(command.fail)).status });
    if (command.pause !== undefined) write({ type: "pause", status: (await run.pause(command.pause)).status });
  }
  write({ type: "return", retries });
} catch (error) {
  write({ type: "throw", error: String(error), code: error instanceof TailraceError ? error.code : "", retries });
}
