// Follows a session and writes each event as a line. The argument is JSON: the options, with the functions that a test needs.
//   tokens: the tokens that getToken returns, one after the other
//   stopAfter: ends the process after so many events
import { followSession, TailraceError } from "tailrace-client";

const { tokens, stopAfter, ...options } = JSON.parse(process.argv[2]);
const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");
let retries = 0;
let refreshes = 0;
if (tokens !== undefined) {
  options.getToken = ({ refresh }) => {
    if (refresh) refreshes++;
    return tokens.length > 1 ? tokens.shift() : tokens[0];
  };
}
options.onRetry = ({ attempt, delay, error }) => { retries++; if (process.env.TRACE) process.stderr.write(`${attempt} ${delay} ${error} ${error?.cause}\n`); };
let count = 0;
try {
  for await (const event of followSession(options)) {
    write(event);
    if (++count === stopAfter) break;
  }
  write({ type: "return", retries, refreshes });
} catch (error) {
  write({ type: "throw", error: String(error), code: error instanceof TailraceError ? `${error.status} ${error.code}` : "", retries, refreshes });
}
