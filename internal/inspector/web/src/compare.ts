import type { LogRecord, OutlineAgent, OutlineNode } from "../../../../clients/ts/src/outline.js";
import { rawMembers } from "../../../../clients/ts/src/rawjson.js";
import { commonPairs } from "./diff.js";
import { jsonChanges } from "./json_diff.js";
import { treeRows } from "./rows.js";

/** A session to compare. */
export interface Side {
  nodes: readonly OutlineNode[];
  agents: readonly OutlineAgent[];
  records: readonly LogRecord[];
  /** Nodes up to this sequence are left out: the other session is a fork that has them. */
  after?: number;
}

/** A part of a node: a text, JSON, or a fact. */
export interface Part {
  name: string;
  kind: "text" | "json" | "fact";
  a: string;
  b: string;
}

/** Nodes that correspond, or a node of one side. */
export interface Pair {
  a?: OutlineNode;
  b?: OutlineNode;
  level: number;
  /** time: the nodes differ in time and tokens alone. */
  change: "equal" | "time" | "content" | "a" | "b";
  /** The parts that differ, of nodes that correspond. */
  parts: Part[];
}

/** The result of a comparison. */
export interface Comparison {
  pairs: Pair[];
  /** Nodes that were not compared, because there are too many. */
  left: number;
}

/** The most nodes of a side. */
export const mostNodes = 2_000;

/** compare aligns the nodes of two sessions, in the order of their trees, by the longest common subsequence of their keys, and compares those that correspond. */
export function* compare(a: Side, b: Side): Generator<void, Comparison> {
  const left = entriesOf(a);
  yield;
  const right = entriesOf(b);
  yield;
  const [first, second] = [left.slice(0, mostNodes), right.slice(0, mostNodes)];
  const aligned = (yield* commonPairs(first.length, second.length, (i, j) => first[i]?.key === second[j]?.key)) ?? [];
  const pairs: Pair[] = [];
  let [i, j] = [0, 0];
  for (const [x, y] of [...aligned, [first.length, second.length] as const]) {
    for (; i < x; i++) pairs.push(alone("a", first[i]));
    for (; j < y; j++) pairs.push(alone("b", second[j]));
    const [p, q] = [first[i++], second[j++]];
    if (p === undefined || q === undefined) continue;
    const parts = partsOf(p.node, q.node, a, b).filter(differs);
    const times = p.node.kind === q.node.kind && JSON.stringify(measuresOf(p.node)) !== JSON.stringify(measuresOf(q.node));
    pairs.push({ a: p.node, b: q.node, level: p.level, change: parts.length > 0 ? "content" : times ? "time" : "equal", parts });
    yield;
  }
  return { pairs, left: left.length + right.length - first.length - second.length };
}

interface Entry {
  node: OutlineNode;
  level: number;
  key: string;
}

function alone(of: "a" | "b", entry: Entry | undefined): Pair {
  return { ...(entry !== undefined && { [of]: entry.node }), level: entry?.level ?? 0, change: of, parts: [] };
}

/** The kinds of nodes that are not compared: what a checkpoint and the beginning of a fork have is in other nodes. */
const leftOut: ReadonlySet<string> = new Set(["checkpoint", "forked"]);

/** entriesOf returns the nodes in the order of the tree. A key has the kind, the type of the agent, the tool, and the number of the node among those in the same node. */
function entriesOf(side: Side): Entry[] {
  const types = new Map(side.agents.map(({ session, type }) => [session, type]));
  const counts = new Map<string, number>();
  const kept = nodesAfter(side.nodes.filter(({ kind }) => !leftOut.has(kind)), side.after ?? 0);
  return treeRows(kept, new Set(), false).map(({ node, level }) => {
    const what = [node.kind, types.get(node.session) ?? "", nameOf(node)].join("\n");
    const place = `${node.parent}\n${what}`;
    const number = counts.get(place) ?? 0;
    counts.set(place, number + 1);
    return { node, level, key: `${what}\n${number}` };
  });
}

/** nodesAfter returns the nodes that have a record after a sequence, and those that they are within. */
function nodesAfter(nodes: readonly OutlineNode[], after: number): readonly OutlineNode[] {
  if (after === 0) return nodes;
  const kept = new Set(nodes.filter(({ last }) => last > after).map(({ id }) => id));
  for (const { id, parent } of nodes.toReversed()) if (kept.has(id)) kept.add(parent);
  return nodes.filter(({ id }) => kept.has(id));
}

/** nameOf is what besides its kind says which node corresponds. */
function nameOf(node: OutlineNode): string {
  switch (node.kind) {
    case "call":
      return node.name;
    case "subagent":
      return node.type;
    case "step":
      return String(node.number);
    default:
      return "";
  }
}

/** partsOf returns the parts of two nodes of one kind. */
function partsOf(p: OutlineNode, q: OutlineNode, a: Side, b: Side): Part[] {
  const parts: Part[] = [];
  const add = (name: string, kind: Part["kind"], of: (node: OutlineNode) => string | undefined) => parts.push({ name, kind, a: of(p) ?? "", b: of(q) ?? "" });
  const member = (name: string) => (node: OutlineNode) => (node as unknown as Record<string, string | undefined>)[name];
  add("status", "fact", member("status"));
  add("error", "text", member("error"));
  switch (p.kind) {
    case "user":
    case "text":
    case "reasoning":
      add("text", "text", member("text"));
      break;
    case "call":
      add("input", "json", member("input"));
      add("result", "json", member("output"));
      add("reason", "text", member("reason"));
      break;
    case "run":
    case "subagent":
      add("result", "json", member("output"));
      break;
    case "step":
      add("model", "fact", member("model"));
      add("finished by", "fact", member("finishReason"));
      break;
    case "wait":
      add("for", "fact", member("reason"));
      break;
    case "removed":
      break;
    default:
      add("title", "text", member("title"));
      add("content", "json", (node) => contentOf(node, node === p ? a : b));
  }
  return parts;
}

/** The members of an event that name its writer, its time and its place. */
const envelope: ReadonlySet<string> = new Set(["type", "agentId", "agentType", "timestamp", "step", "runId", "checkpointId"]);

/** contentOf is the record of an event without its envelope. */
function contentOf(node: OutlineNode, { records }: Side): string {
  let [low, high] = [0, records.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((records[middle]?.sequence ?? 0) < node.first) low = middle + 1;
    else high = middle;
  }
  const members = [...rawMembers(records[low]?.data ?? "{}")].filter(([name]) => !envelope.has(name));
  return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}

function differs({ kind, a, b }: Part): boolean {
  return a !== b && (kind !== "json" || jsonChanges(a, b).length > 0);
}

/** measuresOf is what a repetition of the same run changes: time and tokens. */
function measuresOf(node: OutlineNode): unknown[] {
  return [node.to === undefined ? null : node.to - node.from, node.kind === "step" ? [node.usage?.inputTokens, node.usage?.outputTokens] : null];
}

/** differenceOf is the first difference of two nodes as one line for each side. */
export function differenceOf({ parts: [part] }: Pair): { a: string; b: string } | undefined {
  if (part === undefined) return undefined;
  const { name, kind, a, b } = part;
  const [change] = kind === "json" ? jsonChanges(a, b) : [];
  if (change === undefined) return { a: kind === "fact" ? `${name}: ${a}` : a, b: kind === "fact" ? `${name}: ${b}` : b };
  const place = change.path === "" ? name : change.path.slice(1);
  return { a: `${place}: ${change.a ?? "missing"}`, b: `${place}: ${change.b ?? "missing"}` };
}

/** isDifference reports whether a pair is one that a reader looks for. */
export function isDifference({ change }: Pair): boolean {
  return change !== "equal" && change !== "time";
}

/** A row of a comparison: a pair, or a number of folded ones. */
export type CompareRow = Pair | { folded: number };

/** foldEqual replaces pairs without a difference by their number. */
export function foldEqual(pairs: readonly Pair[]): CompareRow[] {
  const rows: CompareRow[] = [];
  for (const pair of pairs) {
    const last = rows.at(-1);
    if (isDifference(pair)) rows.push(pair);
    else if (last !== undefined && "folded" in last) last.folded++;
    else rows.push({ folded: 1 });
  }
  return rows;
}
