import type { OrdinalRange } from "../../../../clients/ts/src/chunks.js";
import type { LogRecord } from "../../../../clients/ts/src/outline.js";

/** check counts the records of the log that a page lacks, which are ordinals of a session that no record has and no cleanup has removed, and those that it has twice. */
export function check(records: readonly LogRecord[]): { missing: number; twice: number } {
  let [missing, twice] = [0, 0];
  const known = new Map<string, Set<number>>();
  for (const { session, ordinal, data } of records) {
    if (ordinal === undefined) continue;
    const ordinals = known.get(session) ?? new Set();
    if (ordinals.has(ordinal)) twice++;
    known.set(session, ordinals.add(ordinal));
    if (!data.includes('"truncated"')) continue;
    const { type, removed = [] } = JSON.parse(data) as { type: string; removed?: OrdinalRange[] };
    if (type !== "truncated") continue;
    for (const { first, last } of removed) for (let n = first; n <= last; n++) ordinals.add(n);
  }
  for (const ordinals of known.values()) missing += [...ordinals].reduce((a, b) => Math.max(a, b), 0) - ordinals.size;
  return { missing, twice };
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
