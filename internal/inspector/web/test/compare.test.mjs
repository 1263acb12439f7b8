import assert from "node:assert/strict";
import { test } from "node:test";
import { outlineOf } from "../../../../clients/ts/src/outline.js";
import { compare, foldEqual, isDifference, mostNodes } from "../src/compare.js";
import { commonPairs, wordDiff } from "../src/diff.js";
import { jsonChanges } from "../src/json_diff.js";
import { originOf } from "../src/origin.js";
import { Log } from "./log.mjs";

/** run runs a generator to its end, and returns its result and its longest step in milliseconds of the processor. */
function run(work) {
  let longest = 0;
  for (;;) {
    const start = process.cpuUsage();
    const { done, value } = work.next();
    const { user, system } = process.cpuUsage(start);
    longest = Math.max(longest, (user + system) / 1000);
    if (done) return { value, longest };
  }
}

/** best runs work three times, of which some may have a collection of garbage, and returns the result with the shortest longest step. */
const best = (work) => [1, 2, 3].map(() => run(work())).reduce((p, q) => (p.longest < q.longest ? p : q));

const side = ({ records }) => {
  const { nodes, agents } = outlineOf(records);
  return { nodes, agents, records };
};
const compared = (a, b) => run(compare(side(a), side(b))).value;

/** story is a session with calls, of which output is the last result. */
function story({ output = { ok: true }, text = "The parcel is here.", shift = 0, extra = false, tokens = 3 } = {}) {
  const log = new Log();
  log.add("s", "run_started", { runId: "r", epoch: 1, mode: "execute", input: [{ content: "Where is it?" }] }, 0);
  log.add("s", "step_start");
  log.add("s", "tool_start", { toolCallId: "c1", toolName: "find", arguments: { a: 1, b: [1, 2] } });
  if (extra) log.add("s", "tool_start", { toolCallId: "c9", toolName: "ask", arguments: {} });
  log.add("s", "tool_end", { toolCallId: "c1", toolName: "find", result: output }, 1, 2000 + shift);
  log.add("s", "step_end", { usage: { inputTokens: tokens, outputTokens: 1 } });
  log.add("s", "step_start", {}, 2);
  log.add("s", "custom", { eventName: "note", data: { n: shift } }, 2);
  log.add("s", "text_delta", { delta: text }, 2);
  return log.add("s", "stream_end", { streamId: "s", finalOutput: null }, 2);
}

test("equal sessions have no difference, and those in time and tokens are apart", () => {
  const { pairs, left } = compared(story(), story());
  assert.deepEqual([...new Set(pairs.map(({ change }) => change))], ["equal"]);
  assert.equal(left, 0);
  const other = compared(story(), story({ tokens: 900 })).pairs;
  assert.deepEqual(other.filter(({ change }) => change !== "equal").map(({ a, change }) => [a.kind, change]), [["step", "time"]]);
  assert.ok(!other.some(isDifference));
});

test("a difference has the node of each side and the parts that differ", () => {
  const { pairs } = compared(story(), story({ output: { ok: false }, text: "The parcel is lost.", shift: 700, extra: true }));
  const found = pairs.filter(isDifference).map(({ a, b, change, parts }) => [a?.kind ?? "", b?.kind ?? "", change, parts.map(({ name }) => name).join()]);
  assert.deepEqual(found, [["call", "call", "content", "result"], ["", "call", "b", ""], ["custom", "custom", "content", "content"], ["text", "text", "content", "text"]]);
  const rows = foldEqual(pairs);
  assert.equal(rows.reduce((n, row) => n + ("folded" in row ? row.folded : 1), 0), pairs.length);
});

test("nodes after those that are missing on a side correspond", () => {
  const [a, b] = [new Log(), new Log()];
  for (const [log, count] of [[a, 30], [b, 20]]) {
    log.add("s", "run_started", { runId: "r", epoch: 1, mode: "execute", input: [] }, 0);
    for (let i = 0; i < count; i++) log.add("s", "tool_start", { toolCallId: `c${i}`, toolName: i < 10 ? "first" : "second", arguments: {} });
  }
  const changes = compared(a, b).pairs.map(({ change }) => change);
  assert.equal(changes.filter((change) => change === "a").length, 10);
  assert.equal(changes.filter((change) => change === "b").length, 0);
});

test("what a fork has of its origin is left out, and the origin is in the first records of the fork", () => {
  const a = story();
  const b = new Log();
  b.add("f", "session_seed", { part: 1 }, 0).add("f", "session_forked", { origin: { session: "s", sequence: 6 }, messages: 2 }, 0);
  assert.deepEqual(originOf(b.records), { session: "s", sequence: 6, messages: 2 });
  assert.equal(originOf(a.records), undefined);
  assert.equal(originOf(new Log().add("s", "text_delta", { delta: '"session_forked"' }).records), undefined);
  const { pairs } = run(compare({ ...side(a), after: 6 }, side(new Log()))).value;
  assert.deepEqual(pairs.map(({ a }) => a.kind), ["run", "step", "custom", "text"]);
});

test("many nodes are compared in short steps, and those beyond the limit are counted", () => {
  const big = (name) => {
    const log = new Log();
    for (let i = 0; i < mostNodes + 500; i++) log.add("s", "tool_start", { toolCallId: `c${i}`, toolName: `${name}${i}`, arguments: { i } });
    return side(log);
  };
  const [a, b] = [big("a"), big("b")];
  const { value, longest } = best(() => compare(a, b));
  assert.equal(value.pairs.length, 2 * mostNodes);
  assert.equal(value.left, 1000);
  assert.ok(longest < 50, `a step took ${longest} ms`);
});

test("a common subsequence is as long as any", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (let round = 0; round < 300; round++) {
    const list = () => Array.from({ length: random(9) }, () => random(3));
    const [a, b] = [list(), list()];
    const pairs = run(commonPairs(a.length, b.length, (i, j) => a[i] === b[j])).value;
    pairs.forEach(([i, j], n) => {
      assert.equal(a[i], b[j]);
      assert.ok(n === 0 || (i > pairs[n - 1][0] && j > pairs[n - 1][1]));
    });
    const longest = (i, j) => (i === a.length || j === b.length ? 0 : a[i] === b[j] ? 1 + longest(i + 1, j + 1) : Math.max(longest(i + 1, j), longest(i, j + 1)));
    assert.equal(pairs.length, longest(0, 0), JSON.stringify([a, b]));
  }
});

test("texts are compared by words, and each piece is of the text that has it", () => {
  const { value } = run(wordDiff("I could not reach it.", "I could reach\nit today."));
  assert.equal(value.filter(({ of }) => of !== "b").map(({ text }) => text).join(""), "I could not reach it.");
  assert.equal(value.filter(({ of }) => of !== "a").map(({ text }) => text).join(""), "I could reach\nit today.");
  assert.ok(value.some(({ of, text }) => of === "a" && text.includes("not")) && value.some(({ of, text }) => of === "b" && text.includes("today")));
  assert.deepEqual(run(wordDiff("", "")).value, []);
  const long = Array.from({ length: 10_000 }, (_, i) => `w${i}`).join(" ");
  const changed = best(() => wordDiff(long, long.replace("w5000 ", "other ").replace("w9000", "more")));
  assert.equal(changed.value.filter(({ of }) => of === "a").length, 2);
  assert.ok(changed.longest < 50, `a step took ${changed.longest} ms`);
  const apart = run(wordDiff("a ".repeat(9_000), "b ".repeat(9_000)));
  assert.deepEqual(apart.value.map(({ of }) => of), ["a", "b"]);
  assert.deepEqual(run(wordDiff("x".repeat(70_000), "y")).value.length, 2);
});

test("values are compared as JSON, with their numbers as they are written", () => {
  assert.deepEqual(jsonChanges('{"a":1,"b":[1,2]}', ' { "b": [1, 2], "a": 1 } '), []);
  assert.deepEqual(jsonChanges('"\\u0041"', '"A"'), []);
  assert.deepEqual(jsonChanges('{"n":12345678901234567890}', '{"n":12345678901234567891}'), [{ path: "/n", a: "12345678901234567890", b: "12345678901234567891" }]);
  assert.deepEqual(jsonChanges('{"a/b":{"c":1}}', '{"a/b":{}}'), [{ path: "/a~1b/c", a: "1" }]);
  assert.deepEqual(jsonChanges("[1]", '[1,{"__proto__":2}]'), [{ path: "/1", b: '{"__proto__":2}' }]);
  assert.deepEqual(jsonChanges('{"a":', "{}").length, 1);
  const deep = (end) => "[".repeat(5000) + end + "]".repeat(5000);
  assert.equal(jsonChanges(deep("1"), deep("2")).length, 1);
  assert.equal(jsonChanges(`[${"1,".repeat(999)}1]`, `[${"2,".repeat(999)}2]`).length, 200);
});
