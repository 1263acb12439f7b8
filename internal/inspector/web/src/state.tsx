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
  const last = changes.at(-1);
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
      {last === undefined && <p class="quiet">This agent has changed no state.</p>}
      {last !== undefined && change === undefined && <StateAt root={live.id} session={session} at={last.sequence} />}
      {change !== undefined && (
        <>
          <h3>The change</h3>
          <JSONText text={rawMembers(change.data).get("patches") ?? "[]"} />
          <div class="record-panes">
            <div><h3>Before</h3><StateAt root={live.id} session={session} at={changes[changes.indexOf(change) - 1]?.sequence ?? 0} /></div>
            <div><h3>After</h3><StateAt root={live.id} session={session} at={change.sequence} /></div>
          </div>
        </>
      )}
    </section>
  );
}

/** The wait before the state is requested again that the edge could not fold, in milliseconds. */
const retry = 500;

/** The state after a record; at 0 there is none. */
function StateAt({ root, session, at }: { root: string; session: string; at: number }) {
  const [state, setState] = useState("");
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    setFailure("");
    if (at === 0) return setState("{}");
    const query = new URLSearchParams({ at: String(at), partial: "1", ...(session !== root && { root }) });
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
  }, [root, session, at]);
  return failure === "" ? <JSONText text={state} /> : <p class="failure" role="alert">{failure}</p>;
}
