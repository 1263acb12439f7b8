import { useEffect, useMemo, useState } from "preact/hooks";

import { rawMembers } from "../../../../clients/ts/src/rawjson.js";
import { explain, getText, Problem } from "./api.js";
import { exactTime } from "./format.js";
import type { View } from "./live.js";
import { JSONText } from "./parts.js";
import { typeOf } from "./records.js";

/** The state of an agent at the position, and before and after each of its changes. The server folds it, as for snapshots. */
export function State({ live }: { live: View }) {
  const [session, setSession] = useState(live.id);
  const [selected, setSelected] = useState(0);
  const changes = useMemo(
    () => live.records.filter((record) => record.session === session && typeOf(record) === "state_patch"),
    [live.records, live.records.length, session],
  );
  const change = changes.find((record) => record.sequence === selected);
  const latest = changes.at(-1)?.sequence ?? live.forgotten;
  const inFile = live.connection.state === "file";
  return (
    <section class="state" aria-label="State">
      <div class="options">
        <label>
          Agent
          <select value={session} onChange={(event) => setSession(event.currentTarget.value)}>
            {live.outline.agents.map((agent) => <option key={agent.session} value={agent.session}>{agent.type} {agent.session}</option>)}
          </select>
        </label>
        <label>
          Change
          <select value={String(selected)} onChange={(event) => setSelected(Number(event.currentTarget.value))}>
            <option value="0">the latest</option>
            {changes.map((record) => <option key={record.sequence} value={String(record.sequence)}>#{record.sequence} {exactTime(record.time).slice(11, 23)}</option>)}
          </select>
        </label>
      </div>
      {latest === 0 && <p class="quiet">This agent has changed no state.</p>}
      {latest > 0 && change === undefined && !inFile && <StateAt root={live.id} view={live.view} session={session} at={latest} />}
      {latest > 0 && inFile && <p class="quiet">A file has the changes and not the states between them: the server folds those.</p>}
      {change !== undefined && (
        <>
          <h3>The change</h3>
          <JSONText text={rawMembers(change.data).get("patches") ?? "[]"} />
          {!inFile && (
            <div class="record-panes">
              <div><h3>Before</h3><StateAt root={live.id} view={live.view} session={session} at={changes[changes.indexOf(change) - 1]?.sequence ?? live.forgotten} /></div>
              <div><h3>After</h3><StateAt root={live.id} view={live.view} session={session} at={change.sequence} /></div>
            </div>
          )}
        </>
      )}
    </section>
  );
}

/** The wait before the state is requested again that the edge could not fold, in milliseconds. */
const retry = 500;

/** The state after a record; at 0 there is none. */
function StateAt({ root, view, session, at }: { root: string; view: string; session: string; at: number }) {
  const [state, setState] = useState("");
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    setFailure("");
    if (at === 0) return setState("{}");
    const query = new URLSearchParams({ at: String(at), partial: "1", ...(session !== root && { root }), ...(view && { view }) });
    let timer: ReturnType<typeof setTimeout>;
    const load = () => {
      getText(`/v1/sessions/${encodeURIComponent(session)}/snapshot?${query}`, stop.signal).then(
        (snapshot) => setState(rawMembers(snapshot).get("state") ?? "null"),
        (error: unknown) => {
          if (stop.signal.aborted) return;
          if (error instanceof Problem && error.status === 503) timer = setTimeout(load, retry); // the edge folds one earlier state of a session at a time
          else setFailure(explain(error));
        },
      );
    };
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [root, view, session, at]);
  return failure === "" ? <JSONText text={state} /> : <p class="failure" role="alert">{failure}</p>;
}
