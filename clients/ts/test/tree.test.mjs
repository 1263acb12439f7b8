import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyTree, reduceTree, textOf, toolsOf } from "../dist/index.js";

let sequence = 0;
const chunk = (agentId, type, members = {}) => ({
  type: "chunk", sequence: ++sequence, id: `${sequence}-a`, chunk: { type, agentId, agentType: "t", timestamp: 0, step: 1, ...members },
});
const fold = (events, tree = emptyTree("s1")) => events.reduce(reduceTree, tree);

test("a tree has the text, the calls and the status of each agent", () => {
  const tree = fold([
    chunk("s1", "run_started", { runId: "r", epoch: 1, mode: "execute", input: [{ content: "question" }] }),
    chunk("s1", "thinking", { content: "hm", isComplete: false }),
    chunk("s1", "thinking", { content: "", isComplete: true }),
    chunk("s1", "text_delta", { delta: "Look" }),
    chunk("s1", "text_delta", { delta: "ing." }),
    chunk("s1", "tool_arg_stream_start", { toolCallId: "c1", toolName: "call_writer" }),
    chunk("s1", "tool_arg_stream_delta", { toolCallId: "c1", delta: '{"a":1}' }),
    chunk("s1", "tool_start", { toolCallId: "c1", toolName: "call_writer", arguments: { a: 1 } }),
    chunk("s1", "subagent_start", { subAgentType: "writer", subSessionId: "s2", callId: "c1" }),
    chunk("s2", "text_delta", { delta: "A poem." }),
    chunk("s2", "tool_approval_request", { toolCallId: "c1", toolName: "delete", approvalId: "x", input: { b: 2 } }),
    { type: "status", status: "paused", id: "90-a" },
    chunk("s2", "tool_approval_response", { toolCallId: "c1", toolName: "delete", approvalId: "x", approved: false, reason: "no" }),
    { type: "status", status: "active", id: "92-a" },
    chunk("s1", "subagent_end", { subAgentType: "writer", subSessionId: "s2", callId: "c1", result: "A poem." }),
    chunk("s1", "tool_end", { toolCallId: "c1", toolName: "call_writer", result: "A poem." }),
    chunk("s1", "future_type", { any: 1 }),
    { type: "end", finalOutput: { ok: true }, id: "99-a" },
  ]);
  const { s1, s2 } = tree.agents;
  assert.equal(textOf(s1), "Looking.");
  assert.deepEqual(s1.parts.map((part) => part.kind), ["user", "reasoning", "text", "tool"]);
  assert.deepEqual(toolsOf(s1), [{ kind: "tool", id: "c1", name: "call_writer", state: "done", inputText: '{"a":1}', input: { a: 1 }, output: "A poem.", agent: "s2" }]);
  assert.deepEqual([s1.status, s1.result, s1.children], ["ended", { ok: true }, ["s2"]]);
  assert.equal(textOf(s2), "A poem.");
  assert.deepEqual([s2.status, s2.result, s2.parent], ["ended", "A poem.", { session: "s1", callId: "c1" }]);
  assert.deepEqual([toolsOf(s2)[0].state, toolsOf(s2)[0].error], ["denied", "no"]);
  assert.equal(tree.cursor, "99-a");
});

test("the last piece of reasoning is added, or repeats the pieces before it", () => {
  for (const last of ["it.", "wait."]) {
    const tree = fold([chunk("s1", "thinking", { content: "wa", isComplete: false }), chunk("s1", "thinking", { content: last, isComplete: true })]);
    assert.deepEqual(tree.agents.s1.parts, [{ kind: "reasoning", text: "wait.", complete: true }]);
  }
});

test("an event changes nothing that was returned before", () => {
  let tree = emptyTree("s1");
  const frozen = (value) => (typeof value === "object" && value !== null ? Object.freeze(Object.fromEntries ? (Object.values(value).forEach(frozen), value) : value) : value);
  for (const event of [chunk("s1", "text_delta", { delta: "a" }), chunk("s1", "tool_start", { toolCallId: "c", toolName: "t", arguments: {} }), chunk("s1", "tool_end", { toolCallId: "c", toolName: "t", result: 1 }), chunk("__proto__", "text_delta", { delta: "x" })]) {
    tree = reduceTree(frozen(tree), event);
  }
  assert.equal(textOf(tree.agents.s1), "a");
  assert.equal(textOf(Object.getOwnPropertyDescriptor(tree.agents, "__proto__").value), "x");
});

test("a snapshot replaces the tree", () => {
  const snapshot = {
    state: { n: 1 }, messages: [{ id: "msg-0", role: "user", parts: [] }], streamSequence: 7, status: "paused", session: { id: "s1" }, pendingCalls: [], usage: {},
    children: [{ session: "__proto__", type: "writer", callId: "c", status: "failed", result: { error: {} } }, { session: "s3", callId: "d", status: "running" }],
  };
  const tree = fold([chunk("s1", "text_delta", { delta: "old" }), { type: "snapshot", snapshot, id: "7" }]);
  assert.equal(textOf(tree.agents.s1), "");
  assert.deepEqual(tree.agents.s1.children, ["__proto__", "s3"]);
  assert.equal(Object.getPrototypeOf(tree.agents), Object.prototype);
  assert.equal(tree.agents.s3.status, "active");
  assert.deepEqual([tree.messages, tree.state, tree.cursor], [snapshot.messages, { n: 1 }, "7"]);
});

test("an id that a model uses again is another call", () => {
  const call = (id) => [chunk("s1", "tool_start", { toolCallId: id, toolName: "t", arguments: {} }), chunk("s1", "tool_end", { toolCallId: id, toolName: "t", error: "no", result: null })];
  assert.deepEqual(toolsOf(fold([...call("c"), ...call("c")]).agents.s1).map((c) => c.state), ["failed", "failed"]);
});
