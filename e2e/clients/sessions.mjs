// Uses each of the single requests against an edge with the demo agent. The argument is JSON: the options of a connection. The last line is the result.
import assert from "node:assert/strict";
import { answer, messages, sessions, snapshot, stopRun, TailraceError, followSession } from "tailrace-client";

const connection = JSON.parse(process.argv[2]);
const drafts = { ...connection, session: "drafts" };
const story = { ...connection, session: "story" };
const say = (session, text) => fetch(`${connection.url}/api/chat/${session}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text }) });
const refusal = async (request) => {
  const error = await request.then(() => undefined, (error) => error);
  assert.ok(error instanceof TailraceError, String(error));
  return error;
};

assert.equal((await refusal(snapshot(drafts))).code, "STREAM_NOT_FOUND");
await (await say("drafts", "Delete my old drafts.")).text(); // it ends when the run waits
const waiting = await snapshot(drafts);
assert.equal(waiting.status, "paused");
const [{ toolCallId, approvalId, kind }] = waiting.pendingCalls;
assert.equal(kind, "approval");
await answer({ ...drafts, answer: { toolCallId, approvalId, approved: false, reason: "not these" } });
const second = await refusal(answer({ ...drafts, answer: { toolCallId, approvalId, approved: true } }));
assert.equal(second.code, "ALREADY_ANSWERED");
assert.equal(second.problem.first.approved, false);
for await (const event of followSession({ ...drafts, cursor: String(waiting.streamSequence) })) assert.notEqual(event.type, "fail"); // to the end
const ended = await snapshot(drafts);
assert.equal(ended.status, "ended");
assert.deepEqual((await snapshot({ ...drafts, at: waiting.streamSequence })).pendingCalls, waiting.pendingCalls);
const page = await messages({ ...drafts, limit: 1 });
assert.deepEqual(page.messages, ended.messages.slice(-1));
assert.equal((await messages({ ...drafts, before: page.before })).messages[0].role, "user");

const response = await say("story", "Tell me a long story about logs.");
const reader = response.body.getReader();
await reader.read();
const runId = await stopRun({ ...story, reason: "enough" });
assert.ok(runId, "the story was not stopped");
while (!(await reader.read()).done);
assert.equal(await stopRun(story), undefined);

let list;
do list = await sessions({ ...connection, limit: 1 });
while (list.before === null); // until both are saved
const other = await sessions({ ...connection, before: list.before });
assert.deepEqual([...list.sessions, ...other.sessions].map(({ session }) => session.id).sort(), ["drafts", "story"]);
assert.deepEqual((await sessions({ ...connection, q: "story", since: new Date(0), until: new Date(Date.now() + 60_000) })).sessions.map(({ session }) => session.id), ["story"]);
const wrong = await refusal(sessions({ ...connection, limit: 1_000 }));
assert.equal(wrong.message, `400 ${wrong.problem.title}: ${wrong.detail}`);
process.stdout.write(JSON.stringify({ type: "return", id: runId }) + "\n");
