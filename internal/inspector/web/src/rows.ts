import type { OutlineNode } from "../../../../clients/ts/src/outline.js";
import { isFailure } from "./words.js";

/** A node at its place in the tree. */
export interface TreeRow {
  node: OutlineNode;
  level: number;
  children: number;
  open: boolean;
}

/** treeRows returns the rows of a tree in the order of the screen: a node, then those within it. Nodes within a closed one are left out. */
export function treeRows(nodes: readonly OutlineNode[], closed: ReadonlySet<string>, onlyErrors: boolean): TreeRow[] {
  const kept = onlyErrors ? failures(nodes) : undefined;
  const within = new Map<string, OutlineNode[]>();
  for (const node of nodes) {
    if (kept !== undefined && !kept.has(node.id)) continue;
    const list = within.get(node.parent);
    if (list === undefined) within.set(node.parent, [node]);
    else list.push(node);
  }
  const rows: TreeRow[] = [];
  const add = (parent: string, level: number) => {
    for (const node of within.get(parent) ?? []) {
      const children = within.get(node.id)?.length ?? 0;
      const open = children > 0 && !closed.has(node.id);
      rows.push({ node, level, children, open });
      if (open) add(node.id, level + 1);
    }
  };
  add("", 0);
  return rows;
}

/** failures returns the nodes that failed, and those that they are within. */
function failures(nodes: readonly OutlineNode[]): Set<string> {
  const parents = new Map(nodes.map((node) => [node.id, node.parent]));
  const kept = new Set<string>();
  for (const node of nodes) {
    if (!isFailure(node)) continue;
    for (let id: string | undefined = node.id; id !== undefined && id !== "" && !kept.has(id); id = parents.get(id)) kept.add(id);
  }
  return kept;
}

/** A longer time without a record is shown as short, in milliseconds. */
const longPause = 5_000;
const shortPause = 1_000;

/** A scale gives each time a place from 0 to 1. */
export type Scale = (time: number) => number;

/** scaleOf returns the scale of nodes up to a time. With skip, long times in which nothing was stored are short. */
export function scaleOf(nodes: readonly OutlineNode[], until: number, skip: boolean): Scale {
  const times = [...new Set(nodes.flatMap((node) => (node.to === undefined ? [node.from] : [node.from, node.to])).concat(until))].sort((a, b) => a - b);
  const places: number[] = [];
  let place = 0;
  times.forEach((time, i) => {
    const passed = i === 0 ? 0 : time - (times[i - 1] ?? time);
    place += skip && passed > longPause ? shortPause : passed;
    places.push(place);
  });
  const length = Math.max(place, 1);
  return (time) => {
    let [low, high] = [0, times.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((times[middle] ?? 0) <= time) low = middle;
      else high = middle - 1;
    }
    return Math.min((places[low] ?? 0) / length, 1);
  };
}
