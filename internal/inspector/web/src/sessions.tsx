import { useEffect, useState } from "preact/hooks";

import type { ListedSession, SessionList } from "./api.js";
import { FilterBar, Filters } from "./filters.js";
import { costOf, count, durationOf, exactTime, shorten, timeOf, tokensOf } from "./format.js";
import { useKeys } from "./keys.js";
import { follow, sessionPath } from "./link.js";
import { Badge, Refused } from "./parts.js";
import { ErrorGroups, Totals } from "./totals.js";
import { useSessions } from "./use_sessions.js";
import { statusOf } from "./words.js";

/** The list of sessions, the last saved first. */
export function Sessions() {
  const filters = new Filters(new URLSearchParams(location.search));
  const [over, setOver] = useState(false);
  const { rows, loaded, fresh, end, summary, problem, again, more } = useSessions(filters.list, filters.range, filters.searches, over);
  useKeys({ j: () => step(1), k: () => step(-1), "/": () => document.querySelector<HTMLElement>("#search")?.focus() });

  const waiting = summary?.waiting ?? 0;
  useEffect(() => {
    document.title = waiting > 0 ? `(${waiting}) Sessions, Tailrace` : "Sessions, Tailrace";
  }, [waiting]);

  return (
    <main class="sessions">
      <div class="heading">
        <h1>Sessions</h1>
        {summary !== undefined && <Totals of={summary} filters={filters} />}
      </div>
      <FilterBar filters={filters} models={summary?.usage?.map((of) => of.model ?? "") ?? []} />
      {problem !== undefined && <Refused problem={problem} again={again} />}
      {summary !== undefined && <ErrorGroups of={summary} filters={filters} />}
      {!loaded && filters.searches && problem === undefined && <p class="quiet" role="status">Searching…</p>}
      {loaded && rows.length === 0 && <Empty filters={filters} />}
      {rows.length > 0 && (
        <div class="table" role="table" aria-label="Sessions" onPointerEnter={() => setOver(true)} onPointerLeave={() => setOver(false)}>
          <div class="row head" role="row">
            {["Status", "Session", "Agent", "Last save", "Used"].map((name) => <span key={name} role="columnheader">{name}</span>)}
          </div>
          {rows.map((row) => <Row key={row.session.id} of={row} />)}
        </div>
      )}
      {fresh > 0 && <p class="fresh" role="status">{count(fresh, "newer session")}; shown when the pointer leaves the list</p>}
      {end !== undefined && end.before !== null && <Earlier end={end} more={more} found={rows.length} />}
    </main>
  );
}

function Row({ of }: { of: ListedSession }) {
  const { id, agentType = "", owner = "" } = of.session;
  const { title = "", failedCalls = 0 } = of;
  const { approvals = 0, clientTools = 0 } = of.waits ?? {};
  return (
    <div class="row" role="row" title={`as of the last save, ${exactTime(of.timestamp)}`}>
      <span role="cell" class="status"><Badge status={statusOf(of.status)} /></span>
      <span role="cell" class="what">
        <a class="whole" dir="auto" href={sessionPath(id)} onClick={follow}>{shorten(title === "" ? id : title, 80)}</a>
        <span class="under">
          {title !== "" && <span class="id" dir="auto">{shorten(id, 40)}</span>}
          {of.origin != null && <a href={sessionPath(of.origin.session)} onClick={follow}>fork of {shorten(of.origin.session, 40)}</a>}
          {of.runs !== undefined && of.runs > 1 && <span class="runs">{count(of.runs, "run")}</span>}
          {approvals > 0 && <a class="ask" href={`${sessionPath(id)}?tab=conversation`} onClick={follow}>{count(approvals, "call")} to approve</a>}
          {clientTools > 0 && <span class="ask">{count(clientTools, "call")} for the client</span>}
          <Failure of={of} />
          {failedCalls > (of.error?.tool === undefined ? 0 : 1) && <span class="failures">{count(failedCalls, "failed call")}</span>}
        </span>
      </span>
      <span role="cell" class="agent" dir="auto">
        <span>{shorten(agentType, 40)}</span>
        <span class="under">{shorten(owner, 40)}</span>
      </span>
      <span role="cell" class="when">
        <span>{timeOf(of.timestamp)}</span>
        <span class="under">{durationOf(of.timestamp - of.created)}</span>
      </span>
      <span role="cell" class="used">
        {of.usage !== undefined && of.usage.length > 0 && <span>{tokensOf(of.usage)} tokens</span>}
        {of.cost !== undefined && <span class="under">{costOf(of)}</span>}
      </span>
    </div>
  );
}

/** The latest error. Of a session that has continued after it, it is quiet. */
function Failure({ of: { status, error } }: { of: ListedSession }) {
  if (error === undefined || error === null) return null;
  const text = [error.tool ?? error.code, error.text].filter(Boolean).join(": ");
  return (
    <span class={status === "failed" ? "error bad" : "error"} dir="auto">
      <span aria-hidden="true">✗</span> {shorten(text, 120)}
    </span>
  );
}

/** How to read on, and how far the search has come. */
function Earlier({ end, found, more }: { end: SessionList; found: number; more: () => void }) {
  const partial = end.sessions.length < 50 && end.through !== undefined;
  return (
    <p class="earlier">
      {partial && <span class="quiet">{found === 0 ? "Nothing found" : "Searched"} back to {timeOf(end.through ?? 0)}. </span>}
      <button type="button" onClick={more}>{partial ? "Search further back" : "Earlier sessions"}</button>
    </p>
  );
}

function Empty({ filters }: { filters: Filters }) {
  if (filters.used) {
    return (
      <section class="card">
        <p>No session matches the filters.</p>
        <a href="/inspect" onClick={follow}>Show all sessions</a>
      </section>
    );
  }
  return (
    <section class="card">
      <h2>No session yet</h2>
      <p>Write to an agent on the <a href="/" onClick={follow}>start page</a>, or send a chat from a terminal:</p>
      <pre tabIndex={0}>{`curl -N ${location.origin}/api/chat -H 'Content-Type: application/json' \\\n  -d '{"id":"s1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Hello"}]}]}'`}</pre>
    </section>
  );
}

/** step moves the focus to another row. */
function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("a.whole")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}
