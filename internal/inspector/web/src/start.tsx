import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { explain, getJSON, postJSON, Problem } from "./api.js";
import { Bring, Code } from "./code.js";
import { Conversation } from "./conversation.js";
import { count } from "./format.js";
import { follow, open, sessionPath } from "./link.js";
import type { LiveSession } from "./live.js";
import { Refused } from "./parts.js";
import { check, reload, reloadedAfter } from "./proof.js";
import { SessionView, useMarks, type Tab } from "./session.js";
import { useLive } from "./use_live.js";

/** An agent of chats, with messages to try. */
interface Agent {
  type: string;
  prompts: ReadonlyArray<{ title: string; summary: string; text: string }>;
}

/** The chat follows new text while the user has not scrolled farther from its end, in pixels. */
const nearEnd = 200;

/** newId returns an id that no other page makes. crypto.randomUUID is not there without TLS. */
function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The first screen: a chat with an agent, and the session that it makes. The session is in the fragment of the address, so a reload and a second tab have it. */
export function Start() {
  const id = new URLSearchParams(location.hash.slice(1)).get("s") ?? "";
  const [fresh, setFresh] = useState("");
  const [tab, setTab] = useState<Tab>("timeline");
  const [selected, setSelected] = useState("");
  const [at, setAt] = useState(0);
  const live = useLive(id, { waits: id === fresh });
  const { agents, problem, again } = useAgents();
  const chat = useRef<HTMLDivElement>(null);
  const height = useRef(0); // of the chat before the latest records, of which there may be a screen at once
  useMarks(live);
  useEffect(() => {
    document.title = "Tailrace";
    const changed = () => dispatchEvent(new PopStateEvent("popstate"));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    const box = chat.current;
    if (box === null) return;
    if (height.current - box.scrollTop - box.clientHeight < nearEnd) box.scrollTop = box.scrollHeight;
    height.current = box.scrollHeight;
  }, [live?.outline.position, agents]); // agents make the composer higher

  /** begin returns the session of a message, a new one without a session in the address. */
  const begin = () => {
    live?.expectRun();
    if (id !== "" && live?.connection.state !== "unknown") return id;
    const next = id || newId();
    setFresh(next);
    if (id === "") open(`/#s=${next}`);
    else live?.again();
    return next;
  };
  const refused = live?.connection.state === "refused" ? live.connection.problem : problem;
  if (refused !== undefined) {
    return <main><Refused problem={refused} again={() => (again(), live?.again())} /></main>;
  }
  const known = live !== undefined && live.connection.state !== "unknown";
  return (
    <main class={known ? "start two" : "start"}>
      <section class="chat" aria-label="Chat">
        {known ? (
          <div class="scroll" ref={chat}>
            <Conversation live={live} onSelect={setSelected} />
          </div>
        ) : (
          <div class="welcome">
            <h1>Write to an agent</h1>
            <p>Its answer is a log, and this page reads it: reload in the middle, open a second tab, stop the server and start it again.</p>
          </div>
        )}
        <Composer session={begin} agents={agents} />
        {known && <Proof live={live} />}
        {known && <Takeover live={live} />}
        {known && (
          <p class="links">
            <a href="/" onClick={follow}>New session</a>
            <button type="button" class="link" onClick={() => reload(id, live.outline.position)}>Reload me</button>
            <a href={`/#s=${encodeURIComponent(id)}`} target="_blank" rel="noopener">Second tab</a>
            <a href={sessionPath(id)} onClick={follow}>Inspect</a>
          </p>
        )}
        {known && <Code id={id} />}
        <Bring />
      </section>
      {known && (
        <section class="session" aria-label="Session">
          <SessionView live={live} tab={tab} onTab={setTab} selected={selected} onSelect={setSelected} at={at} onSeek={setAt} />
        </section>
      )}
    </main>
  );
}

/** What a reload in the middle of an answer has shown: the page has each record of the log once. */
function Proof({ live }: { live: LiveSession }) {
  const after = useMemo(() => reloadedAfter(live.id), [live.id]);
  const { position } = live.outline;
  if (after === 0 || position < after || live.forgotten > 0) return null;
  const { missing, twice } = check(live.records);
  return (
    <p class="notice" role="status">
      Reloaded at #{after}, now at #{position}. {missing + twice === 0 ? "Each record of each agent is here once: their ordinals have no gap." : `${count(missing, "record")} missing, ${twice} here twice.`}
    </p>
  );
}

/** Another worker has continued the run, and what it has removed of it. */
function Takeover({ live }: { live: LiveSession }) {
  const { nodes } = live.outline;
  const at = nodes.findLastIndex((node) => node.kind === "run" && node.mode === "takeover");
  if (at < 0) return null;
  const removed = nodes.slice(at).reduce((sum, node) => sum + (node.kind === "removed" ? node.count : 0), 0);
  return (
    <p class="notice" role="status">
      Another worker has continued the run. {removed === 0 ? "No record was removed." : `${count(removed, "record")} of the unfinished step were removed.`} Completed steps are as they were.
    </p>
  );
}

/** useAgents requests the agents of chats; they are undefined until the response is there. */
function useAgents() {
  const [agents, setAgents] = useState<Agent[]>();
  const [problem, setProblem] = useState<Problem>();
  const load = () => {
    setProblem(undefined);
    getJSON<{ agents: Agent[] }>("/v1/agents").then(
      (list) => setAgents(list.agents),
      (error: unknown) => setProblem(error instanceof Problem ? error : new Problem(0, "", explain(error), 0)),
    );
  };
  useEffect(load, []);
  return { agents, problem, again: load };
}

/** The field for a message to an agent, with messages to try. */
function Composer({ session, agents }: { session: () => string; agents: readonly Agent[] | undefined }) {
  const [text, setText] = useState("");
  const [failure, setFailure] = useState("");
  const [chosen, setChosen] = useState("");
  const agent = agents?.find(({ type }) => type === chosen) ?? agents?.[0];
  const send = async (message: string) => {
    if (message.trim() === "") return;
    const body = { id: session(), agentType: agent?.type, messages: [{ id: newId(), role: "user", parts: [{ type: "text", text: message }] }] };
    setText("");
    try {
      await postJSON("/api/chat", body);
      setFailure("");
    } catch (error) {
      setFailure(explain(error));
      setText((now) => now || message);
    }
  };
  if (agents?.length === 0) return <NoAgent />;
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
      {agents !== undefined && agents.length > 1 && (
        <label class="agent">
          Agent
          <select value={agent?.type ?? ""} onChange={(event) => setChosen(event.currentTarget.value)}>
            {agents.map(({ type }) => <option key={type} value={type}>{type}</option>)}
          </select>
        </label>
      )}
      {agent !== undefined && agent.prompts.length > 0 && (
        <div class="prompts" role="group" aria-label="Messages to try">
          {agent.prompts.map((p) => <button key={p.title} type="button" title={p.summary} onClick={() => void send(p.text)}>{p.title}</button>)}
        </div>
      )}
    </form>
  );
}

/** What to do on a server without an agent. */
function NoAgent() {
  return (
    <section class="card">
      <h2>No agent is configured</h2>
      <p>Name the agents of chats, and run a worker that has them:</p>
      <pre tabIndex={0}>{"TAILRACE_CHAT_AGENT=support tailrace edge\nTAILRACE_AGENTS=agents.json tailrace worker"}</pre>
    </section>
  );
}
