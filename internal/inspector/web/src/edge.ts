import { useEffect, useState } from "preact/hooks";

import { getJSON, Problem } from "./api.js";

/** What the edge offers to its client: the answer of GET /v1/agents. */
export interface Edge {
  agents: ReadonlyArray<{ type: string }>;
  /** The views that a request may name. */
  views: readonly string[];
  /** The view of a request that names none, "" for everything. */
  view: string;
  /** The rights of the client, separated by spaces. */
  scopes: string;
}

/** A request without an answer is repeated after this time, in milliseconds. */
const retry = 2_000;

/** The answer is requested once for each credential. */
let known: Promise<Edge> | undefined;
const users = new Set<() => void>();

/** forgetEdge makes the page ask again: the credential is another one. */
export function forgetEdge(): void {
  known = undefined;
  for (const ask of users) ask();
}

/** useEdge returns what the edge offers, undefined while that is not known. */
export function useEdge(): Edge | undefined {
  const [edge, setEdge] = useState<Edge>();
  useEffect(() => {
    const ask = () => {
      const asked = (known ??= getJSON<Edge>("/v1/agents"));
      const failed = (error: unknown) => {
        if (asked === known) known = undefined;
        if (!(error instanceof Problem && error.status < 500)) setTimeout(() => users.has(ask) && ask(), retry); // a refusal stays one until there is another credential
      };
      asked.then((answer) => asked === known && users.has(ask) && setEdge(answer), failed);
    };
    users.add(ask);
    ask();
    return () => void users.delete(ask);
  }, []);
  return edge;
}

/** reasonAgainst says why a client cannot act, "" if it can: it lacks a right, or the edge has no agent of a type. What is not known does not stop it, because the server decides. */
export function reasonAgainst(edge: Edge | undefined, right: string, agentType = ""): string {
  if (edge === undefined) return "";
  if (!edge.scopes.split(" ").includes(right)) return `You do not have the right "${right}".`;
  return agentType === "" || edge.agents.some(({ type }) => type === agentType) ? "" : `This edge has no agent "${agentType}".`;
}
