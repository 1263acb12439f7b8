import assert from "node:assert/strict";
import { test } from "node:test";
import { createResumableStreamContext, TailraceError } from "../dist/resumable.js";
import { fakeEdge, snapshot } from "./fake_edge.mjs";

const frames = ["start", "text-delta", "finish"].map((type) => `data: {"type":"${type}"}\n\n`);
const all = [...frames, "data: [DONE]\n\n"].join("");
const over = (edge, waitUntil = null) => createResumableStreamContext({ waitUntil, url: "http://edge.test", fetch: edge.fetch });
const read = async (stream) => {
  let text = "";
  for await (const piece of stream) text += piece;
  return text;
};
const is = (status) => ({ json: { ...snapshot(3), status } });
const unknown = { status: 404, json: { title: "unknown", code: "STREAM_NOT_FOUND" } };
const never = () => assert.fail("a second stream is made");

test("a stream is in progress, complete or unknown", async () => {
  const edge = fakeEdge([is("active"), is("paused"), is("ended"), is("failed"), unknown, { status: 403, json: { title: "forbidden", code: "FORBIDDEN" } }]);
  const context = over(edge);
  for (const want of [true, "DONE", "DONE", "DONE", null]) assert.equal(await context.hasExistingStream("a/b"), want);
  await assert.rejects(context.hasExistingStream("a/b"), (error) => error instanceof TailraceError && error.code === "FORBIDDEN");
  assert.equal(edge.requests[0].path, "/v1/sessions/a%2Fb/snapshot?messages=1");
  const over2 = over(fakeEdge([is("ended"), unknown, is("ended")]));
  assert.equal(await over2.resumeExistingStream("s"), null);
  assert.equal(await over2.resumeExistingStream("s"), undefined);
  assert.equal(await over2.resumableStream("s", never), null);
});

test("after a cut the events are read again, and each is returned once, without the skipped characters", async () => {
  for (const skip of [0, 3, frames[0].length, frames[0].length + 5, all.length - 1]) {
    const cut = { body: [`: stream-open\n\nid: 1\n${frames[0]}`, `id: 2\n${frames[1]}${frames[2].slice(0, 9)}`], end: "error" };
    const edge = fakeEdge([is("active"), cut, { body: [frames[0]], end: "clean" }, { status: 503 }, { body: [all], end: "clean" }]);
    assert.equal(await read(await over({ fetch: edge.fetch }).resumableStream("s", never, skip)), all.slice(skip));
  }
});

test("a refusal ends the stream with its error, and a stream that is not read any more closes its connection", async () => {
  await assert.rejects(read(await over(fakeEdge([is("active"), unknown])).resumeExistingStream("s")), { code: "STREAM_NOT_FOUND" });
  const edge = fakeEdge([is("active"), { body: [frames[0]], end: "open" }]);
  const stream = await over(edge).resumeExistingStream("s");
  const reader = stream.getReader();
  assert.equal((await reader.read()).value, frames[0]);
  await reader.cancel();
  assert.equal(edge.requests[1].signal.aborted, true);
});

test("a stream that another request has created meanwhile is not made twice", async () => {
  const edge = fakeEdge([unknown, { status: 409, json: { title: "open", code: "RUN_OPEN" } }, is("active"), { body: [all], end: "clean" }]);
  assert.equal(await read(await over(edge).resumableStream("s", never)), all);
  assert.equal(await over(fakeEdge([{ status: 409, json: { title: "open", code: "RUN_OPEN" } }])).createNewResumableStream("s", never), null);
});
