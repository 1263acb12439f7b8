import type { Chunk } from "./chunks.js";
import type { SessionEvent } from "./follow.js";
import type { Message, PendingCall, Snapshot } from "./snapshot.js";

/** A tool call of an agent. */
export interface ToolCall {
  kind: "tool";
  id: string;
  name: string;
  /** streaming: the arguments are incomplete; running: no outcome yet; asking: a user must approve it. */
  state: "streaming" | "running" | "asking" | "approved" | "denied" | "done" | "failed";
  /** The JSON text of the arguments while they stream. */
  inputText: string;
  input?: unknown;
  output?: unknown;
  error?: string;
  /** The session of the sub-agent that the call started. */
  agent?: string;
}

/** A part of what an agent wrote, in order. */
export type AgentPart =
  | { kind: "user"; text: string }
  | { kind: "text"; text: string }
  | { kind: "reasoning"; text: string; complete: boolean }
  | ToolCall
  | { kind: "data"; name: string; data: unknown }
  | { kind: "source"; id: string; title?: string; url?: string; mediaType?: string }
  | { kind: "file"; url: string; mediaType: string; filename?: string }
  | { kind: "error"; text: string };

/** An agent of the tree: the root, or a sub-agent. */
export interface AgentState {
  /** Its session. */
  session: string;
  /** The name of its definition. */
  type: string;
  status: "active" | "paused" | "ended" | "failed";
  /** What it wrote since the snapshot. Those of the root continue the messages of the tree. */
  parts: readonly AgentPart[];
  /** The sessions of its sub-agents, in the order of their start. */
  children: readonly string[];
  /** The session and the call that started it; not of the root. */
  parent?: { session: string; callId: string };
  /** The result for its caller, or the final output of the root. */
  result?: unknown;
  error?: string;
}

/** The state of a session with all its sub-agents. It is immutable: an event gives a new one, which shares what has not changed. */
export interface Tree {
  /** The session that is followed. */
  root: string;
  /** The agents by session. */
  agents: Readonly<Record<string, AgentState>>;
  /** The messages of the snapshot: the finished part of the conversation. */
  messages: readonly Message[];
  /** The calls of the snapshot that wait for a user or the client. Those of later events are in the parts. */
  pendingCalls: readonly PendingCall[];
  /** The session state of the snapshot; later state_patch chunks are not applied. */
  state: unknown;
  /** The id of the last event: the cursor after which to continue. */
  cursor: string;
}

/** emptyTree returns the tree of a session without events. */
export function emptyTree(session: string): Tree {
  return { root: session, agents: { [session]: newAgent(session, "") }, messages: [], pendingCalls: [], state: null, cursor: "0" };
}

/** reduceTree returns the tree after an event. */
export function reduceTree(tree: Tree, event: SessionEvent): Tree {
  const next = { ...tree, cursor: event.id };
  switch (event.type) {
    case "snapshot":
      return fromSnapshot(next, event.snapshot);
    case "chunk":
      return applyChunk(next, event.chunk);
    case "end":
      return change(next, next.root, (a) => ({ ...a, status: "ended", ...(event.finalOutput === undefined ? {} : { result: event.finalOutput }) }));
    case "fail":
      return change(next, next.root, (a) => ({ ...a, status: "failed", error: event.error }));
    case "status":
      return change(next, next.root, (a) => ({ ...a, status: event.status }));
    default: // truncated: a snapshot follows
      return next;
  }
}

/** textOf returns the text that an agent wrote since the snapshot. */
export function textOf(agent: AgentState): string {
  return agent.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
}

/** toolsOf returns the calls of an agent since the snapshot. */
export function toolsOf(agent: AgentState): ToolCall[] {
  return agent.parts.filter((part): part is ToolCall => part.kind === "tool");
}

function newAgent(session: string, type: string): AgentState {
  return { session, type, status: "active", parts: [], children: [] };
}

function fromSnapshot(tree: Tree, snapshot: Snapshot): Tree {
  const agents: Array<[string, AgentState]> = [];
  const root: AgentState = { ...newAgent(tree.root, ""), status: snapshot.status, children: snapshot.children.map((child) => child.session) };
  if (snapshot.error !== undefined) root.error = snapshot.error.message;
  for (const child of snapshot.children) {
    const agent: AgentState = { ...newAgent(child.session, child.type ?? ""), parent: { session: tree.root, callId: child.callId } };
    agent.status = child.status === "running" ? "active" : child.status;
    if (child.result !== undefined) agent.result = child.result;
    agents.push([child.session, agent]);
  }
  agents.push([tree.root, root]);
  // Not by assignment: "__proto__" is a valid id of a session.
  return { ...tree, agents: Object.fromEntries(agents), messages: snapshot.messages, pendingCalls: snapshot.pendingCalls, state: snapshot.state };
}

/** change replaces an agent, which it creates if it is not known. */
function change(tree: Tree, session: string, to: (agent: AgentState) => AgentState, type = ""): Tree {
  const before = Object.hasOwn(tree.agents, session) ? tree.agents[session] : undefined;
  return { ...tree, agents: { ...tree.agents, [session]: to(before ?? newAgent(session, type)) } };
}

function applyChunk(tree: Tree, chunk: Chunk): Tree {
  switch (chunk.type) {
    case "subagent_start":
      return startAgent(tree, chunk.agentId, chunk.subSessionId, chunk.subAgentType, chunk.callId);
    case "subagent_end":
      return change(
        change(tree, chunk.subSessionId, (a) => endAgent(a, chunk.result), chunk.subAgentType),
        chunk.agentId,
        (a) => a,
        chunk.agentType,
      );
    default:
      return change(tree, chunk.agentId, (a) => applyToAgent(a, chunk), chunk.agentType);
  }
}

function startAgent(tree: Tree, parent: string, session: string, type: string, callId: string): Tree {
  const started = change(tree, session, (a) => ({ ...a, type, status: "active", parent: { session: parent, callId } }), type);
  return change(started, parent, (a) => ({
    ...a,
    children: a.children.includes(session) ? a.children : [...a.children, session],
    parts: a.parts.map((part) => (part.kind === "tool" && part.id === callId ? { ...part, agent: session } : part)),
  }));
}

function endAgent(agent: AgentState, result: unknown): AgentState {
  const failed = typeof result === "object" && result !== null && "error" in result;
  return { ...agent, status: failed ? "failed" : "ended", result };
}

function applyToAgent(before: AgentState, chunk: Chunk): AgentState {
  const agent = before.type === chunk.agentType || !chunk.agentType ? before : { ...before, type: chunk.agentType };
  const append = (part: AgentPart): AgentState => ({ ...agent, parts: [...agent.parts, part] });
  switch (chunk.type) {
    case "run_started": {
      const { error: _, ...running } = agent;
      const said = chunk.input.map((message): AgentPart => ({ kind: "user", text: message.content }));
      return { ...running, status: "active", parts: [...agent.parts, ...said] };
    }
    case "stream_paused":
    case "run_paused":
      return { ...agent, status: "paused" };
    case "stream_active":
    case "run_resumed":
      return { ...agent, status: "active" };
    case "text_delta": {
      const last = agent.parts.at(-1);
      return last?.kind === "text" ? replaceLast(agent, { kind: "text", text: last.text + chunk.delta }) : append({ kind: "text", text: chunk.delta });
    }
    case "thinking": {
      const last = agent.parts.at(-1);
      const open = last?.kind === "reasoning" && !last.complete ? last : undefined;
      if (open === undefined) return chunk.content === "" ? agent : append({ kind: "reasoning", text: chunk.content, complete: chunk.isComplete });
      // The last piece of a block may repeat the pieces before it.
      const text = chunk.isComplete && chunk.content.startsWith(open.text) ? chunk.content : open.text + chunk.content;
      return replaceLast(agent, { kind: "reasoning", text, complete: chunk.isComplete });
    }
    case "tool_arg_stream_start":
      return tool(agent, chunk.toolCallId, chunk.toolName, (call) => ({ ...call, state: "streaming", inputText: "" }));
    case "tool_arg_stream_delta":
      return tool(agent, chunk.toolCallId, "", (call) => ({ ...call, inputText: call.inputText + chunk.delta }));
    case "tool_start":
      return tool(agent, chunk.toolCallId, chunk.toolName, (call) => ({ ...call, state: "running", input: chunk.arguments }));
    case "tool_approval_request":
      return tool(agent, chunk.toolCallId, chunk.toolName, (call) => ({ ...call, state: "asking", input: chunk.input }));
    case "tool_approval_response":
      return tool(agent, chunk.toolCallId, chunk.toolName, (call) => {
        const reason = !chunk.approved && chunk.reason !== undefined ? { error: chunk.reason } : {};
        return { ...call, state: chunk.approved ? "approved" : "denied", ...reason };
      });
    case "tool_end":
      return tool(agent, chunk.toolCallId, chunk.toolName, (call) =>
        chunk.error === undefined ? { ...call, state: "done", output: chunk.result } : { ...call, state: "failed", error: chunk.error },
      );
    case "tool_input_error":
    case "tool_output_error":
      return tool(agent, chunk.toolCallId, chunk.toolName, (call) => ({ ...call, state: "failed", error: chunk.error }));
    case "custom":
      return append({ kind: "data", name: chunk.eventName, data: chunk.data });
    case "source_url":
      return append({ kind: "source", id: chunk.sourceId, url: chunk.url, ...(chunk.title === undefined ? {} : { title: chunk.title }) });
    case "source_document":
      return append({ kind: "source", id: chunk.sourceId, mediaType: chunk.mediaType, title: chunk.title });
    case "file":
      return append({ kind: "file", url: chunk.url, mediaType: chunk.mediaType, ...(chunk.filename === undefined ? {} : { filename: chunk.filename }) });
    case "output":
      return { ...agent, result: chunk.output };
    case "error":
      return append({ kind: "error", text: chunk.error });
    default: // without an effect on what is shown, or of a later version
      return agent;
  }
}

function replaceLast(agent: AgentState, part: AgentPart): AgentState {
  return { ...agent, parts: [...agent.parts.slice(0, -1), part] };
}

/** The states of a call that has its outcome. */
const outcomes: ReadonlyArray<ToolCall["state"]> = ["done", "failed", "denied"];

/** tool changes the latest call with an id. One that has its outcome does not change: a model may use an id again. */
function tool(agent: AgentState, id: string, name: string, to: (call: ToolCall) => ToolCall): AgentState {
  const at = agent.parts.findLastIndex((part) => part.kind === "tool" && part.id === id);
  const before = agent.parts[at];
  if (before?.kind !== "tool" || outcomes.includes(before.state)) {
    if (name === "") return agent;
    return { ...agent, parts: [...agent.parts, to({ kind: "tool", id, name, state: "running", inputText: "" })] };
  }
  return { ...agent, parts: agent.parts.with(at, to(before)) };
}
