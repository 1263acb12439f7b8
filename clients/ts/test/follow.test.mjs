import assert from "node:assert/strict";
import { test } from "node:test";
import { createSessionStore, followSession, TailraceError, textOf } from "../dist/index.js";
import { events, fakeEdge, snapshot, wait } from "./fake_edge.mjs";

const collect = async (options) => {
  const all = [];
  for await (const event of followSession({ url: "https://edge.test/", session: "s1", ...options })) all.push(event);
  return all;
};

test("a stream that a proxy ends early is continued, and repeated events are dropped", async () => {
  const edge = fakeEdge([
    { json: snapshot(3) },
    { body: [events(3, 4, 5)], end: "clean" }, // 3 was in the snapshot
    { body: ["retry: 1\n\n" + events(5, 6) + "id: 7-x\n\n", 'id: 8-x\ndata: {"type":"end"'], end: "error" },
    { body: ['id: 8-x\ndata: {"type":"end","finalOutput":1}\n\n'], end: "clean" },
  ]);
  const retries = [];
  const all = await collect({ fetch: edge.fetch, onRetry: ({ attempt }) => retries.push(attempt) });
  assert.deepEqual(all.map((event) => event.id), ["3", "4-x", "5-x", "6-x", "8-x"]);
  assert.deepEqual(edge.requests.map((request) => request.path), [
    "/v1/sessions/s1/snapshot", "/v1/sessions/s1/events?after=3", "/v1/sessions/s1/events?after=5-x", "/v1/sessions/s1/events?after=7-x",
  ]);
  assert.deepEqual(retries, [1, 1]);
});

test("an unavailable edge is asked again, not before Retry-After; other errors are final", async () => {
  const edge = fakeEdge([{ status: 503, headers: { "Retry-After": "1" } }, { throws: new TypeError("network") }, { status: 204 }]);
  const delays = [];
  assert.deepEqual(await collect({ cursor: "9-a", fetch: edge.fetch, onRetry: ({ delay }) => delays.push(delay) }), []);
  assert.ok(delays[0] >= 1000, `${delays}`);
  const refused = fakeEdge([{ status: 403, json: { title: "no", code: "FORBIDDEN" } }]);
  await assert.rejects(collect({ cursor: "start", fetch: refused.fetch }), (error) => error instanceof TailraceError && error.status === 403 && error.code === "FORBIDDEN");
});

test("a lost cursor is reported, and the snapshot is loaded once for it", async () => {
  const edge = fakeEdge([
    { body: ['retry: 1\n\nid: 40-x\ndata: {"type":"truncated","reason":"recreated","resumeFrom":40}\n\n' + events(51)], end: "open" },
    { json: snapshot(40) },
    { status: 410, json: { code: "HISTORY_EXPIRED" } },
    { json: snapshot(60) },
    { status: 204 },
  ]);
  const all = await collect({ cursor: "900-old", fetch: edge.fetch });
  assert.deepEqual(all.map((event) => [event.type, event.id]), [["truncated", "40-x"], ["snapshot", "40"], ["truncated", "40"], ["snapshot", "60"]]);
});

test("an answer whose beginning has expired is loaded as part of the snapshot", async () => {
  const edge = fakeEdge([
    { json: snapshot(40) },
    { body: ['id: 70\ndata: {"type":"truncated","reason":"expired","resumeFrom":70}\n\n' + events(71)], end: "open" },
    { json: snapshot(40) },
    { json: snapshot(72) },
    { status: 204 },
  ]);
  const all = await collect({ fetch: edge.fetch });
  assert.deepEqual(all.map((event) => [event.type, event.id]), [["snapshot", "40"], ["truncated", "70"], ["snapshot", "72"]]);
  assert.deepEqual(edge.requests.map((request) => request.path.slice("/v1/sessions/s1/".length)), ["snapshot", "events?after=40", "snapshot", "snapshot?partial=1", "events?after=72"]);
});

test("a cleanup before the end of a snapshot is not reloaded indefinitely", async () => {
  const cleanup = 'id: 20-x\ndata: {"type":"truncated","truncatedAtStep":0,"atSequence":19}\n\n';
  // The removed chunk of step 1 stays in the log, as if the deletion never ended.
  const edge = fakeEdge([{ body: [events(19) + cleanup], end: "open" }, ...Array.from({ length: 10 }, () => [{ json: snapshot(18) }, { body: [events(19) + cleanup + 'id: 21-x\ndata: {"type":"end"}\n\n'], end: "clean" }]).flat()]);
  const all = await collect({ cursor: "18", fetch: edge.fetch });
  assert.equal(all.at(-1).type, "end");
  assert.equal(all.filter((event) => event.type === "snapshot").length, 5);
});

test("a silent connection is replaced", async () => {
  const edge = fakeEdge([{ body: ["retry: 1\n\n: beat\n\n"], end: "open" }, { status: 204 }]);
  assert.deepEqual(await collect({ cursor: "1", fetch: edge.fetch, idleTimeout: 50 }), []);
});

test("the signal and the end of the loop close the connection", async () => {
  const stop = new AbortController();
  const edge = fakeEdge([{ body: [events(1)], end: "open" }, { body: [events(1)], end: "open" }]);
  const reason = new Error("stopped");
  await assert.rejects(async () => {
    for await (const _ of followSession({ url: "https://edge.test", session: "s1", cursor: "start", fetch: edge.fetch, signal: stop.signal })) stop.abort(reason);
  }, reason);
  for await (const _ of followSession({ url: "https://edge.test", session: "s1", cursor: "start", fetch: edge.fetch })) break;
  assert.deepEqual(edge.requests.map((request) => request.signal.aborted), [true, true]);
});

test("a store shows many events together", async () => {
  const edge = fakeEdge([{ json: snapshot(0) }, { body: Array.from({ length: 100 }, (_, i) => events(i + 1)), end: "open" }]);
  const store = createSessionStore({ url: "https://edge.test", session: "s1", fetch: edge.fetch });
  let notified = 0;
  store.subscribe(() => notified++);
  await wait(() => textOf(store.getSnapshot().tree.agents.s1).length === 100);
  assert.ok(notified < 20, `${notified} notifications`);
  assert.equal(store.getSnapshot().connection, "open");
  store.close();
  await wait(() => edge.requests[1].signal.aborted);
});
