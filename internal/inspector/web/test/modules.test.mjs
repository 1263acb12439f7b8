import assert from "node:assert/strict";
import { test } from "node:test";
import { outlineOf } from "../../../../clients/ts/src/outline.js";
import { claimsOf } from "../src/credential.js";
import { deliveryOf } from "../src/delivery.js";
import { dataOf, fileOf } from "../src/export.js";
import { find, mostHits } from "../src/find.js";
import { forkBody, pointAfter, pointAt, pointBefore } from "../src/fork_request.js";
import { Log } from "./log.mjs";

test("text of records does not end the element that has them", async () => {
  const hostile = `</script><script>alert(1)</script><!-- <script> \u2028 ]]> "`;
  const log = new Log().add("s", "text_delta", { delta: hostile });
  const stored = { session: `s</title><script>`, view: "", at: 0, saved: 1, records: log.records };
  assert.ok(!dataOf(stored).includes("<"));
  assert.deepEqual(JSON.parse(dataOf(stored)), stored);
  const html = await (await fileOf(stored, "run()", "a{}")).text();
  assert.equal(html.match(/<script/g).length, 2);
  assert.equal(html.match(/<\/script/g).length, 2);
  assert.ok(!html.includes("alert(1)</script>") && !html.includes("<!--"));
  assert.match(html, /script-src 'sha256-[A-Za-z0-9+/]{43}='; style-src 'sha256-/);
  await assert.rejects(fileOf(stored, "a = '</SCRIPT >'", ""));
  await assert.rejects(fileOf(stored, "a <!-- b", ""));
  await assert.rejects(fileOf(stored, "", "</style>"));
});

test("claims of a token are read, and nothing of another text", () => {
  const token = (claims) => `x.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.y`;
  assert.deepEqual(claimsOf(token({ sid: "s1", view: "public", exp: 7 })), { session: "s1", view: "public", until: 7000 });
  assert.deepEqual(claimsOf(token({ sid: ["é"], exp: 7 })), { session: "é", view: "", until: 7000 });
  for (const sid of ["*", "p*", ["a", "b"], 5, undefined]) assert.equal(claimsOf(token({ sid, exp: 7 })).session, "");
  for (const text of ["", "a.b.c", "a", "..", token({ sid: "s" }), "x.eyJ"]) assert.equal(claimsOf(text), undefined);
});

test("search finds the texts, inputs, results and errors without case, and special characters are themselves", () => {
  const log = new Log();
  log.add("s", "text_delta", { delta: "Where is my Parcel (1042)?" });
  log.add("s", "tool_start", { toolCallId: "c", toolName: "look_up", arguments: { q: "parcel" } });
  log.add("s", "tool_end", { toolCallId: "c", toolName: "look_up", error: "no PARCEL", result: null });
  const { nodes } = outlineOf(log.records);
  const hits = (text) => [...collect(find(nodes, text))].map(({ node, where, match }) => `${node.id} ${where} ${match}`);
  assert.deepEqual(hits("parcel"), ["1 text Parcel", "2 input parcel", "2 error PARCEL"]);
  assert.deepEqual(hits("(1042)?"), ["1 text (1042)?"]);
  assert.deepEqual(hits(".*"), []);
  const many = new Log();
  for (let i = 0; i < 300; i++) many.add("s", "error", { error: "x" });
  assert.equal(collect(find(outlineOf(many.records).nodes, "X")).length, mostHits);
});

function collect(work) {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

test("a fork is requested at the record before a node, or after the step that has it, and an edited result keeps its digits", () => {
  const log = new Log();
  log.add("s", "run_started", { runId: "r", epoch: 1, mode: "execute", input: [] }, 0);
  log.add("s", "step_start");
  log.add("s", "tool_start", { toolCallId: 'c"1', toolName: "find", arguments: {} });
  log.add("s", "tool_end", { toolCallId: 'c"1', toolName: "find", result: 1 });
  log.add("s", "step_end", {});
  log.add("s", "step_committed", {});
  log.add("s", "text_delta", { delta: "x" }, 2);
  const outline = outlineOf(log.records);
  const call = outline.node("3");
  assert.equal(pointBefore(log.records, call).sequence, 2);
  const point = pointAfter(outline, log.records, call);
  assert.deepEqual([point.sequence, point.at, point.call.callId], [6, `6-${log.records[5].time.toString(36)}`, 'c"1']);
  assert.equal(pointAt(log.records, 0).sequence, 7);
  assert.equal(pointAt([], 0).at, "0");
  const choice = { agentType: "other", next: "message", message: "Why?", output: '{"n":12345678901234567890}' };
  assert.equal(forkBody(point, choice, "a-s"), `{"at":"${point.at}","agentType":"other","message":{"content":"Why?"},"edits":[{"callId":"c\\"1","output":{"n":12345678901234567890}}]}`);
  assert.equal(forkBody(pointAt(log.records, 0), { ...choice, agentType: "a-s", next: "continue" }, "a-s"), `{"at":"${pointAt(log.records, 0).at}","continue":true}`);
  assert.throws(() => forkBody(point, { ...choice, output: "{} , 1" }, "a-s"), SyntaxError);
});

test("the facts of delivery count takeovers, removals, interrupted steps, waits and records of fenced writers", () => {
  const log = new Log();
  log.add("s", "run_started", { runId: "r", epoch: 1, mode: "execute", input: [] }, 0);
  log.add("s", "step_start");
  log.add("s", "run_started", { runId: "r", epoch: 2, mode: "takeover", input: [] }, 0);
  for (const record of log.records.slice(-1)) record.epoch = 2;
  log.add("s", "text_delta", { delta: "late" }); // of the writer with the epoch 1
  log.add("s", "run_paused", { runId: "r", reason: "suspended_client_tool" });
  log.records.at(-1).epoch = 2;
  const facts = deliveryOf(outlineOf(log.records), log.records);
  const { runs, epochs, takeovers, interruptedSteps, waits, fenced } = facts;
  assert.deepEqual([runs.map(({ epoch }) => epoch), epochs, takeovers, interruptedSteps, waits, fenced], [[1, 2], 2, 1, 1, 1, 1]);
});
