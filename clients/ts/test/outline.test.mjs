import assert from "node:assert/strict";
import { test } from "node:test";
import { Outline, outlineOf, withoutRemoved } from "../dist/log.js";

/** A log that numbers its records as the server does. */
class Log {
  records = [];
  ordinals = new Map();

  add(session, type, members = {}, step = 1) {
    const ordinal = (this.ordinals.get(session) ?? 0) + 1;
    this.ordinals.set(session, ordinal);
    const sequence = (this.records.at(-1)?.sequence ?? 0) + 1;
    const data = JSON.stringify({ type, agentId: session, agentType: `a-${session}`, timestamp: 0, step, ...members });
    this.records.push({ sequence, session, ordinal, epoch: 1, time: 1000 + 10 * sequence, data });
    return this.records.at(-1);
  }
}

const call = (id, name, members = {}) => ({ toolCallId: id, toolName: name, ...members });
const named = (outline, kind) => outline.nodes.filter((node) => node.kind === kind);

test("an outline has each kind of node in the node that it is part of", () => {
  const log = new Log();
  log.add("s1", "run_started", { runId: "r1", epoch: 1, mode: "execute", input: [{ content: "question" }], by: { subject: "u" } }, 0);
  log.add("s1", "step_start");
  log.add("s1", "thinking", { content: "h", isComplete: false });
  log.add("s1", "thinking", { content: "hm", isComplete: true });
  log.add("s1", "text_delta", { delta: "Look" });
  log.add("s1", "text_delta", { delta: "ing." });
  log.add("s1", "text_delta", { delta: "Again.", part: { begins: true } });
  log.add("s1", "tool_arg_stream_start", call("c1", "find"));
  log.add("s1", "tool_arg_stream_delta", { toolCallId: "c1", delta: '{"n":12345678901234567890}' });
  log.add("s1", "tool_start", call("c1", "find", { arguments: { n: 1 } }));
  log.records.at(-1).data = log.records.at(-1).data.replace('{"n":1}', '{"n":12345678901234567890, "1":0}');
  log.add("s1", "tool_end", call("c1", "find", { result: null, error: "", errorCode: "x" }));
  log.add("s1", "subagent_start", { subAgentType: "writer", subSessionId: "s2", callId: "c2" });
  log.add("s2", "run_started", { runId: "r2", epoch: 1, mode: "execute", input: [], parent: { sessionId: "s1", callId: "c2" } }, 0);
  log.add("s2", "text_delta", { delta: "A poem." });
  log.add("s2", "stream_end", { streamId: "s2", finalOutput: { ok: true } });
  log.add("s1", "subagent_end", { subAgentType: "writer", subSessionId: "s2", callId: "c2", result: { error: "no" } });
  log.add("s1", "tool_approval_request", call("c3", "delete", { approvalId: "p", input: {} }));
  log.add("s1", "step_end", { usage: { inputTokens: 3, outputTokens: 2 }, model: "m", finishReason: "stop" });
  log.add("s1", "run_paused", { runId: "r1", reason: "suspended_client_tool", pendingToolName: "delete", pendingToolCallId: "c3" });
  log.add("s1", "stream_paused", {});
  log.add("s1", "run_started", { runId: "r3", epoch: 2, mode: "with_confirmation", input: [] }, 0);
  log.add("s1", "tool_approval_response", call("c3", "delete", { approvalId: "p", approved: false, reason: "no" }));
  log.add("s1", "future_type", { any: 1 });
  log.add("s1", "stream_failed", { error: "out of memory" });
  const outline = outlineOf(log.records);

  const kinds = outline.nodes.map(({ id, kind, parent }) => `${id} ${kind} in ${parent}`);
  assert.deepEqual(kinds, [
    "1 run in ", "1.0 user in 1", "2 step in 1", "3 reasoning in 2", "5 text in 2", "7 text in 2", "8 call in 2", "12 subagent in 2", "13 run in 12", "14 text in 13",
    "17 call in 2", "19 wait in 2", "21 run in ", "23 other in 21",
  ]);
  const [reasoning] = named(outline, "reasoning");
  assert.deepEqual([reasoning.text, reasoning.records], ["hm", 2]);
  assert.deepEqual(named(outline, "text").map((node) => node.text), ["Looking.", "Again.", "A poem."]);
  const [found, deleted] = named(outline, "call");
  assert.deepEqual([found.status, found.error, found.errorCode, found.input], ["failed", "", "x", '{"n":12345678901234567890, "1":0}']);
  assert.deepEqual([deleted.status, deleted.reason, deleted.approvalId], ["denied", "no", "p"]);
  const [writer] = named(outline, "subagent");
  assert.deepEqual([writer.status, writer.output, writer.to], ["failed", '{"error":"no"}', 1160]);
  const [first, second, third] = named(outline, "run");
  assert.deepEqual([first.status, first.by, second.status, second.output, third.status, third.error], ["continued", "u", "done", '{"ok":true}', "failed", "out of memory"]);
  assert.deepEqual(named(outline, "step")[0].usage, { inputTokens: 3, outputTokens: 2 });
  const [wait] = named(outline, "wait");
  assert.deepEqual([wait.reason, wait.tool, wait.from, wait.to], ["suspended_client_tool", "delete", 1190, 1210]);
  assert.deepEqual(outline.agents.map(({ session, type, status }) => `${session} ${type} ${status}`), ["s1 a-s1 failed", "s2 writer ended"]);
});

test("a worker that takes a run over closes what the lost attempt had open", () => {
  const log = new Log();
  log.add("s1", "run_started", { runId: "r1", epoch: 1, mode: "execute", input: [] }, 0);
  log.add("s1", "step_start");
  log.add("s1", "text_delta", { delta: "lost" });
  const seen = new Outline();
  for (const record of log.records) assert.ok(seen.apply(record));
  log.add("s1", "run_started", { runId: "r1", epoch: 2, mode: "takeover", input: [] }, 0);
  assert.ok(seen.apply(log.records.at(-1)));
  assert.deepEqual(named(seen, "run").map((run) => run.status), ["superseded", "running"]);
  assert.equal(named(seen, "step")[0].status, "unfinished");
  const cleanup = { truncatedAtStep: 0, minSequence: 1, fromSequence: 2, atSequence: 4, removed: [{ first: 2, last: 3 }] };
  assert.ok(!seen.apply(log.add("s1", "truncated", cleanup, 0)));
  const left = outlineOf(log.records);
  assert.deepEqual(left.nodes.map((node) => node.kind), ["run", "run", "removed"]);
  assert.equal(named(left, "removed")[0].count, 2);
});

test("a fork begins with one row that says what it continues", () => {
  const log = new Log();
  log.add("f1", "session_seed", { form: 1, messages: '{"index":0}' }, 0);
  assert.deepEqual(named(outlineOf(log.records), "forked").map((node) => node.title), ["incomplete fork"]);
  log.add("f1", "session_seed", { form: 1, messages: '{"index":1}' }, 0);
  log.add("f1", "session_forked", { origin: { session: "s1", sequence: 4117, step: 3, depth: 1 }, messages: 34 }, 0);
  log.add("f1", "run_started", { runId: "r2", epoch: 2, mode: "continue", input: [] }, 0);
  const outline = outlineOf(log.records);
  const [fork] = named(outline, "forked");
  assert.deepEqual([fork.id, fork.title, fork.records, fork.from, fork.to], ["1", "forked from s1 at #4117: 34 messages", 3, 1010, 1030]);
  assert.deepEqual(outline.nodes.map((node) => node.kind), ["forked", "run"]);
});

test("an id that is used again is another call", () => {
  const log = new Log();
  for (const result of ["one", "two"]) {
    log.add("s1", "tool_start", call("c", "find", { arguments: {} }));
    log.add("s1", "tool_end", call("c", "find", { result }));
  }
  log.add("s1", "tool_end", call("c", "find", { result: "three" }));
  assert.deepEqual(named(outlineOf(log.records), "call").map((node) => node.output), ['"one"', '"two"', '"three"']);
});

test("an error of the input and the end of the call are one call", () => {
  const log = new Log();
  log.add("s1", "tool_arg_stream_start", call("c", "book"));
  log.add("s1", "tool_input_error", call("c", "book", { error: "date: want a day", partialInput: { date: "32 May" } }));
  log.add("s1", "tool_end", call("c", "book", { result: null, error: "the input is not valid" }));
  const calls = named(outlineOf(log.records), "call");
  assert.deepEqual(calls.map(({ status, error, input, records }) => [status, error, input, records]), [["failed", "date: want a day", '{"date":"32 May"}', 3]]);
});

test("the last piece of reasoning is added, or repeats the pieces before it", () => {
  const log = new Log();
  for (const last of ["it.", "wait."]) {
    log.add("s1", "thinking", { content: "wa", isComplete: false });
    log.add("s1", "thinking", { content: last, isComplete: true });
  }
  assert.deepEqual(named(outlineOf(log.records), "reasoning").map((node) => node.text), ["wait.", "wait."]);
});

/** A generator of numbers with a seed. */
function random(seed) {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.trunc((state / 2 ** 32) * n);
  };
}

const makers = [
  (l, s, r, step) => l.add(s, "run_started", { runId: `r${r(3)}`, epoch: 1, mode: ["execute", "takeover", "continue"][r(3)], input: r(2) ? [{ content: "q" }] : [] }, 0),
  (l, s, r, step) => l.add(s, "step_start", {}, step),
  (l, s, r, step) => l.add(s, "step_end", { model: "m" }, step),
  (l, s, r, step) => l.add(s, "text_delta", { delta: "abc".slice(r(3)), ...(r(4) === 0 && { part: { begins: true } }) }, step),
  (l, s, r, step) => l.add(s, "thinking", { content: "xyz".slice(r(4)), isComplete: r(2) === 0 }, step),
  (l, s, r, step) => l.add(s, "tool_arg_stream_start", call(`c${r(3)}`, "t"), step),
  (l, s, r, step) => l.add(s, "tool_arg_stream_delta", { toolCallId: `c${r(3)}`, delta: "{}" }, step),
  (l, s, r, step) => l.add(s, "tool_start", call(`c${r(3)}`, "t", { arguments: { a: [1, { b: "}" }] } }), step),
  (l, s, r, step) => l.add(s, "tool_end", call(`c${r(3)}`, "t", r(2) ? { result: [1] } : { result: null, error: "e" }), step),
  (l, s, r, step) => l.add(s, "tool_approval_request", call(`c${r(3)}`, "t", { approvalId: "p", input: {} }), step),
  (l, s, r, step) => l.add(s, "tool_approval_response", call(`c${r(3)}`, "t", { approvalId: "p", approved: r(2) === 0 }), step),
  (l, s, r, step) => l.add(s, "subagent_start", { subAgentType: "w", subSessionId: ["s1", "s2", "s3"][r(3)], callId: "c0" }, step),
  (l, s, r, step) => l.add(s, "subagent_end", { subAgentType: "w", subSessionId: ["s1", "s2", "s3"][r(3)], callId: "c0", result: r(2) ? 1 : { error: "e" } }, step),
  (l, s, r, step) => l.add(s, "run_paused", { runId: "r0", reason: "x" }, step),
  (l, s) => l.add(s, "stream_paused", {}, 0),
  (l, s) => l.add(s, "stream_active", {}, 0),
  (l, s) => l.add(s, "stream_end", { streamId: s }, 0),
  (l, s) => l.add(s, "stream_failed", { error: "e" }, 0),
  (l, s, r, step) => l.add(s, "run_interrupted", { runId: "r0", checkpointId: null }, step),
  (l, s, r, step) => l.add(s, "state_patch", { patches: [{ op: "remove", path: "/a" }] }, step),
  (l, s, r, step) => l.add(s, "step_committed", { runId: "r0", stepId: "x", checkpointId: "c" }, step),
  (l, s, r, step) => {
    // A cleanup of what the steps above a number wrote since a sequence, as the server does it: control records stay.
    const min = r(l.records.length + 1);
    const kept = ["run_started", "stream_paused", "stream_active", "stream_end", "stream_failed", "truncated"];
    const at = l.records.at(-1)?.sequence ?? 0;
    const removed = l.records.filter((x) => x.session === s && x.sequence > min && !kept.includes(JSON.parse(x.data).type) && JSON.parse(x.data).step > step - 1);
    const ranges = removed.map((x) => ({ first: x.ordinal, last: x.ordinal }));
    if (ranges.length > 0) l.add(s, "truncated", { truncatedAtStep: step - 1, minSequence: min, fromSequence: removed[0].sequence, atSequence: at, removed: ranges }, 0);
  },
];

const dump = (outline) => JSON.stringify([outline.nodes, outline.agents, outline.position]);

/** live folds records as a page does, which gets some of them before a cleanup removes them. */
function live(records) {
  let [outline, seen] = [new Outline(), []];
  for (const record of records) {
    seen.push(record);
    if (outline.apply(record)) continue;
    seen = withoutRemoved(seen);
    outline = outlineOf(seen);
  }
  return outline;
}

test("live, reloaded, and after a cleanup the outline is the same, also under a view without ordinals", () => {
  for (let seed = 1; seed <= 1000; seed++) {
    const [r, log] = [random(seed), new Log()];
    const steps = 5 + r(60);
    for (let i = 0; i < steps; i++) makers[r(makers.length)](log, ["s1", "s2", "s3"][r(3)], r, 1 + r(3));
    const want = dump(outlineOf(log.records));
    assert.equal(dump(live(log.records)), want, `live, seed ${seed}`);
    const stored = withoutRemoved(log.records);
    assert.equal(dump(outlineOf(stored)), want, `reloaded, seed ${seed}`);
    const masked = log.records.map(({ ordinal, epoch, ...record }) => record);
    assert.equal(dump(outlineOf(masked)), want, `under a view, seed ${seed}`);
    for (const node of outlineOf(stored).nodes) {
      assert.ok(node.parent === "" || want.includes(`"id":"${node.parent}"`), `seed ${seed}: ${node.id} is part of ${node.parent}`);
    }
  }
});
