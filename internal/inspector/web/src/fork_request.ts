import type { CallNode, LogRecord, Outline, OutlineNode } from "../../../../clients/ts/src/outline.js";
import { countUpTo } from "./replay.js";

/** The place at which a session is forked. */
export interface ForkPoint {
  /** The cursor of the last record that the fork may have. The server moves it back to the last boundary. */
  at: string;
  sequence: number;
  /** The call whose result may be replaced. */
  call?: CallNode;
}

/** What the fork is for. */
export interface ForkChoice {
  agentType: string;
  next: "nothing" | "message" | "continue";
  message: string;
  /** The JSON text that replaces the result of the call, "" to keep it. */
  output: string;
}

/** The response to a fork. */
export interface Forked {
  session: string;
  boundary?: string;
  omittedSubAgents?: number;
}

/** cursorOf is the position of a record, as the events of the stream have it. */
function cursorOf({ sequence, time }: LogRecord): string {
  return `${sequence}-${time.toString(36)}`;
}

/** pointAt is the point of the last record up to a sequence, 0 for the end. */
export function pointAt(records: readonly LogRecord[], sequence: number): ForkPoint {
  const record = records[(sequence === 0 ? records.length : Math.max(countUpTo(records, sequence), 1)) - 1];
  return record === undefined ? { at: "0", sequence: 0 } : { at: cursorOf(record), sequence: record.sequence };
}

/** pointBefore is the point before the first record of a node. */
export function pointBefore(records: readonly LogRecord[], node: OutlineNode): ForkPoint {
  return pointAt(records, node.first - 1);
}

/** pointAfter is the point after a node, and after the step that it is part of: a boundary is after a step. The result of a call of the root may be replaced there. */
export function pointAfter(outline: Outline, records: readonly LogRecord[], node: OutlineNode): ForkPoint {
  const parent = outline.node(node.parent);
  const last = parent?.kind === "step" ? Math.max(parent.last, node.last) : node.last;
  return { ...pointAt(records, last), ...(node.kind === "call" && outline.agents[0]?.session === node.session && { call: node }) };
}

/** forkBody is the body of the request. The result is inserted as it is written, so that numbers keep their digits. It throws a SyntaxError if that is not JSON. */
export function forkBody(point: ForkPoint, choice: ForkChoice, originType: string): string {
  const body = JSON.stringify({
    at: point.at,
    ...(choice.agentType !== originType && { agentType: choice.agentType }),
    ...(choice.next === "message" && { message: { content: choice.message } }),
    ...(choice.next === "continue" && { continue: true }),
  });
  if (point.call === undefined || choice.output.trim() === "") return body;
  JSON.parse(choice.output);
  return `${body.slice(0, -1)},"edits":[{"callId":${JSON.stringify(point.call.callId)},"output":${choice.output}}]}`;
}
