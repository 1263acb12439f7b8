import type { OutlineNode } from "../../../../clients/ts/src/outline.js";

/** A status as a word and a sign, so that colour alone never says it. */
export interface Status {
  word: string;
  sign: string;
  tone: "good" | "bad" | "warn" | "run" | "quiet";
}

const statuses: Readonly<Record<string, Status>> = {
  active: { word: "running", sign: "▶", tone: "run" },
  running: { word: "running", sign: "▶", tone: "run" },
  streaming: { word: "writing its input", sign: "▶", tone: "run" },
  approved: { word: "approved", sign: "▶", tone: "run" },
  paused: { word: "waits", sign: "?", tone: "warn" },
  waiting: { word: "waits", sign: "?", tone: "warn" },
  asking: { word: "asks for approval", sign: "?", tone: "warn" },
  ended: { word: "done", sign: "✓", tone: "good" },
  done: { word: "done", sign: "✓", tone: "good" },
  failed: { word: "failed", sign: "✗", tone: "bad" },
  denied: { word: "denied", sign: "✗", tone: "bad" },
  interrupted: { word: "stopped", sign: "■", tone: "warn" },
  continued: { word: "continued", sign: "✓", tone: "good" },
  superseded: { word: "taken over", sign: "↷", tone: "warn" },
  discarded: { word: "discarded", sign: "–", tone: "quiet" },
  unfinished: { word: "unfinished", sign: "–", tone: "quiet" },
};

/** statusOf returns the words of a status; of an unknown one its name. */
export function statusOf(status: string): Status {
  return statuses[status] ?? { word: status, sign: "·", tone: "quiet" };
}

/** What a pause is for, by the reasons that the server writes. */
const reasons: Readonly<Record<string, string>> = {
  suspended_awaiting_children: "for sub-agents",
  suspended_client_tool: "for the user",
  suspended_step_partial: "for the rest of the step",
};

/** labelOf is the name of a node in a row. */
export function labelOf(node: OutlineNode): string {
  switch (node.kind) {
    case "run":
      return node.mode === "execute" ? "run" : `run, ${node.mode}`;
    case "user":
      return "user";
    case "step":
      return `step ${node.number}`;
    case "call":
      return node.name;
    case "subagent":
      return `sub-agent ${node.type}`;
    case "wait":
      return "waits";
    case "removed":
      return node.count === 0 ? "records removed" : `${node.count} records removed`;
    default:
      return node.kind;
  }
}

/** previewOf is what a row says of a node besides its name. */
export function previewOf(node: OutlineNode): string {
  switch (node.kind) {
    case "run":
      return node.error ?? "";
    case "user":
    case "text":
    case "reasoning":
      return node.text;
    case "step":
      return [node.model, node.usage && `${node.usage.inputTokens + node.usage.outputTokens} tokens`].filter(Boolean).join(", ");
    case "call":
      return node.error ?? node.input;
    case "subagent":
      return node.output ?? "";
    case "wait":
      return [reasons[node.reason] ?? node.reason, node.tool].filter(Boolean).join(", ");
    case "removed":
      return `after step ${node.step}`;
    default:
      return node.title;
  }
}

/** statusOfNode is the status of a node, undefined if its kind has none. */
export function statusOfNode(node: OutlineNode): Status | undefined {
  if (node.kind === "error") return statuses["failed"];
  if (node.kind === "wait") return statuses[node.to === undefined ? "waiting" : "done"];
  return "status" in node ? statusOf(node.status) : undefined;
}

/** isFailure reports whether a node is an error. */
export function isFailure(node: OutlineNode): boolean {
  return node.kind === "error" || ("status" in node && (node.status === "failed" || node.status === "denied"));
}
