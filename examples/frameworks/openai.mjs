// Asks a model behind chat completions, and writes its response into a session as it arrives: MODEL_URL=… MODEL_KEY=… node openai.mjs session
import { publishRun } from "tailrace-client";

const session = process.argv[2] ?? "s1";
const text = "Where is my parcel?";
// #region pipe
const run = await publishRun({ url: process.env.TAILRACE_URL ?? "http://127.0.0.1:4480", session, dialect: "openai", input: [{ content: text }] });
const response = await fetch(`${process.env.MODEL_URL}/chat/completions`, {
  method: "POST",
  headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.MODEL_KEY}` },
  body: JSON.stringify({ model: process.env.MODEL, stream: true, stream_options: { include_usage: true }, messages: [{ role: "user", content: text }] }),
});
if (!response.ok) await run.fail(`the model answers ${response.status}`);
else console.log((await run.pipe(response.body)).status); // "ended", or "paused": the model has called tools
// #endregion
