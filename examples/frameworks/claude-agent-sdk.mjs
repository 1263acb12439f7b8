// Runs the Claude Agent SDK, and writes its messages into a session as they come: node claude-agent-sdk.mjs session
import { query } from "@anthropic-ai/claude-agent-sdk";
import { publishRun } from "tailrace-client";

const session = process.argv[2] ?? "s1";
const prompt = "Where is my parcel?";
// #region pipe
async function* lines(messages) {
  for await (const message of messages) yield JSON.stringify(message) + "\n";
}
const run = await publishRun({ url: process.env.TAILRACE_URL ?? "http://127.0.0.1:4480", session, dialect: "anthropic", input: [{ content: prompt }] });
const { status } = await run.pipe(lines(query({ prompt, options: { includePartialMessages: true } })), "ndjson");
console.log(status); // "ended", or "failed"
// #endregion
