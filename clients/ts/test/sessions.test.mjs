import assert from "node:assert/strict";
import { test } from "node:test";
import { answer, messages, sessions, snapshot, stopRun, TailraceError } from "../dist/index.js";
import { fakeEdge, snapshot as page } from "./fake_edge.mjs";

const at = (edge, more) => ({ url: "http://edge.test", session: "a/b", fetch: edge.fetch, ...more });

test("each function sends its members, and returns what the edge returns", async () => {
  const edge = fakeEdge([
    { json: page(7) }, { json: { messages: [], before: "m1" } }, { json: { sessions: [], before: null } }, { status: 202, json: { runId: "r1" } }, { status: 204 }, { status: 204 }, { status: 204 },
  ]);
  assert.equal((await snapshot(at(edge, { at: 7, messages: 2, partial: true, view: "public" }))).streamSequence, 7);
  assert.equal((await messages(at(edge, { before: "m2", limit: 10, branch: "m9", partial: false }))).before, "m1");
  assert.equal((await sessions(at(edge, { status: "active", since: new Date(0), waiting: true, q: "x" }))).before, null);
  assert.equal(await stopRun(at(edge, { reason: "enough", agentType: "support" })), "r1");
  assert.equal(await stopRun(at(edge)), undefined);
  await answer(at(edge, { answer: { toolCallId: "c1", result: { city: "Oslo" } } }));
  await answer(at(edge, { answer: { toolCallId: "c2", approvalId: "a", approved: false, reason: "no" } }));
  assert.deepEqual(edge.requests.map(({ path }) => path), [
    "/v1/sessions/a%2Fb/snapshot?view=public&at=7&messages=2&partial=1",
    "/v1/sessions/a%2Fb/messages?before=m2&limit=10&branch=m9",
    "/v1/sessions?status=active&since=1970-01-01T00%3A00%3A00.000Z&waiting=1&q=x",
    "/api/chat/a%2Fb/stop?agentType=support", "/api/chat/a%2Fb/stop", "/api/chat/a%2Fb/answers", "/api/chat/a%2Fb/answers",
  ]);
  assert.deepEqual(edge.requests.slice(3).map(({ body }) => JSON.parse(body)), [
    { reason: "enough" }, {},
    { kind: "client-tool-result", toolCallId: "c1", result: { city: "Oslo" } },
    { kind: "approval-response", toolCallId: "c2", approvalId: "a", approved: false, reason: "no" },
  ]);
});

test("a request is repeated while the edge does not respond", async () => {
  const edge = fakeEdge([{ throws: new TypeError("fetch failed") }, { status: 503, json: { title: "later" } }, { body: ['{"streamSeq'], end: "error" }, { json: page(3) }]);
  const retries = [];
  assert.equal((await snapshot(at(edge, { onRetry: ({ attempt }) => retries.push(attempt) }))).streamSequence, 3);
  assert.deepEqual(retries, [1, 2, 3]);
});

test("a refusal is an error at once, and so is an edge that asks for a long wait", async () => {
  const problem = { error: "bad", title: "bad", detail: "there is no such thing", code: "UNKNOWN_PARAMETER", line: 3, stored: 2, nearest: "limit" };
  const edge = fakeEdge([{ status: 400, json: problem }, { status: 503, headers: { "Retry-After": "60" }, json: { title: "busy", code: "BUSY" } }]);
  const refused = await snapshot(at(edge)).catch((error) => error);
  assert.ok(refused instanceof TailraceError);
  assert.equal(refused.message, "400 bad: there is no such thing; did you mean limit? (line 3, 2 stored)");
  assert.deepEqual([refused.detail, refused.line, refused.nearest, refused.code], [problem.detail, 3, "limit", "UNKNOWN_PARAMETER"]);
  await assert.rejects(sessions(at(edge)), { status: 503, code: "BUSY" });
});

test("a name that the text has already is not named twice", async () => {
  const edge = fakeEdge([{ status: 400, json: { title: "bad", detail: 'there is no "limt"; did you mean "limit"?', nearest: "limit" } }]);
  await assert.rejects(snapshot(at(edge)), { message: '400 bad: there is no "limt"; did you mean "limit"?', nearest: "limit" });
});

test("without a response the error says that the edge is not reachable", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let attempts = 0;
  const pending = snapshot({ url: "http://edge.test", session: "s1", onRetry: () => setImmediate(() => t.mock.timers.tick(10_000)), fetch: async () => { attempts++; throw new TypeError("fetch failed"); } });
  await assert.rejects(pending, (error) => error instanceof TailraceError && error.code === "UNREACHABLE" && error.status === 0 && error.message.includes("http://edge.test"));
  assert.equal(attempts, 2);
});

test("a signal ends a request with its reason", async () => {
  const stopped = new AbortController();
  const edge = fakeEdge([{ throws: new TypeError("fetch failed") }]);
  await assert.rejects(snapshot(at(edge, { signal: stopped.signal, onRetry: () => stopped.abort(new Error("enough")) })), { message: "enough" });
});

test("an answer whose response was lost is the first one, another one is not", async () => {
  const sent = { toolCallId: "c1", result: [1, { a: null }] };
  const conflict = (first) => ({ status: 409, json: { error: "answered already", code: "ALREADY_ANSWERED", first } });
  const first = { kind: "client-tool-result", ...sent, at: 5 };
  const lost = { throws: new TypeError("fetch failed") };
  await answer(at(fakeEdge([lost, conflict(first)]), { answer: sent }));
  await assert.rejects(answer(at(fakeEdge([lost, conflict({ ...first, result: 2 })]), { answer: sent })), { code: "ALREADY_ANSWERED" });
  await assert.rejects(answer(at(fakeEdge([conflict(first)]), { answer: sent })), { code: "ALREADY_ANSWERED", message: "answered already" });
});
