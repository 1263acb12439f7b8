import { useEffect, useMemo, useState } from "preact/hooks";

import type { OutlineNode } from "../../../../clients/ts/src/outline.js";
import { explain, postJSON } from "./api.js";
import { reasonAgainst, useEdge } from "./edge.js";
import { count, durationOf, exactTime, shorten, timeOf } from "./format.js";
import type { Connection, Shown, View } from "./live.js";
import { Badge } from "./parts.js";
import { statusOf } from "./words.js";

/** The first line of a session: what it is and how it is. */
export function Heading({ live, shown, errors }: { live: Shown; shown: View; errors: number }) {
  const { outline, connection } = shown;
  const root = outline.agents.find((agent) => agent.session === live.id) ?? outline.agents[0];
  const facts = useMemo(() => factsOf(outline.nodes), [outline, outline.position]);
  return (
    <>
      <div class="heading">
        <h1 dir="auto">{facts.title || live.id}</h1>
        {root !== undefined && <Badge status={statusOf(root.status)} />}
        {facts.title !== "" && <code dir="auto">{live.id}</code>}
        <span dir="auto">{root?.type}</span>
        {facts.from > 0 && (
          <span title={exactTime(facts.from)}>{timeOf(facts.from)}, {durationOf(facts.to - facts.from)}</span>
        )}
        <span>{count(facts.runs, "run")}</span>
        {facts.tokens > 0 && <span>{count(facts.tokens, "token")}</span>}
        {errors > 0 && <span class="bad">{count(errors, "error")}</span>}
        <ConnectionState live={live} />
        {root?.status === "active" && !live.readOnly && shown === live && connection.state === "live" && <Stop id={live.id} type={root.type} />}
      </div>
      {connection.state === "lost" && <Lost connection={connection} />}
    </>
  );
}

function ConnectionState({ live }: { live: Shown }) {
  const { connection, outline } = live;
  const position = outline.position > 0 ? `#${outline.position}` : "";
  switch (connection.state) {
    case "lost":
      return <span class="connection bad" role="status">{connection.refused ? "refused for now" : "connection lost"} {position}</span>;
    case "loading":
      return <span class="connection" role="status">loading</span>;
    default:
      return <span class="connection" role="status">{connection.state} {position}</span>;
  }
}

/** After this time without a connection the page says how to check the server, in milliseconds. */
const longLost = 10_000;

/** Why there is no connection, for how long, and when the next attempt is. Its time is not announced. */
function Lost({ connection }: { connection: Connection & { state: "lost" } }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const clock = setInterval(() => setNow(Date.now), 1_000);
    return () => clearInterval(clock);
  }, []);
  const { since, next, reason, refused } = connection;
  return (
    <p class="notice lost">
      {reason} {refused ? "" : `No connection for ${durationOf(Math.max(now - since, 0))}. `}
      {next > now ? `Next attempt in ${durationOf(next - now)}.` : "Trying again."}
      {!refused && now - since > longLost && <> Check the server: <code>curl -i {location.origin}/readyz</code></>}
    </p>
  );
}

function Stop({ id, type }: { id: string; type: string }) {
  const [failure, setFailure] = useState("");
  const reason = reasonAgainst(useEdge(), "stop", type);
  const stop = () => {
    postJSON(`/api/chat/${encodeURIComponent(id)}/stop`, {}).then(() => setFailure(""), (error: unknown) => setFailure(explain(error)));
  };
  return (
    <>
      <button type="button" disabled={reason !== ""} title={reason} onClick={stop}>Stop</button>
      {failure !== "" && <span class="failure" role="alert">{failure}</span>}
    </>
  );
}

/** The characters of a title. */
const longestTitle = 80;

/** factsOf returns the first line of the first message, and the sums of the heading. */
function factsOf(nodes: readonly OutlineNode[]) {
  const facts = { title: "", from: nodes[0]?.from ?? 0, to: 0, runs: 0, tokens: 0 };
  for (const node of nodes) {
    facts.to = Math.max(facts.to, node.to ?? node.from);
    if (node.kind === "user" && facts.title === "") facts.title = shorten(node.text, longestTitle);
    if (node.kind === "run" && node.parent === "") facts.runs++;
    if (node.kind === "step" && node.usage !== undefined) facts.tokens += node.usage.inputTokens + node.usage.outputTokens;
  }
  return facts;
}
