import type { OutlineNode } from "../../../../clients/ts/src/outline.js";

/** A place at which a text was found. */
export interface Hit {
  node: OutlineNode;
  /** The part of the node. */
  where: string;
  before: string;
  match: string;
  after: string;
}

/** How many characters before and after a hit are shown. A hit has to be visible in a narrow list. */
const [shownBefore, shownAfter] = [24, 90];

/** The most hits that are listed. */
export const mostHits = 200;

/** find returns the first hits of a text in the texts, inputs, results and errors of nodes, one for each part of a node. Upper and lower case are equal. */
export function* find(nodes: readonly OutlineNode[], text: string): Generator<void, Hit[]> {
  const hits: Hit[] = [];
  const pattern = new RegExp(text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "i");
  for (const node of nodes) {
    for (const [where, part] of partsOf(node)) {
      const found = part === undefined ? null : pattern.exec(part);
      if (found === null || part === undefined) continue;
      hits.push({ node, where, ...excerpt(part, found.index, found.index + found[0].length) });
      if (hits.length === mostHits) return hits;
    }
    yield;
  }
  return hits;
}

/** excerpt is a place in a text with the words around it. */
function excerpt(text: string, start: number, end: number): Pick<Hit, "before" | "match" | "after"> {
  const [first, last] = [Math.max(start - shownBefore, 0), Math.min(end + shownAfter, text.length)];
  const before = text.slice(first, start);
  const after = text.slice(end, last);
  return { before: first === 0 ? before : `…${before.replace(/^\S*\s/, "")}`, match: text.slice(start, end), after: last === text.length ? after : `${after.replace(/\s\S*$/, "")}…` };
}

function partsOf(node: OutlineNode): Array<[string, string | undefined]> {
  switch (node.kind) {
    case "user":
    case "text":
    case "reasoning":
      return [["text", node.text]];
    case "call":
      return [["tool", node.name], ["input", node.input], ["result", node.output], ["error", node.error], ["reason", node.reason]];
    case "subagent":
      return [["agent", node.type], ["result", node.output]];
    case "run":
      return [["error", node.error], ["result", node.output]];
    case "step":
      return [["model", node.model]];
    case "wait":
      return [["reason", node.reason], ["tool", node.tool]];
    case "removed":
      return [];
    default:
      return [["title", node.title]];
  }
}
