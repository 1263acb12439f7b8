import { useState } from "preact/hooks";

import { indentJSON } from "../../../../clients/ts/src/rawjson.js";
import { explain, postForJSON, Problem } from "./api.js";
import { Dialog } from "./dialog.js";
import type { Edge } from "./edge.js";
import { forkBody, type ForkChoice, type Forked, type ForkPoint } from "./fork_request.js";
import { follow, open, sessionPath } from "./link.js";

const nexts: ReadonlyArray<[ForkChoice["next"], string]> = [
  ["nothing", "Nothing: look at it, or write to it later"],
  ["message", "Send a message"],
  ["continue", "Call the agent again"],
];

interface ForkDialogProps {
  id: string;
  /** The agent of the session. */
  type: string;
  edge: Edge | undefined;
  point: ForkPoint;
  onClose: () => void;
}

/** A new session that begins with the messages of this one. */
export function ForkDialog({ id, type, edge, point, onClose }: ForkDialogProps) {
  const [choice, setChoice] = useState<ForkChoice>({ agentType: type, next: "nothing", message: "", output: "" });
  const [edits, setEdits] = useState(false);
  const [failure, setFailure] = useState("");
  const [missing, setMissing] = useState(false);
  const [sending, setSending] = useState(false);
  const change = (members: Partial<ForkChoice>) => setChoice({ ...choice, ...members });
  const types = [...new Set([type, ...(edge?.agents.map((agent) => agent.type) ?? [])])].filter((name) => name !== "");
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    setFailure("");
    setSending(true);
    try {
      const body = forkBody(point, edits ? choice : { ...choice, output: "" }, type);
      const { session } = await postForJSON<Forked>(`/v1/sessions/${encodeURIComponent(id)}/fork`, body);
      open(sessionPath(session));
    } catch (error) {
      if (error instanceof Problem && error.status === 404 && error.code !== "STREAM_NOT_FOUND") setMissing(true);
      else setFailure(error instanceof SyntaxError ? "The result is not JSON." : explain(error));
      setSending(false);
    }
  };
  return (
    <Dialog title="Fork this session" onClose={onClose}>
      <form class="form" onSubmit={send}>
        <p>A new session begins with the finished messages up to #{point.sequence}. The server moves back to the last boundary: before a message, or after a step. This session does not change. With equal choices, the same credential gets the fork that it has made already.</p>
        {types.length > 0 && (
          <label>
            Agent
            <select value={choice.agentType} onChange={(event) => change({ agentType: event.currentTarget.value })}>
              {types.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
        )}
        {point.call !== undefined && (
          <label class="line-of-form">
            <input type="checkbox" checked={edits} onChange={(event) => (setEdits(event.currentTarget.checked), choice.output === "" && change({ output: indentJSON(point.call?.output ?? "null") }))} />
            Replace the result of <code dir="auto">{point.call.name}</code>
          </label>
        )}
        {edits && (
          <label>
            Result, as JSON
            <textarea rows={6} spellcheck={false} class="json" value={choice.output} onInput={(event) => change({ output: event.currentTarget.value })} />
          </label>
        )}
        <fieldset>
          <legend>Then</legend>
          {nexts.map(([value, text]) => (
            <label key={value} class="line-of-form">
              <input type="radio" name="next" checked={choice.next === value} onChange={() => change({ next: value })} /> {text}
            </label>
          ))}
        </fieldset>
        {choice.next === "message" && (
          <label>
            Message
            <textarea rows={3} required value={choice.message} onInput={(event) => change({ message: event.currentTarget.value })} />
          </label>
        )}
        {choice.next !== "nothing" && <p class="notice">Tools run again: what they do happens a second time, with other idempotency keys.</p>}
        <button type="submit" class="main" disabled={missing || sending}>{missing ? "This edge has no forks" : "Fork"}</button>
        {failure !== "" && <p class="failure" role="alert">{failure}</p>}
        <a href={`/inspect?origin=${encodeURIComponent(id)}`} onClick={follow}>Forks of this session</a>
      </form>
    </Dialog>
  );
}
