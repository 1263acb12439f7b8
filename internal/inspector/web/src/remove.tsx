import { useState } from "preact/hooks";

import { explain, Problem, remove } from "./api.js";
import { Dialog } from "./dialog.js";
import { open } from "./link.js";

/** The deletion of a session, for a user who has typed its id. */
export function RemoveDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [forks, setForks] = useState(true);
  const [failure, setFailure] = useState("");
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    remove(`/v1/sessions/${encodeURIComponent(id)}${forks ? "" : "?forks=0"}`).then(
      (headers) => open(headers.has("X-Forks-Left") ? `/inspect?${new URLSearchParams({ origin: id })}` : "/inspect"),
      (error: unknown) => setFailure(whyNot(error)),
    );
  };
  return (
    <Dialog title="Delete this session" onClose={onClose}>
      <form class="form" onSubmit={send}>
        <p>Its records, snapshots and stored values are deleted, with those of its sub-agents. This cannot be undone.</p>
        <label>
          <span>Type <code dir="auto">{id}</code></span>
          <input value={typed} autofocus autocomplete="off" spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
        <label class="line-of-form">
          <input type="checkbox" checked={forks} onChange={(event) => setForks(event.currentTarget.checked)} />
          Also its forks. Those that you may not delete stay.
        </label>
        <button type="submit" class="danger" disabled={typed !== id}>Delete</button>
        {failure !== "" && <p class="failure" role="alert">{failure}</p>}
      </form>
    </Dialog>
  );
}

function whyNot(error: unknown): string {
  if (error instanceof Problem && error.status === 404 && error.code !== "STREAM_NOT_FOUND") return "This edge deletes no sessions: TAILRACE_ALLOW_DELETE is not set.";
  return explain(error);
}
