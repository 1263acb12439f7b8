import { useEffect, useState } from "preact/hooks";

import { explain, request } from "./api.js";
import { bytesOf, count } from "./format.js";

const dialects = ["native", "aisdk", "agui", "mastra", "kortyx", "records"] as const;

/** The most bytes that are shown of a response. */
const most = 512 * 1024;

/** The bytes that a client gets that opens the session now, in a dialect and after a cursor. */
export function Wire({ id, view }: { id: string; view: string }) {
  const [dialect, setDialect] = useState<string>("native");
  const [after, setAfter] = useState("");
  const [response, setResponse] = useState({ of: "", text: "", state: "" });
  const path = `/v1/sessions/${encodeURIComponent(id)}/events?${new URLSearchParams({ dialect, ...(after && { after }), ...(view && { view }) })}`;

  useEffect(() => {
    const stop = new AbortController();
    let all = "";
    const show = (state: string) => setResponse({ of: path, text: all.slice(0, most), state });
    const read = async () => {
      const { status, ok, body } = await request(path, { headers: { Accept: "text/event-stream" }, signal: stop.signal });
      if (status === 204) return show("204: nothing follows this cursor, and the run is complete");
      const decoder = new TextDecoder();
      for (const reader = body?.getReader(); reader !== undefined && all.length <= most; ) {
        const { done, value } = await reader.read();
        if (done) return show(ok ? "the response has ended" : `status ${status}`);
        all += decoder.decode(value, { stream: true });
        show("open");
      }
      show(`the first ${count(most, "character")}`);
      stop.abort();
    };
    read().catch((error: unknown) => {
      if (!stop.signal.aborted) show(explain(error));
    });
    return () => stop.abort();
  }, [path]);
  const { text, state } = response.of === path ? response : { text: "", state: "loading" };

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
