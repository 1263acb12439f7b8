import type { OrdinalRange } from "../../../../clients/ts/src/chunks.js";
import type { LogRecord } from "../../../../clients/ts/src/outline.js";

/** missing returns how many records of the log a page lacks: ordinals of a session that no record has, and that no cleanup has removed. */
export function missing(records: readonly LogRecord[]): number {
  const known = new Map<string, Set<number>>();
  for (const { session, ordinal, data } of records) {
    if (ordinal === undefined) continue;
    const ordinals = known.get(session) ?? new Set();
    known.set(session, ordinals.add(ordinal));
    if (!data.includes('"truncated"')) continue;
    const { type, removed = [] } = JSON.parse(data) as { type: string; removed?: OrdinalRange[] };
    if (type !== "truncated") continue;
    for (const { first, last } of removed) for (let n = first; n <= last; n++) ordinals.add(n);
  }
  let count = 0;
  for (const ordinals of known.values()) count += [...ordinals].reduce((a, b) => Math.max(a, b), 0) - ordinals.size;
  return count;
}

const key = (id: string) => `reloaded ${id}`;

/** reload loads the page again, and remembers the position. */
export function reload(id: string, position: number): void {
  sessionStorage.setItem(key(id), String(position));
  location.reload();
}

/** reloadedAfter is the position at which reload was called for a session, 0 if it was not. */
export function reloadedAfter(id: string): number {
  return Number(sessionStorage.getItem(key(id))) || 0;
}
