import { useEffect, useMemo, useState } from "preact/hooks";

import { Actions, type Open } from "./actions.js";
import { Conversation } from "./conversation.js";
import { Delivery } from "./delivery_tab.js";
import { Detail } from "./detail.js";
import { useEdge } from "./edge.js";
import { Expired } from "./expired.js";
import { Find } from "./find_bar.js";
import { pointAfter, pointBefore } from "./fork_request.js";
import { count, timeOf } from "./format.js";
import { Heading } from "./heading.js";
import { useKeys } from "./keys.js";
import { follow, open, sessionPath } from "./link.js";
import { mostRecords, type Shown, type View } from "./live.js";
import { originOf } from "./origin.js";
import { Refused } from "./parts.js";
import { Records } from "./records.js";
import { countUpTo, Replay } from "./replay.js";
import { Scrubber } from "./scrubber.js";
import { State } from "./state.js";
import { Timeline } from "./timeline.js";
import { useLive } from "./use_live.js";
import { ViewMenu } from "./view_menu.js";
import { Wire } from "./wire.js";
import { isFailure } from "./words.js";

const tabs = ["conversation", "timeline", "state", "records", "wire", "delivery"] as const;
export type Tab = (typeof tabs)[number];

/** The page of one session. The tab, the view and the selected node are in the address. */
export function SessionPage({ id }: { id: string }) {
  const parameters = new URLSearchParams(location.search);
  const view = parameters.get("view") ?? "";
  const live = useLive(id, { view });
  const edge = useEdge();
  const [dialog, setDialog] = useState<Open>({ name: "" });
  const tab = tabs.find((name) => name === parameters.get("tab")) ?? "timeline";
  const at = Number(parameters.get("at")) || 0;
  useMarks(live);
  useEffect(() => {
    document.title = `${id}, Tailrace`;
  }, [id]);
  const origin = useMemo(() => originOf(live?.records ?? []), [live, live?.records.length]);
  if (live === undefined) return null;
  const set = (name: string, value: string) => {
    const latest = new URLSearchParams(location.search); // a replay calls the function of an earlier rendering
    latest.set(name, value);
    if (value === "") latest.delete(name);
    open(`${location.pathname}?${latest}`, true);
  };
  return (
    <main class="session">
      <div class="above">
        <a href="/inspect" onClick={follow}>‹ Sessions</a>
        {origin !== undefined && (
          <span>
            Fork of <a href={sessionPath(origin.session)} onClick={follow} dir="auto">{origin.session}</a>,{" "}
            <a href={`/inspect/compare?${new URLSearchParams({ a: origin.session, b: id })}`} onClick={follow}>compare with the origin</a>
          </span>
        )}
        <Actions live={live} at={at} edge={edge} dialog={dialog} onDialog={setDialog} />
        <ViewMenu edge={edge} view={view} onView={(name) => set("view", name)} />
      </div>
      <SessionView
        live={live} tab={tab} onTab={(name) => set("tab", name)} selected={parameters.get("node") ?? ""} onSelect={(node) => set("node", node)}
        at={at} onSeek={(sequence) => set("at", sequence === 0 ? "" : String(sequence))} onOpen={setDialog}
      />
    </main>
  );
}

interface SessionViewProps {
  live: Shown;
  tab: Tab;
  onTab: (tab: Tab) => void;
  /** The tabs that are offered, all without it. */
  only?: readonly Tab[];
  /** The id of a node, "" for none. */
  selected: string;
  onSelect: (id: string) => void;
  /** The sequence of the last record that is shown, 0 for the end of the session. */
  at: number;
  onSeek: (sequence: number) => void;
  /** Opens a dialog for a node. Without it the details of nodes have no actions. */
  onOpen?: (dialog: Open) => void;
}

/** A session with its tabs, at its end or at an earlier record. */
export function SessionView(props: SessionViewProps) {
  const { live, tab, onTab, only = tabs, selected, onSelect, at, onSeek, onOpen } = props;
  const { connection } = live;
  const replay = useMemo(() => (at === 0 ? undefined : new Replay(live.records)), [live.records, at === 0]);
  const shown = viewAt(live, replay, at);
  const { outline } = shown;
  const node = outline.node(selected);
  const errors = useMemo(() => outline.nodes.filter(isFailure).map((n) => n.id), [outline, outline.position]);
  const nextError = (by: number) => {
    const at = errors.indexOf(selected);
    const to = errors[at < 0 ? (by > 0 ? 0 : errors.length - 1) : at + by];
    if (to !== undefined) onSelect(to);
  };
  const keys: Record<string, () => void> = { "[": () => nextError(-1), "]": () => nextError(1), Escape: () => onSelect("") };
  only.forEach((name, i) => (keys[String(i + 1)] = () => onTab(name)));
  useKeys(keys);

  if (connection.state === "unknown") return <Unknown live={live} since={connection.since} />;
  if (connection.state === "refused") return <Refused problem={connection.problem} again={live.again} />;
  const hasDetail = tab === "conversation" || tab === "timeline";
  const find = (id: string) => {
    if (!hasDetail) onTab("timeline");
    onSelect(id);
  };
  return (
    <>
      <Heading live={live} shown={shown} errors={errors.length} />
      <div class="strip">
        <div class="tabs" role="tablist" aria-label="Parts of the session">
          {only.map((name) => (
            <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={name === tab} aria-controls="panel" onClick={() => onTab(name)}>{name}</button>
          ))}
        </div>
        <Find live={shown} onHit={find} />
      </div>
      {live.expired > 0 && <Expired id={live.id} view={live.view} through={live.expired} />}
      {live.forgotten > 0 && <p class="notice">The records up to #{live.forgotten} are not loaded: a page has at most the latest {count(mostRecords, "record")}. "tailrace tail --json" prints all.</p>}
      <div class={node !== undefined && hasDetail ? "panes two" : "panes"} id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === "conversation" && <Conversation live={shown} selected={selected} onSelect={onSelect} />}
        {tab === "timeline" && <Timeline live={shown} selected={selected} onSelect={onSelect} />}
        {tab === "state" && <State live={shown} />}
        {tab === "records" && <Records live={shown} node={node} />}
        {tab === "wire" && <Wire id={live.id} view={live.view} />}
        {tab === "delivery" && <Delivery live={shown} onSelect={find} />}
        {node !== undefined && hasDetail && (
          <Detail node={node} live={shown} onClose={() => onSelect("")} onRecords={() => onTab("records")}>
            {onOpen !== undefined && node.kind === "call" && <button type="button" onClick={() => onOpen({ name: "fork", point: pointBefore(live.records, node) })}>Fork before this call</button>}
            {onOpen !== undefined && <button type="button" onClick={() => onOpen({ name: "fork", point: pointAfter(outline, live.records, node) })}>Fork here</button>}
          </Detail>
        )}
      </div>
      {live.records.length > 0 && tab !== "wire" && <Scrubber records={live.records} at={at} onSeek={onSeek} />}
    </>
  );
}

function Unknown({ live: { id, readOnly }, since }: { live: Shown; since: number }) {
  return (
    <section class="card" role="alert">
      <h1>{since === 0 ? "No such session" : "The session was deleted"}</h1>
      <p>{since === 0 ? `No session ${id} is here, or you have no right to read it.` : `${id} was here until ${timeOf(since)}. Since then it is deleted, or you have no right to read it.`}</p>
      {!readOnly && <a href="/inspect" onClick={follow}>All sessions</a>}
    </section>
  );
}

/** viewAt is a session up to a sequence. */
function viewAt(live: Shown, replay: Replay | undefined, at: number): View {
  if (replay === undefined) return live;
  const n = countUpTo(replay.all, at);
  const { id, view, readOnly, connection, forgotten } = live;
  return { id, view, readOnly, connection, forgotten, outline: replay.seek(n), records: replay.all.slice(0, n) };
}

/** useMarks writes the state of the page to its body, for tests: the status of the root, the position, and the connection. */
export function useMarks(live: Shown | undefined): void {
  useEffect(() => {
    const { dataset } = document.body;
    dataset["status"] = live?.outline.agents.find((agent) => agent.session === live.id)?.status ?? "";
    dataset["position"] = String(live?.outline.position ?? 0);
    dataset["connection"] = live?.connection.state ?? "";
  });
}
