import assert from "node:assert/strict";
import { test } from "node:test";
import { publishRun } from "../dist/index.js";
import { fakeEdge } from "./fake_edge.mjs";

const opened = { status: 201, json: { runId: "r", epoch: 1, next: 1, position: "1" } };
const lines = (...all) => ({ body: all.map((line) => JSON.stringify(line) + "\n"), end: "clean" });
const pieces = ["data: a\n\nda", "ta: b\n\n"];
const response = async function* () { yield* pieces; };
test("a response is sent again from its first piece, with another token after the first one has expired", async () => {
  const { fetch, requests } = fakeEdge([
    opened,
    { status: 401, json: { title: "unauthenticated" } },
    lines({ stored: 1, position: "2" }, { error: "the credential expires", code: "CREDENTIAL_EXPIRED", status: 401, stored: 1 }),
    lines({ stored: 1 }), // was cut
    lines({ done: true, stored: 3, next: 4, position: "5" }),
    { json: { status: "ended" } },
  ]);
  const tokens = [], sent = [];
  const run = await publishRun({
    url: "http://edge.test", session: "s", runId: "r", dialect: "openai",
    fetch: async (url, init) => {
      if (String(url).includes("/chunks")) sent.push(await new Response(init.body).text());
      return fetch(url, init);
    },
    getToken: ({ refresh }) => { tokens.push(refresh); return `t${tokens.length}`; },
  });
  assert.equal((await run.pipe(response())).status, "ended");
  assert.deepEqual(tokens, [false, true, true]);
  assert.deepEqual(sent, Array(4).fill(pieces.join("")));
  assert.ok(requests.filter(({ path }) => path.includes("/chunks")).every(({ path }) => path.includes("dialect=openai") && path.includes("firstLine=1")));
  assert.equal(requests.at(-2).headers.get("Authorization"), "Bearer t3");
});

test("a refusal that was cut is not the end: its code could say that a later request writes the run", async () => {
  const { fetch, requests } = fakeEdge([
    opened, { status: 409, body: ['{"code":"SUPERS'], end: "error" }, lines({ done: true, stored: 3, next: 4 }), { json: { status: "ended" } },
  ]);
  const run = await publishRun({ url: "http://edge.test", session: "s", runId: "r", dialect: "openai", fetch });
  assert.equal((await run.pipe(response())).status, "ended");
  assert.equal(requests.filter(({ path }) => path.includes("/chunks")).length, 2);
});

test("the next response begins behind the one before", async () => {
  const { fetch, requests } = fakeEdge([
    opened, lines({ done: true, stored: 3, next: 4 }), { json: { status: "paused" } }, lines({ done: true, stored: 6, next: 7 }), { json: { status: "ended" } },
  ]);
  const run = await publishRun({ url: "http://edge.test", session: "s", runId: "r", dialect: "mastra", fetch });
  await run.pipe(response());
  await run.pipe(response(), "ndjson");
  const paths = requests.filter(({ path }) => path.includes("/chunks")).map(({ path, headers }) => [new URLSearchParams(path.split("?")[1]).get("firstLine"), headers.get("Content-Type")]);
  assert.deepEqual(paths, [["1", "text/event-stream"], ["4", "application/x-ndjson"]]);
});

test("an error of the source is thrown, and a run has one kind of input", async () => {
  const { fetch } = fakeEdge([opened]);
  const run = await publishRun({
    url: "http://edge.test", session: "s", runId: "r", dialect: "openai",
    fetch: async (url, init) => (String(url).includes("/chunks") ? new Response(await new Response(init.body).text()) : fetch(url, init)),
  });
  await assert.rejects(run.pipe((async function* () { yield "data: a\n\n"; throw new Error("the model is gone"); })()), /the model is gone/);
  await assert.rejects(run.write({ type: "text_delta", delta: "x" }), /use pipe/);
  const native = await publishRun({ url: "http://edge.test", session: "s", runId: "r", fetch: fakeEdge([opened]).fetch });
  await assert.rejects(native.pipe(response()), /use write/);
});

test("warnings of the last line are printed, or given to onWarning", async () => {
  const warnings = [{ line: 1, member: "fileName", nearest: "filename" }, { line: 2, member: "toolCallId" }];
  const texts = ["line 1 is stored, but its member fileName is probably mistaken; did you mean filename?", "line 2 is stored, but its member toolCallId is probably mistaken"];
  const publish = async (options) => {
    const { fetch } = fakeEdge([opened, lines({ done: true, stored: 2, next: 3, warnings }), { json: { status: "ended" } }]);
    const run = await publishRun({ url: "http://edge.test", session: "s", runId: "r", dialect: "openai", fetch, ...options });
    await run.pipe(response());
  };
  const printed = [], got = [], { warn } = console;
  console.warn = (...of) => printed.push(of);
  try {
    await publish({});
    await publish({ onWarning: (...of) => got.push(of) });
  } finally {
    console.warn = warn;
  }
  assert.deepEqual(printed, texts.map((text, i) => [text, warnings[i]]));
  assert.deepEqual(got, printed);
});
