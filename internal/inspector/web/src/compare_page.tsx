import { useEffect, useMemo, useState } from "preact/hooks";

import { compare, foldEqual, isDifference, mostNodes, type Comparison, type Pair } from "./compare.js";
import { CompareDetail } from "./compare_detail.js";
import { CompareList } from "./compare_list.js";
import { useEdge } from "./edge.js";
import { count, durationOf } from "./format.js";
import { useKeys } from "./keys.js";
import { follow, open, sessionPath } from "./link.js";
import type { LiveSession } from "./live.js";
import { originOf, type Origin } from "./origin.js";
import { Badge, Refused } from "./parts.js";
import { useSlices } from "./slices.js";
import { useLive } from "./use_live.js";
import { ViewMenu } from "./view_menu.js";
import { statusOf } from "./words.js";

/** Two sessions side by side. Their ids and the view are in the address. */
export function Compare() {
  const parameters = new URLSearchParams(location.search);
  const [a, b, view] = [parameters.get("a") ?? "", parameters.get("b") ?? "", parameters.get("view") ?? ""];
  const [left, right] = [useLive(a, { view, readOnly: true }), useLive(b, { view, readOnly: true })];
  const edge = useEdge();
  useEffect(() => {
    document.title = `${a} and ${b}, Tailrace`;
  }, [a, b]);
  const show = (members: Record<string, string>) => {
    const query = new URLSearchParams({ a, b, view, ...members });
    if (query.get("view") === "") query.delete("view");
    open(`/inspect/compare?${query}`, true);
  };
  const refused = [left, right].find((side) => side?.connection.state === "refused");
  if (refused?.connection.state === "refused") return <main><Refused problem={refused.connection.problem} again={() => (left?.again(), right?.again())} /></main>;
  return (
    <main class="session compare">
      <div class="above">
        <a href="/inspect" onClick={follow}>‹ Sessions</a>
        <ViewMenu edge={edge} view={view} onView={(name) => show({ view: name })} />
      </div>
      <h1 class="hidden">Compare two sessions</h1>
      <div class="sides">
        <SideHeading name="first" id={a} live={left} onId={(id) => show({ a: id })} />
        <SideHeading name="second" id={b} live={right} onId={(id) => show({ b: id })} />
      </div>
      {left !== undefined && right !== undefined && isLoaded(left) && isLoaded(right) && <Comparing left={left} right={right} />}
    </main>
  );
}

function isLoaded({ connection }: LiveSession): boolean {
  return connection.state !== "loading" && connection.state !== "unknown";
}

/** A session of the two, and the field for its id. */
function SideHeading({ name, id, live, onId }: { name: string; id: string; live: LiveSession | undefined; onId: (id: string) => void }) {
  const [text, setText] = useState(id);
  useEffect(() => setText(id), [id]);
  const agent = live?.outline.agents.find(({ session }) => session === id);
  const nodes = live?.outline.nodes ?? [];
  const from = nodes[0]?.from ?? 0;
  const to = nodes.reduce((latest, node) => Math.max(latest, node.to ?? node.from), from);
  return (
    <form class="side" onSubmit={(event) => (event.preventDefault(), onId(text.trim()))}>
      <input value={text} required aria-label={`id of the ${name} session`} placeholder="id of a session" onInput={(event) => setText(event.currentTarget.value)} />
      {text.trim() === id && id !== "" ? <a href={sessionPath(id)} onClick={follow}>Open</a> : <button type="submit">Compare</button>}
      {agent !== undefined && <Badge status={statusOf(agent.status)} />}
      {agent !== undefined && <span class="quiet" dir="auto">{agent.type}, {durationOf(to - from)}</span>}
      {live?.connection.state === "unknown" && <span class="failure" role="alert">No such session, or no right to read it.</span>}
      {live?.connection.state === "loading" && <span class="quiet" role="status">loading</span>}
    </form>
  );
}

function* nothing(): Generator<void, Comparison | undefined> {
  return undefined;
}

/** The time between two comparisons of sessions that run, in milliseconds. */
const interval = 1_000;

/** useEvery returns a value as it was at most an interval ago. */
function useEvery(value: number): number {
  const [shown, setShown] = useState(value);
  useEffect(() => {
    if (value === shown) return;
    const timer = setTimeout(() => setShown(value), interval);
    return () => clearTimeout(timer);
  }, [value !== shown, shown]);
  return shown;
}

/** The list of pairs, and the differences of the selected one. */
function Comparing({ left, right }: { left: LiveSession; right: LiveSession }) {
  const [fold, setFold] = useState(true);
  const [selected, setSelected] = useState<string>();
  const [p, q] = [useEvery(left.outline.position), useEvery(right.outline.position)];
  const fork = useMemo(() => forkOf(left, right), [left, right, p, q]);
  const result = useSlices(() => (p + q === 0 ? nothing() : compare(sideOf(left, fork, 0), sideOf(right, fork, 1))), [left, right, fork, p, q], true);
  const differences = useMemo(() => result?.pairs.filter(isDifference) ?? [], [result]);
  const rows = useMemo(() => (result === undefined ? [] : fold ? foldEqual(result.pairs) : result.pairs), [result, fold]);
  const pair = result?.pairs.find((other) => keyOf(other) === selected) ?? differences[0];
  const at = pair === undefined ? -1 : differences.indexOf(pair);
  const go = (to: number) => {
    const next = differences[to];
    if (next !== undefined) setSelected(keyOf(next));
  };
  useKeys({ n: () => go(at + 1), p: () => go(at - 1) });
  if (result === undefined) return <p class="quiet" role="status">comparing</p>;
  return (
    <>
      <div class="options">
        <span role="status">{differences.length === 0 ? "No differences but times and tokens." : at < 0 ? count(differences.length, "difference") : `Difference ${at + 1} of ${differences.length}`}</span>
        <button type="button" disabled={at <= 0} onClick={() => go(at - 1)}>Previous (p)</button>
        <button type="button" disabled={at + 1 >= differences.length} onClick={() => go(at + 1)}>Next (n)</button>
        <label><input type="checkbox" checked={fold} onChange={(event) => setFold(event.currentTarget.checked)} /> fold equal</label>
        {fork !== undefined && <span>{count(fork.origin.messages, "message")} in common, up to #{fork.origin.sequence} (fork)</span>}
        {result.left > 0 && <span class="bad">{count(result.left, "row")} after the first {mostNodes} of a side are not compared.</span>}
      </div>
      <div class="compare-panes">
        <CompareList rows={rows} selected={pair} onSelect={(other) => setSelected(keyOf(other))} />
        {pair !== undefined && <CompareDetail key={keyOf(pair)} pair={pair} />}
      </div>
    </>
  );
}

/** forkOf returns the origin of the session that is a fork of the other one, and which of the two the origin is. */
function forkOf(left: LiveSession, right: LiveSession): { origin: Origin; of: 0 | 1 } | undefined {
  const [a, b] = [originOf(left.records), originOf(right.records)];
  if (b?.session === left.id) return { origin: b, of: 0 };
  return a?.session === right.id ? { origin: a, of: 1 } : undefined;
}

function sideOf({ outline, records }: LiveSession, fork: ReturnType<typeof forkOf>, number: 0 | 1) {
  return { nodes: outline.nodes, agents: outline.agents, records, ...(fork?.of === number && { after: fork.origin.sequence }) };
}

/** keyOf is the same for a pair of a later comparison. */
function keyOf({ a, b }: Pair): string {
  return `${a?.id ?? ""} ${b?.id ?? ""}`;
}
