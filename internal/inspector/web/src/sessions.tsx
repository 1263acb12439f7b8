import { useEffect, useMemo, useState } from "preact/hooks";

import { getJSON, Problem, type ListedSession, type SessionList } from "./api.js";
import { durationOf, exactTime, shorten, timeOf } from "./format.js";
import { useKeys } from "./keys.js";
import { follow, open, sessionPath } from "./link.js";
import { Badge, Refused } from "./parts.js";
import { statusOf } from "./words.js";

/** The first page is requested again after this time while it is visible, in milliseconds. */
const refresh = 2_000;

const statuses = ["active", "paused", "ended", "failed"] as const;

/** The list of sessions, the last saved first. The filters are in the address. */
export function Sessions() {
  const parameters = new URLSearchParams(location.search);
  const [status, agent] = [parameters.get("status") ?? "", parameters.get("agentType") ?? ""];
  const filter = useMemo(() => new URLSearchParams({ limit: "50", ...(status && { status }), ...(agent && { agentType: agent }) }).toString(), [status, agent]);
  const { list, problem, again, more } = useSessions(filter);
  useKeys({ j: () => step(1), k: () => step(-1), "/": () => document.querySelector<HTMLElement>("#agent")?.focus() });

  const set = (name: string, value: string) => {
    parameters.set(name, value);
    if (value === "") parameters.delete(name);
    open(`/inspect?${parameters}`, true);
  };
  const waiting = list?.sessions.filter((s) => s.status === "paused").length ?? 0;
  useEffect(() => {
    document.title = waiting > 0 ? `(${waiting}) Sessions, Tailrace` : "Sessions, Tailrace";
  }, [waiting]);

  return (
    <main class="sessions">
      <div class="heading">
        <h1>Sessions</h1>
        <form class="filters" onSubmit={(event) => event.preventDefault()}>
          <label>
            Status
            <select value={status} onChange={(event) => set("status", event.currentTarget.value)}>
              <option value="">all</option>
              {statuses.map((name) => <option key={name} value={name}>{statusOf(name).word}</option>)}
            </select>
          </label>
          <label>
            Agent
            <input id="agent" value={agent} placeholder="all" onChange={(event) => set("agentType", event.currentTarget.value.trim())} />
          </label>
        </form>
      </div>
      {problem !== undefined && <Refused problem={problem} again={again} />}
      {list?.sessions.length === 0 && <Empty filtered={status !== "" || agent !== ""} />}
      {list !== undefined && list.sessions.length > 0 && (
        <div class="table" role="table" aria-label="Sessions">
          <div class="row head" role="row">
            {["Status", "Session", "Agent", "Owner", "Last save", "Duration", "Position"].map((name) => <span key={name} role="columnheader">{name}</span>)}
          </div>
          {list.sessions.map((s) => <Row key={s.session.id} of={s} />)}
        </div>
      )}
      {list !== undefined && list.before !== null && <button type="button" onClick={more}>Earlier sessions</button>}
    </main>
  );
}

function Row({ of }: { of: ListedSession }) {
  const { id, agentType = "", owner = "" } = of.session;
  return (
    <div class="row" role="row" title={`as of the last save, ${exactTime(of.timestamp)}`}>
      <span role="cell"><Badge status={statusOf(of.status)} /></span>
      <span role="cell" class="id" dir="auto"><a class="whole" href={sessionPath(id)} onClick={follow}>{id}</a></span>
      <span role="cell" dir="auto">{shorten(agentType, 40)}</span>
      <span role="cell" dir="auto">{shorten(owner, 40)}</span>
      <span role="cell">{timeOf(of.timestamp)}</span>
      <span role="cell">{durationOf(of.timestamp - of.created)}</span>
      <span role="cell" class="number">#{of.streamSequence}</span>
    </div>
  );
}

function Empty({ filtered }: { filtered: boolean }) {
  if (filtered) return <p class="card">No session matches the filters.</p>;
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

/** useSessions requests the first page again and again, and further pages when the user asks for them. */
function useSessions(filter: string) {
  const [first, setFirst] = useState<SessionList>();
  const [earlier, setEarlier] = useState<SessionList>();
  const [problem, setProblem] = useState<Problem>();
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    setEarlier(undefined);
    const load = async () => {
      if (!document.hidden) {
        try {
          const list = await getJSON<SessionList>(`/v1/sessions?${filter}`, stop.signal);
          setFirst(list);
          setProblem(undefined);
        } catch (error) {
          if (stop.signal.aborted) return;
          setProblem(error instanceof Problem ? error : new Problem(0, "", "The server cannot be reached.", 0));
          if (error instanceof Problem && error.status === 401) return;
        }
      }
      timer = setTimeout(() => void load(), refresh);
    };
    void load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [filter, attempt]);

  const more = async () => {
    const before = (earlier ?? first)?.before;
    if (before === undefined || before === null) return;
    try {
      const page = await getJSON<SessionList>(`/v1/sessions?${filter}&before=${encodeURIComponent(before)}`);
      setEarlier({ sessions: [...(earlier?.sessions ?? []), ...page.sessions], before: page.before });
    } catch (error) {
      if (error instanceof Problem) setProblem(error);
    }
  };
  const list = first && merged(first, earlier);
  return { list, problem, again: () => setAttempt((n) => n + 1), more };
}

/** merged returns the rows of the first page and of those that were requested before, each session once. */
function merged(first: SessionList, earlier: SessionList | undefined): SessionList {
  if (earlier === undefined) return first;
  const known = new Set(first.sessions.map((s) => s.session.id));
  return { sessions: [...first.sessions, ...earlier.sessions.filter((s) => !known.has(s.session.id))], before: earlier.before };
}

