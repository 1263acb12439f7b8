// Runs a graph of LangGraph, and writes its events into a session as they come: node langgraph.mjs session
import { publishRun } from "tailrace-client";
import { graph } from "./graph.mjs"; // what compile() returned

const session = process.argv[2] ?? "s1";
const prompt = "Where is my parcel?";
// #region pipe
async function* lines(events) {
  for await (const event of events) yield JSON.stringify(event) + "\n";
}
const run = await publishRun({ url: process.env.TAILRACE_URL ?? "http://127.0.0.1:4480", session, dialect: "langgraph", input: [{ content: prompt }] });
const input = { messages: [{ role: "user", content: prompt }] };
const { status } = await run.pipe(lines(await graph.streamEvents(input, { version: "v3" })), "ndjson");
console.log(status); // "ended", "failed", or "paused" by an interrupt
// #endregion
