// Writes the standard input, a response of an agent, into a run. The argument is JSON: the options of publishRun. The result is a line.
import { publishRun, TailraceError } from "tailrace-client";

const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");
let retries = 0;
try {
  const run = await publishRun({ ...JSON.parse(process.argv[2]), onRetry: () => retries++ });
  const { status } = await run.pipe(process.stdin);
  write({ type: "return", status, retries });
} catch (error) {
  write({ type: "throw", error: String(error), code: error instanceof TailraceError ? error.code : "", retries });
}
