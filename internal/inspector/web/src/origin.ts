import type { LogRecord } from "../../../../clients/ts/src/outline.js";

/** What a fork continues. */
export interface Origin {
  session: string;
  /** The last record of the origin that the fork has. */
  sequence: number;
  /** The number of messages that both have. */
  messages: number;
}

/** originOf returns what a session continues, undefined for one that is not a fork, and under a view. The log of a fork begins with the records of its origin. */
export function originOf(records: readonly LogRecord[]): Origin | undefined {
  for (const { data } of records) {
    if (data.startsWith('{"type":"session_seed"')) continue; // it may have many messages
    if (!data.includes('"session_forked"')) return undefined;
    const { type, origin, messages } = JSON.parse(data) as { type: string; origin?: { session: string; sequence: number }; messages?: number };
    return type === "session_forked" && origin !== undefined ? { session: origin.session, sequence: origin.sequence, messages: messages ?? 0 } : undefined;
  }
  return undefined;
}
