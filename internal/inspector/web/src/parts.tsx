import { useState } from "preact/hooks";

import { indentJSON } from "../../../../clients/ts/src/rawjson.js";
import { explain, signIn, type Problem } from "./api.js";
import { bearer } from "./credential.js";
import { forgetEdge } from "./edge.js";
import { durationOf } from "./format.js";
import type { Status } from "./words.js";

/** A status as a sign and a word. */
export function Badge({ status }: { status: Status }) {
  if (status.word === "done") return <span class="badge good" role="img" aria-label="done" title="done">{status.sign}</span>;
  return (
    <span class={`badge ${status.tone}`}>
      <span aria-hidden="true">{status.sign}</span> {status.word}
    </span>
  );
}

/** JSON as it is stored, with line breaks. */
export function JSONText({ text }: { text: string }) {
  return <pre class="json" dir="auto" tabIndex={0}>{indentJSON(text)}</pre>;
}

/** Why the server has refused a request. With the status 401 it asks for a token, unless the page has one from a link. */
export function Refused({ problem, again }: { problem: Problem; again: () => void }) {
  if (problem.status === 401 && bearer() !== "") return <ShareEnded />;
  if (problem.status === 401) return <SignIn again={again} />;
  const wait = problem.after > 0 ? ` Try again in ${durationOf(problem.after)}.` : "";
  return (
    <section class="card" role="alert">
      <h2>{problem.status === 403 ? "No right to see this" : "The server refused the request"}</h2>
      <p>{problem.message}{wait}</p>
      <button type="button" onClick={again}>Try again</button>
    </section>
  );
}

/** The place of a shared session after the end of its link. */
export function ShareEnded() {
  return (
    <section class="card" role="alert">
      <h1>This link has ended</h1>
      <p>It has expired, or was revoked. Ask for another one.</p>
    </section>
  );
}

function SignIn({ again }: { again: () => void }) {
  const [failure, setFailure] = useState("");
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem("token") as HTMLInputElement;
    const token = field.value.trim();
    field.value = "";
    try {
      await signIn(token);
      forgetEdge();
      again();
    } catch (error) {
      setFailure(explain(error));
    }
  };
  return (
    <form class="card" onSubmit={send}>
      <h2>Sign in</h2>
      <p>This server wants a token. The page changes it for a cookie of this browser and does not keep it.</p>
      <label>
        Token <input name="token" type="password" autocomplete="off" required autofocus />
      </label>
      <button type="submit">Sign in</button>
      {failure !== "" && <p class="failure" role="alert">{failure}</p>}
    </form>
  );
}
