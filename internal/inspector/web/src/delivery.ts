import type { LogRecord, Outline, OutlineNode, RunNode } from "../../../../clients/ts/src/outline.js";
import { countUpTo } from "./replay.js";

/** A run, with the epoch of its writer, which a view hides. */
export interface RunFact {
  node: RunNode;
  agent: string;
  epoch?: number;
}

/** What the log says about how a session was written. */
export interface DeliveryFacts {
  runs: RunFact[];
  /** The number of writers: different epochs of the root; 0 under a view. */
  epochs: number;
  takeovers: number;
  /** Records that cleanups have removed. */
  removed: number;
  /** Steps that did not end, and that were discarded. */
  interruptedSteps: number;
  waits: number;
  resyncs: number;
  /** Records of a writer after one of a newer writer of the same session. The log must have none. */
  fenced: number;
  /** What was not the rule, in order. */
  events: OutlineNode[];
}

/** deliveryOf returns the facts of a session and its sub-agents. */
export function deliveryOf(outline: Outline, records: readonly LogRecord[]): DeliveryFacts {
  const facts: DeliveryFacts = { runs: [], epochs: 0, takeovers: 0, removed: 0, interruptedSteps: 0, waits: 0, resyncs: 0, fenced: 0, events: [] };
  const types = new Map(outline.agents.map(({ session, type }) => [session, type]));
  for (const node of outline.nodes) {
    switch (node.kind) {
      case "run": {
        const { epoch } = records[countUpTo(records, node.first) - 1] ?? {};
        facts.runs.push({ node, agent: types.get(node.session) ?? "", ...(epoch !== undefined && { epoch }) });
        if (node.mode === "takeover") facts.takeovers++;
        break;
      }
      case "step":
        if (node.status !== "discarded" && node.status !== "unfinished") break;
        facts.interruptedSteps++;
        facts.events.push(node);
        break;
      case "removed":
        facts.removed += node.count;
        facts.events.push(node);
        break;
      case "wait":
        facts.waits++;
        facts.events.push(node);
        break;
      case "resync":
        facts.resyncs++;
        facts.events.push(node);
        break;
      case "interrupted":
        facts.events.push(node);
    }
  }
  const newest = new Map<string, number>();
  const epochs = new Set<number>();
  for (const { session, epoch } of records) {
    if (epoch === undefined) continue;
    const before = newest.get(session) ?? 0;
    if (epoch < before) facts.fenced++;
    else newest.set(session, epoch);
    if (session === outline.agents[0]?.session) epochs.add(epoch);
  }
  facts.epochs = epochs.size;
  return facts;
}
