import { useEffect, useState } from "preact/hooks";

import { explain } from "./api.js";
import { bytesOf, count } from "./format.js";

const dialects = ["native", "aisdk", "agui", "mastra", "kortyx", "records"] as const;

/** The most bytes that are shown of a response. */
const most = 512 * 1024;

/** The bytes that a client gets that opens the session now, in a dialect and after a cursor. */
export function Wire({ id }: { id: string }) {
  const [dialect, setDialect] = useState<string>("native");
  const [after, setAfter] = useState("");
  const [text, setText] = useState("");
  const [state, setState] = useState("");
  const path = `/v1/sessions/${encodeURIComponent(id)}/events?${new URLSearchParams({ dialect, ...(after && { after }) })}`;

  useEffect(() => {
    const stop = new AbortController();
    setText("");
    setState("loading");
    const read = async () => {
      const response = await fetch(path, { headers: { Accept: "text/event-stream" }, signal: stop.signal });
      if (response.status === 204) return setState("204: nothing follows this cursor, and the run is complete");
      if (!response.ok || response.body === null) return setState(`${response.status}: ${await response.text()}`);
      setState("open");
      const decoder = new TextDecoder();
      let all = "";
      for (const reader = response.body.getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) break;
        all += decoder.decode(value, { stream: true });
        setText(all.slice(0, most));
        if (all.length > most) {
          stop.abort();
          return setState(`the first ${count(most, "character")}`);
        }
      }
      setState("the response has ended");
    };
    read().catch((error: unknown) => {
      if (!stop.signal.aborted) setState(explain(error));
    });
    return () => stop.abort();
  }, [path]);

  return (
    <section class="wire" aria-label="Wire">
      <div class="options">
        <label>
          Dialect
          <select value={dialect} onChange={(event) => setDialect(event.currentTarget.value)}>
            {dialects.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        <label>After <input value={after} placeholder="the start" onChange={(event) => setAfter(event.currentTarget.value.trim())} /></label>
        <span class="quiet" role="status">{state}, {count(bytesOf(text), "byte")}</span>
      </div>
      <pre class="json" tabIndex={0}>{`curl -N '${location.origin}${path}'`}</pre>
      <pre class="json frames" dir="auto" tabIndex={0}>{text}</pre>
    </section>
  );
}
