import { useEffect, useRef, useState } from "preact/hooks";

import { explain, getJSON, postJSON, Problem } from "./api.js";
import { Conversation } from "./conversation.js";
import { follow, open, sessionPath } from "./link.js";
import { Refused } from "./parts.js";
import { SessionView, useMarks, type Tab } from "./session.js";
import { useLive } from "./use_live.js";

/** A message that the demo agent knows. */
interface Prompt {
  title: string;
  summary: string;
  prompt: string;
}

/** The first screen: a chat with an agent, and the session that it makes. The session is in the fragment of the address, so a reload and a second tab have it. */
export function Start() {
  const id = new URLSearchParams(location.hash.slice(1)).get("s") ?? "";
  const [fresh, setFresh] = useState("");
  const [tab, setTab] = useState<Tab>("timeline");
  const [selected, setSelected] = useState("");
  const live = useLive(id, id === fresh);
  const { prompts, problem, again } = usePrompts();
  const end = useRef<HTMLDivElement>(null);
  useMarks(live);
  useEffect(() => {
    document.title = "Tailrace";
    const changed = () => dispatchEvent(new PopStateEvent("popstate"));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [live?.outline.position]);

  /** begin returns the session of a message, a new one without a session in the address. */
  const begin = () => {
    live?.expectRun();
    if (id !== "" && live?.connection.state !== "unknown") return id;
    const next = id || crypto.randomUUID();
    setFresh(next);
    if (id === "") open(`/#s=${next}`);
    else live?.again();
    return next;
  };
  const refused = live?.connection.state === "refused" ? live.connection.problem : problem;
  if (refused !== undefined) {
    return (
      <main>
        <Refused
          problem={refused}
          again={() => {
            again();
            live?.again();
          }}
        />
      </main>
    );
  }
  const known = live !== undefined && live.connection.state !== "unknown";
  return (
    <main class={known ? "start two" : "start"}>
      <section class="chat" aria-label="Chat">
        {known ? (
          <div class="scroll">
            <Conversation live={live} onSelect={setSelected} />
            <div ref={end} />
          </div>
        ) : (
          <div class="welcome">
            <h1>Write to an agent</h1>
            <p>Its answer is a log, and this page reads it: reload in the middle, open a second tab, stop the server and start it again.</p>
          </div>
        )}
        <Composer session={begin} prompts={prompts} />
        {known && (
          <p class="links">
            <a href="/" onClick={follow}>New session</a>
            <a href={`/#s=${encodeURIComponent(id)}`} target="_blank" rel="noopener">Second tab</a>
            <a href={sessionPath(id)} onClick={follow}>Inspect</a>
          </p>
        )}
      </section>
      {known && (
        <section class="session" aria-label="Session">
          <SessionView live={live} tab={tab} onTab={setTab} selected={selected} onSelect={setSelected} />
        </section>
      )}
    </main>
  );
}

/** usePrompts requests the messages that the demo agent knows, none without it. The problem is that of a client without a credential. */
function usePrompts() {
  const [prompts, setPrompts] = useState<Prompt[]>([]);
  const [problem, setProblem] = useState<Problem>();
  const load = () => {
    getJSON<{ scenarios: Prompt[] }>("/v1/demo/scenarios").then(
      ({ scenarios }) => {
        setPrompts(scenarios);
        setProblem(undefined);
      },
      (error: unknown) => setProblem(error instanceof Problem && error.status === 401 ? error : undefined),
    );
  };
  useEffect(load, []);
  return { prompts, problem, again: load };
}

/** The field for a message, with the messages that the demo agent knows. */
function Composer({ session, prompts }: { session: () => string; prompts: readonly Prompt[] }) {
  const [text, setText] = useState("");
  const [failure, setFailure] = useState("");
  const send = async (message: string) => {
    if (message.trim() === "") return;
    const body = { id: session(), messages: [{ id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text: message }] }] };
    setText("");
    try {
      await postJSON("/api/chat", body);
      setFailure("");
    } catch (error) {
      setFailure(explain(error));
      setText(message);
    }
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send(text);
      }}
    >
      <textarea
        aria-label="Your message" placeholder="Your message" rows={2} value={text} onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send(text);
        }}
      />
      <button type="submit" class="main" disabled={text.trim() === ""}>Send</button>
      {failure !== "" && <p class="failure" role="alert">{failure}</p>}
      {prompts.length > 0 && (
        <div class="prompts" aria-label="Messages to try">
          {prompts.map((p) => <button key={p.title} type="button" title={p.summary} onClick={() => void send(p.prompt)}>{p.title}</button>)}
        </div>
      )}
    </form>
  );
}
