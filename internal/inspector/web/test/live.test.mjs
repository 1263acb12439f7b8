import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { LiveSession } from "../src/live.js";
import { Log } from "./log.mjs";

test("a listener that comes after the records is called", async (t) => {
  const [record] = new Log().add("s", "text_delta", { delta: "a" }).records;
  const server = createServer((request, response) => {
    response.setHeader("Content-Type", "text/event-stream");
    response.write(`id: 1\ndata: {"sequence":1,"session":"s","type":"text_delta","data":${record.data}}\n\n`);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  Object.assign(globalThis, {
    location: { origin: `http://127.0.0.1:${server.address().port}` },
    requestAnimationFrame: (call) => setTimeout(call),
    cancelAnimationFrame: clearTimeout,
  });
  const live = new LiveSession("s");
  t.after(() => live.close());
  await new Promise((resolve) => live.subscribe(() => live.records.length === 1 && resolve()));
  let called = 0;
  live.subscribe(() => called++)();
  assert.equal(called, 1);
});
