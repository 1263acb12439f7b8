import { useEffect, useMemo, useState } from "preact/hooks";

import type { OutlineNode } from "../../../../clients/ts/src/outline.js";
import { explain, postJSON } from "./api.js";
import { Conversation } from "./conversation.js";
import { Detail } from "./detail.js";
import { Expired } from "./expired.js";
import { count, durationOf, exactTime, timeOf } from "./format.js";
import { useKeys } from "./keys.js";
import { follow, open } from "./link.js";
import type { LiveSession, View } from "./live.js";
import { Badge, Refused } from "./parts.js";
import { Records } from "./records.js";
import { countUpTo, Replay } from "./replay.js";
import { Scrubber } from "./scrubber.js";
import { State } from "./state.js";
import { Timeline } from "./timeline.js";
import { useLive } from "./use_live.js";
import { Wire } from "./wire.js";
import { isFailure, statusOf } from "./words.js";

const tabs = ["conversation", "timeline", "state", "records", "wire"] as const;
export type Tab = (typeof tabs)[number];

/** The page of one session. The tab and the selected node are in the address. */
export function SessionPage({ id }: { id: string }) {
  const live = useLive(id);
  const parameters = new URLSearchParams(location.search);
  const tab = tabs.find((name) => name === parameters.get("tab")) ?? "timeline";
  useMarks(live);
  useEffect(() => {
    document.title = `${id}, Tailrace`;
  }, [id]);
  if (live === undefined) return null;
  const set = (name: string, value: string) => {
    parameters.set(name, value);
    if (value === "") parameters.delete(name);
    open(`${location.pathname}?${parameters}`, true);
  };
  return (
    <main class="session">
      <a class="back" href="/inspect" onClick={follow}>‹ Sessions</a>
      <SessionView
        live={live} tab={tab} onTab={(name) => set("tab", name)} selected={parameters.get("node") ?? ""} onSelect={(node) => set("node", node)}
        at={Number(parameters.get("at")) || 0} onSeek={(sequence) => set("at", sequence === 0 ? "" : String(sequence))}
      />
    </main>
  );
}

interface SessionViewProps {
  live: LiveSession;
  tab: Tab;
  onTab: (tab: Tab) => void;
  /** The id of a node, "" for none. */
  selected: string;
  onSelect: (id: string) => void;
  /** The sequence of the last record that is shown, 0 for the end of the session. */
  at: number;
  onSeek: (sequence: number) => void;
}

/** A session with its tabs, at its end or at an earlier record. */
export function SessionView(props: SessionViewProps) {
  const { live, tab, onTab, selected, onSelect, at, onSeek } = props;
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
  tabs.forEach((name, i) => (keys[String(i + 1)] = () => onTab(name)));
  useKeys(keys);

  if (connection.state === "unknown") {
    return (
      <section class="card" role="alert">
        <h1>No such session</h1>
        <p>No session {live.id} is here, or you have no right to read it.</p>
        <a href="/inspect" onClick={follow}>All sessions</a>
      </section>
    );
  }
  if (connection.state === "refused") return <Refused problem={connection.problem} again={live.again} />;
  const hasDetail = tab === "conversation" || tab === "timeline";
  return (
    <>
      <Heading live={live} shown={shown} errors={errors.length} />
      <div class="tabs" role="tablist" aria-label="Parts of the session">
        {tabs.map((name) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={name === tab} aria-controls="panel" onClick={() => onTab(name)}>
            {name}
          </button>
        ))}
      </div>
      {live.expired > 0 && <Expired id={live.id} through={live.expired} />}
      <div class={node !== undefined && hasDetail ? "panes two" : "panes"} id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === "conversation" && <Conversation live={shown} onSelect={onSelect} />}
        {tab === "timeline" && <Timeline live={shown} selected={selected} onSelect={onSelect} />}
        {tab === "state" && <State live={shown} />}
        {tab === "records" && <Records live={shown} node={node} />}
        {tab === "wire" && <Wire id={live.id} />}
        {node !== undefined && hasDetail && <Detail node={node} live={shown} onClose={() => onSelect("")} onRecords={() => onTab("records")} />}
      </div>
      {live.records.length > 0 && tab !== "wire" && <Scrubber records={live.records} at={at} onSeek={onSeek} />}
    </>
  );
}

/** viewAt is a session up to a sequence. */
function viewAt(live: LiveSession, replay: Replay | undefined, at: number): View {
  if (replay === undefined) return live;
  const count = countUpTo(replay.all, at);
  return { id: live.id, connection: live.connection, outline: replay.seek(count), records: replay.all.slice(0, count) };
}

/** useMarks writes the state of the page to its body, for tests: the status of the root, the position, and the connection. */
export function useMarks(live: LiveSession | undefined): void {
  useEffect(() => {
    const { dataset } = document.body;
    dataset["status"] = live?.outline.agents.find((agent) => agent.session === live.id)?.status ?? "";
    dataset["position"] = String(live?.outline.position ?? 0);
    dataset["connection"] = live?.connection.state ?? "";
  });
}

function Heading({ live, shown, errors }: { live: LiveSession; shown: View; errors: number }) {
  const { outline, connection } = shown;
  const root = outline.agents.find((agent) => agent.session === live.id) ?? outline.agents[0];
  const facts = useMemo(() => factsOf(outline.nodes), [outline, outline.position]);
  return (
    <div class="heading">
      <h1 dir="auto">{live.id}</h1>
      {root !== undefined && <Badge status={statusOf(root.status)} />}
      <span dir="auto">{root?.type}</span>
      {facts.from > 0 && (
        <span title={exactTime(facts.from)}>
          {timeOf(facts.from)}, {durationOf(facts.to - facts.from)}
        </span>
      )}
      <span>{count(facts.runs, "run")}</span>
      {facts.tokens > 0 && <span>{count(facts.tokens, "token")}</span>}
      {errors > 0 && <span class="bad">{count(errors, "error")}</span>}
      <ConnectionState live={live} />
      {root?.status === "active" && shown === live && connection.state === "live" && <Stop id={live.id} />}
    </div>
  );
}

function ConnectionState({ live }: { live: LiveSession }) {
  const { connection, outline } = live;
  const position = outline.position > 0 ? `#${outline.position}` : "";
  switch (connection.state) {
    case "lost":
      return <span class="connection bad" role="status" title={connection.reason}>connection lost for {durationOf(Date.now() - connection.since)}, shown up to {position}</span>;
    case "loading":
      return <span class="connection" role="status">loading</span>;
    default:
      return <span class="connection" role="status">{connection.state === "live" ? "live" : "complete"} {position}</span>;
  }
}

function Stop({ id }: { id: string }) {
  const [failure, setFailure] = useState("");
  const stop = () => {
    postJSON(`/api/chat/${encodeURIComponent(id)}/stop`, {}).then(() => setFailure(""), (error: unknown) => setFailure(explain(error)));
  };
  return (
    <>
      <button type="button" onClick={stop}>Stop</button>
      {failure !== "" && <span class="failure" role="alert">{failure}</span>}
    </>
  );
}

/** factsOf returns the sums of the heading. */
function factsOf(nodes: readonly OutlineNode[]) {
  const facts = { from: nodes[0]?.from ?? 0, to: 0, runs: 0, tokens: 0 };
  for (const node of nodes) {
    facts.to = Math.max(facts.to, node.to ?? node.from);
    if (node.kind === "run" && node.parent === "") facts.runs++;
    if (node.kind === "step" && node.usage !== undefined) facts.tokens += node.usage.inputTokens + node.usage.outputTokens;
  }
  return facts;
}
