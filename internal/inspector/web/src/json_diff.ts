import { rawElements, rawMembers } from "../../../../clients/ts/src/rawjson.js";

/** A difference of two values: the texts at a path, undefined where the path is missing. */
export interface Change {
  path: string;
  a?: string;
  b?: string;
}

/** The most differences that are listed, and the depth below which values are compared as texts. */
const [mostChanges, deepest] = [200, 64];

/** jsonChanges compares two values as JSON: spaces and the order of members do not count, and numbers are compared as they are written. */
export function jsonChanges(a: string, b: string): Change[] {
  const changes: Change[] = [];
  compare(a, b, "", 0, changes);
  return changes;
}

function compare(a: string, b: string, path: string, depth: number, changes: Change[]): void {
  if (a === b || changes.length >= mostChanges) return;
  const kind = kindOf(a);
  if (kind !== kindOf(b) || kind === "value" || depth >= deepest) {
    if (kind !== "value" || sameText(a) !== sameText(b)) changes.push({ path, a, b });
    return;
  }
  const [left, right] = [childrenOf(a, kind), childrenOf(b, kind)];
  for (const name of new Set([...left.keys(), ...right.keys()])) {
    const [x, y] = [left.get(name), right.get(name)];
    const below = `${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    if (x !== undefined && y !== undefined) compare(x, y, below, depth + 1, changes);
    else if (changes.length < mostChanges) changes.push({ path: below, ...(x !== undefined && { a: x }), ...(y !== undefined && { b: y }) });
  }
}

function kindOf(text: string): "object" | "array" | "value" {
  const first = text.trimStart()[0];
  return first === "{" ? "object" : first === "[" ? "array" : "value";
}

function childrenOf(text: string, kind: "object" | "array"): Map<string, string> {
  return kind === "object" ? rawMembers(text) : new Map(rawElements(text).map((element, i) => [String(i), element]));
}

/** sameText is equal for equal strings that are written with other escapes. */
function sameText(text: string): string {
  const trimmed = text.trim();
  if (!trimmed.startsWith('"')) return trimmed;
  try {
    return JSON.stringify(JSON.parse(trimmed));
  } catch {
    return trimmed; // arguments that were cut
  }
}
