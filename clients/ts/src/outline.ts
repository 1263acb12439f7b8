import type { Chunk, OrdinalRange, TruncatedChunk, Usage } from "./chunks.js";
import { rawMembers } from "./rawjson.js";

/** A record of the log: a chunk at its position. */
export interface LogRecord {
  /** The sequence of the record in its stream. */
  sequence: number;
  /** The session that wrote it: the root, or a sub-agent. */
  session: string;
  /** Its number in the session, absent under a view. */
  ordinal?: number;
  /** The fence of its writer, absent under a view. */
  epoch?: number;
  /** When the log stored it, in Unix milliseconds. */
  time: number;
  /** The chunk as it is stored. */
  data: string;
}

/** What is common to all nodes. A node is immutable: a record that changes it puts another one in its place. */
interface NodeBase {
  /** The sequence of the first record, and for the messages of a run their number behind a point. */
  id: string;
  /** The node that this one is part of, "" for none. */
  parent: string;
  /** The session of the agent. */
  session: string;
  /** The sequences of the first and of the last record. */
  first: number;
  last: number;
  /** The number of records. */
  records: number;
  /** When the first record was stored, in Unix milliseconds. */
  from: number;
  /** When the last record of a finished node was stored; absent while it is open. */
  to?: number;
}

/** A run of an agent. */
export interface RunNode extends NodeBase {
  kind: "run";
  run: string;
  /** execute, takeover, or how the run resumed. */
  mode: string;
  by?: string;
  /** continued: after a pause, another run continues the turn. superseded: another worker has taken the run over. */
  status: "running" | "waiting" | "continued" | "done" | "failed" | "interrupted" | "superseded";
  error?: string;
  /** The JSON text of the final output. */
  output?: string;
}

/** A message of a user that a run answers. */
export interface UserNode extends NodeBase {
  kind: "user";
  text: string;
  files: number;
}

/** A step of the loop of an agent. */
export interface StepNode extends NodeBase {
  kind: "step";
  number: number;
  /** unfinished: the run ended within the step. */
  status: "running" | "done" | "discarded" | "unfinished";
  committed: boolean;
  usage?: Usage;
  model?: string;
  finishReason?: string;
}

/** A text of the answer, or reasoning. */
export interface TextNode extends NodeBase {
  kind: "text" | "reasoning";
  text: string;
}

/** A call of a tool. */
export interface CallNode extends NodeBase {
  kind: "call";
  name: string;
  callId: string;
  /** streaming: the arguments are incomplete; unfinished: the run ended without an outcome of the call. */
  status: "streaming" | "running" | "asking" | "approved" | "denied" | "done" | "failed" | "unfinished";
  /** The JSON text of the arguments, as far as it has arrived. */
  input: string;
  /** The JSON text of the result. */
  output?: string;
  error?: string;
  errorCode?: string;
  /** The id of the request for approval, with which a decision is sent. */
  approvalId?: string;
  /** Why a user has decided so. */
  reason?: string;
}

/** A sub-agent, in the agent that started it. Its own runs are within this node. */
export interface SubagentNode extends NodeBase {
  kind: "subagent";
  type: string;
  subSession: string;
  callId: string;
  status: "running" | "done" | "failed" | "unfinished";
  /** The JSON text of the result. */
  output?: string;
}

/** A pause: for a user, for sub-agents, or for another reason. */
export interface WaitNode extends NodeBase {
  kind: "wait";
  reason: string;
  tool?: string;
  callId?: string;
}

/** Records that a cleanup has removed. */
export interface RemovedNode extends NodeBase {
  kind: "removed";
  /** The number of removed records, 0 if a view hides it. */
  count: number;
  /** The last step that stays. */
  step: number;
}

/** Anything else. The record has its members. */
export interface EventNode extends NodeBase {
  kind: "error" | "state" | "custom" | "source" | "file" | "output" | "interrupted" | "resync" | "checkpoint" | "forked" | "other";
  /** The error, the name of the event, the address of a file, what a fork continues, or the type of the record. */
  title: string;
}

/** Something that happened in a session or in one of its sub-agents. */
export type OutlineNode = RunNode | UserNode | StepNode | TextNode | CallNode | SubagentNode | WaitNode | RemovedNode | EventNode;

/** An agent of the tree. */
export interface OutlineAgent {
  session: string;
  /** The name of its definition, "" until a record has it. */
  type: string;
  /** The node of the sub-agent, "" for the root. */
  parent: string;
  status: "active" | "paused" | "ended" | "failed" | "interrupted";
}

/** What an agent has open: indexes of nodes, -1 for none. */
interface Open {
  agent: OutlineAgent;
  run: number;
  step: number;
  text: number;
  wait: number;
  fork: number; // the records with which a fork begins
  calls: Map<string, number>; // the latest call of each id
}

/** The types that a cleanup never removes. */
const control: ReadonlySet<string> = new Set(["run_started", "stream_paused", "stream_active", "stream_end", "stream_failed", "truncated", "session_seed", "session_forked"]);

/**
 * What happened in a session and its sub-agents: a pure function of the records of the log. Records are applied in the order of their sequences. The result is the
 * same for all records at once, and for those that stay after a cleanup.
 */
export class Outline {
  /** In the order of their first records. */
  readonly nodes: OutlineNode[] = [];
  /** The sequence of the last record, 0 before the first one. */
  position = 0;

  private readonly open = new Map<string, Open>();
  private readonly subagents = new Map<string, number>(); // the latest node of each session of a sub-agent
  private readonly index = new Map<string, number>(); // the nodes by id
  private readonly ended = new Set<number>(); // calls of which a tool_end has the outcome

  /** The agents, in the order in which they appear. */
  get agents(): OutlineAgent[] {
    return [...this.open.values()].map(({ agent }) => agent);
  }

  /** node returns the node with an id. */
  node(id: string): OutlineNode | undefined {
    const at = this.index.get(id);
    return at === undefined ? undefined : this.nodes[at];
  }

  /**
   * apply applies the next record. It returns false for a cleanup that removes records: then fold the records that stay, see withoutRemoved, into a new Outline.
   */
  apply(record: LogRecord): boolean {
    const chunk = JSON.parse(record.data) as Chunk;
    this.position = record.sequence;
    const of = this.opened(record.session);
    if (of.agent.type === "" && chunk.agentType) of.agent = { ...of.agent, type: chunk.agentType };
    if (of.text >= 0 && !this.continues(of, chunk)) of.text = -1;
    this.applyChunk(of, chunk, record);
    this.open.set(record.session, of);
    return chunk.type !== "truncated";
  }

  private opened(session: string): Open {
    const known = this.open.get(session);
    if (known !== undefined) return known;
    const at = this.subagents.get(session);
    const parent = at === undefined ? undefined : this.nodes[at];
    const type = parent?.kind === "subagent" ? parent.type : "";
    return { agent: { session, type, parent: parent?.id ?? "", status: "active" }, run: -1, step: -1, text: -1, wait: -1, fork: -1, calls: new Map() };
  }

  /** continues reports whether a chunk is part of the open text. */
  private continues(of: Open, chunk: Chunk): boolean {
    const { part } = chunk as { part?: { begins?: unknown } };
    if (part?.begins === true) return false;
    const kind = this.nodes[of.text]?.kind;
    return (chunk.type === "text_delta" && kind === "text") || (chunk.type === "thinking" && kind === "reasoning");
  }

  private applyChunk(of: Open, chunk: Chunk, record: LogRecord): void {
    switch (chunk.type) {
      case "run_started":
        return this.startRun(of, chunk, record);
      case "stream_end": {
        const output = rawMembers(record.data).get("finalOutput");
        return this.endRun(of, record, "done", "ended", output === undefined ? {} : { output });
      }
      case "stream_failed":
        return this.endRun(of, record, "failed", "failed", { error: chunk.error });
      case "run_paused":
        return this.wait(of, record, chunk.reason, chunk.pendingToolName, chunk.pendingToolCallId);
      case "stream_paused":
        return this.wait(of, record, chunk.reason ?? "");
      case "suspension_marker":
        return this.wait(of, record, chunk.kind);
      case "stream_active":
      case "run_resumed":
        this.closeWait(of, record);
        of.agent = { ...of.agent, status: "active" };
        return this.touchRun(of, record, "running");
      case "run_interrupted":
        this.add(of, record, { kind: "interrupted", title: chunk.reason ?? "" }, true);
        of.agent = { ...of.agent, status: "interrupted" };
        return this.touchRun(of, record, "interrupted");
      case "executor_superseded":
        return this.touchRun(of, record, "superseded");
      case "step_start":
        this.closeStep(of, record, "unfinished");
        of.step = this.add(of, record, { kind: "step", number: chunk.step, status: "running", committed: false }, false, this.nodes[of.run]?.id);
        return;
      case "step_end": {
        const facts = { ...(chunk.usage && { usage: chunk.usage }), ...(chunk.model && { model: chunk.model }), ...(chunk.finishReason && { finishReason: chunk.finishReason }) };
        return this.closeStep(of, record, "done", facts);
      }
      case "step_committed":
        return this.markStep(of, record, { committed: true });
      case "step_discarded":
        return this.markStep(of, record, { status: "discarded" });
      case "text_delta":
        return this.text(of, record, "text", chunk.delta, false);
      case "thinking":
        this.text(of, record, "reasoning", chunk.content, chunk.isComplete);
        if (chunk.isComplete) of.text = -1;
        return;
      case "tool_arg_stream_start":
        return this.call(of, record, chunk.toolCallId, chunk.toolName, true, () => ({ status: "streaming" }));
      case "tool_arg_stream_delta":
        return this.call(of, record, chunk.toolCallId, "", false, (c) => ({ input: c.input + chunk.delta }));
      case "tool_arg_stream_end":
        return this.call(of, record, chunk.toolCallId, "", false, () => ({}));
      case "tool_start":
        return this.call(of, record, chunk.toolCallId, chunk.toolName, true, (c) => ({
          status: c.status === "streaming" ? "running" : c.status, input: rawMembers(record.data).get("arguments") ?? c.input,
        }));
      case "tool_approval_request":
        return this.call(of, record, chunk.toolCallId, chunk.toolName, true, (c) => ({
          status: "asking", approvalId: chunk.approvalId, input: rawMembers(record.data).get("input") ?? c.input,
        }));
      case "tool_approval_response":
        return this.call(of, record, chunk.toolCallId, chunk.toolName, false, () => ({
          status: chunk.approved ? "approved" : "denied", ...(!chunk.approved && { to: record.time }), ...(chunk.reason !== undefined && { reason: chunk.reason }),
        }));
      case "tool_end": {
        const output = rawMembers(record.data).get("result") ?? "null";
        const failed = chunk.error !== undefined && { error: chunk.error, ...(chunk.errorCode !== undefined && { errorCode: chunk.errorCode }) };
        return this.endCall(of, record, chunk.toolCallId, chunk.toolName, failed ? { status: "failed", ...failed } : { status: "done", output }, true);
      }
      case "tool_input_error": {
        const input = rawMembers(record.data).get("partialInput");
        return this.endCall(of, record, chunk.toolCallId, chunk.toolName, { status: "failed", error: chunk.error, ...(input !== undefined && { input }) });
      }
      case "tool_output_error":
        return this.endCall(of, record, chunk.toolCallId, chunk.toolName, { status: "failed", error: chunk.error });
      case "subagent_start":
        this.subagents.set(
          chunk.subSessionId,
          this.add(of, record, { kind: "subagent", type: chunk.subAgentType, subSession: chunk.subSessionId, callId: chunk.callId, status: "running" }),
        );
        return;
      case "subagent_end":
        return this.endSubagent(of, record, chunk);
      case "truncated":
        this.add(of, record, { kind: "removed", count: countOf(chunk.removed), step: chunk.truncatedAtStep }, true);
        return;
      case "session_seed":
        return this.fork(of, record, "incomplete fork");
      case "session_forked": {
        const { origin, messages, turn } = chunk;
        of.agent = { ...of.agent, status: turn === undefined ? "ended" : "interrupted" }; // until its first run
        return this.fork(of, record, `forked from ${origin.session} at #${origin.sequence}: ${messages} ${messages === 1 ? "message" : "messages"}`);
      }
      default:
        this.add(of, record, { kind: eventKinds[chunk.type] ?? "other", title: chunk.type === "output" ? (rawMembers(record.data).get("output") ?? "") : titleOf(chunk) }, true);
    }
  }

  /** add adds a node, which is part of the open step or run unless parent is given, and returns its index. */
  private add(of: Open, record: LogRecord, node: NewNode, closed = false, parent?: string): number {
    const base: NodeBase = {
      id: String(record.sequence), parent: parent ?? this.nodes[of.step]?.id ?? this.nodes[of.run]?.id ?? of.agent.parent, session: record.session,
      first: record.sequence, last: record.sequence, records: 1, from: record.time, ...(closed && { to: record.time }),
    };
    return this.push({ ...base, ...node } as OutlineNode);
  }

  private push(node: OutlineNode): number {
    this.index.set(node.id, this.nodes.length);
    return this.nodes.push(node) - 1;
  }

  /** change replaces the node at an index by one that has a further record. */
  private change(at: number, record: LogRecord, members: object): void {
    const node = this.nodes[at];
    if (node !== undefined) this.nodes[at] = { ...node, last: record.sequence, records: node.records + 1, ...members } as OutlineNode;
  }

  /** fork adds a record to the node of those with which a fork begins. */
  private fork(of: Open, record: LogRecord, title: string): void {
    if (of.fork < 0) of.fork = this.add(of, record, { kind: "forked", title }, true);
    else this.change(of.fork, record, { title, to: record.time });
  }

  private startRun(of: Open, chunk: Extract<Chunk, { type: "run_started" }>, record: LogRecord): void {
    const before = this.nodes[of.run];
    this.closeStep(of, record, "unfinished");
    if (before?.kind === "run") this.finish(of.run, record, { status: before.status === "waiting" ? "continued" : "superseded" });
    this.closeWait(of, record);
    of.agent = { ...of.agent, status: "active" };
    of.step = -1;
    const by = chunk.by === undefined ? {} : { by: chunk.by.subject };
    of.run = this.add(of, record, { kind: "run", run: chunk.runId, mode: chunk.mode, status: "running", ...by }, false, of.agent.parent);
    const run = this.nodes[of.run] as RunNode;
    chunk.input?.forEach((message, i) => {
      const { id, session, first, from } = run;
      this.push({ id: `${id}.${i}`, parent: id, session, first, last: first, records: 0, from, to: from, kind: "user", text: message.content, files: message.files?.length ?? 0 });
    });
  }

  /** finish closes a node without counting the record as one of its own. */
  private finish(at: number, record: LogRecord, members: object): void {
    const node = this.nodes[at];
    if (node !== undefined && node.to === undefined) this.nodes[at] = { ...node, to: record.time, ...members } as OutlineNode;
  }

  private endRun(of: Open, record: LogRecord, status: "done" | "failed", of2: "ended" | "failed", members: object): void {
    this.closeStep(of, record, "unfinished");
    this.closeWait(of, record);
    this.closeCalls(of, record);
    of.agent = { ...of.agent, status: of2 };
    if (of.run >= 0) this.change(of.run, record, { status, to: record.time, ...members });
    else this.add(of, record, { kind: "other", title: status }, true);
    of.run = -1;
  }

  /** touchRun changes the status of the open run. */
  private touchRun(of: Open, record: LogRecord, status: RunNode["status"]): void {
    const ends = status === "interrupted" || status === "superseded";
    if (ends) this.closeStep(of, record, "unfinished");
    this.change(of.run, record, { status, ...(ends && { to: record.time }) });
  }

  private wait(of: Open, record: LogRecord, reason: string, tool?: string, callId?: string): void {
    of.agent = { ...of.agent, status: "paused" };
    this.touchRun(of, record, "waiting");
    const known = this.nodes[of.wait];
    if (known?.kind === "wait") {
      this.change(of.wait, record, { reason: known.reason || reason, ...(tool !== undefined && { tool }), ...(callId !== undefined && { callId }) });
      return;
    }
    of.wait = this.add(of, record, { kind: "wait", reason, ...(tool !== undefined && { tool }), ...(callId !== undefined && { callId }) });
  }

  private closeWait(of: Open, record: LogRecord): void {
    this.finish(of.wait, record, {});
    of.wait = -1;
  }

  private closeStep(of: Open, record: LogRecord, status: "done" | "unfinished", facts: object = {}): void {
    const step = this.nodes[of.step];
    if (step?.kind !== "step" || step.to !== undefined) return;
    if (status === "done") this.change(of.step, record, { status, to: record.time, ...facts });
    else this.finish(of.step, record, { status });
  }

  /** markStep changes the latest step, which may have ended. */
  private markStep(of: Open, record: LogRecord, members: object): void {
    if (this.nodes[of.step]?.kind === "step") this.change(of.step, record, members);
  }

  private closeCalls(of: Open, record: LogRecord): void {
    for (const at of of.calls.values()) {
      const call = this.nodes[at];
      if (call?.kind === "call" && call.to === undefined) this.finish(at, record, { status: "unfinished" });
    }
    for (const at of this.subagents.values()) {
      const child = this.nodes[at];
      if (child?.kind === "subagent" && child.session === of.agent.session && child.to === undefined) this.finish(at, record, { status: "unfinished" });
    }
  }

  /** text adds a piece of text. A complete block of reasoning may repeat its pieces. */
  private text(of: Open, record: LogRecord, kind: "text" | "reasoning", piece: string, whole: boolean): void {
    const node = this.nodes[of.text];
    if (node?.kind === kind) this.change(of.text, record, { text: whole && piece.startsWith(node.text) ? piece : node.text + piece, to: record.time });
    else if (piece !== "" || kind === "text") of.text = this.add(of, record, { kind, text: piece }, true);
  }

  /** call changes the latest call with an id. One that has its outcome does not change, because a model may use an id again: begins adds another one. */
  private call(of: Open, record: LogRecord, callId: string, name: string, begins: boolean, to: (call: CallNode) => Partial<CallNode>): void {
    let at = of.calls.get(callId);
    const known = at === undefined ? undefined : this.nodes[at];
    if (at !== undefined && known?.kind === "call" && !(begins && known.to !== undefined)) {
      this.change(at, record, to(known));
      return;
    }
    at = this.add(of, record, { kind: "call", name, callId, status: "running", input: "" });
    of.calls.set(callId, at);
    const call = this.nodes[at] as CallNode;
    this.nodes[at] = { ...call, ...to(call) } as CallNode;
  }

  /** endCall sets the outcome of the latest call with an id, and adds another call if that one has ended. An error of its input or output, which says more, stays. */
  private endCall(of: Open, record: LogRecord, callId: string, name: string, outcome: Partial<CallNode>, ends = false): void {
    const begins = this.ended.has(of.calls.get(callId) ?? -1);
    this.call(of, record, callId, name, begins, (c) => ({ ...outcome, ...(c.error !== undefined && outcome.status === "failed" && { error: c.error }), to: record.time }));
    if (ends) this.ended.add(of.calls.get(callId) ?? -1);
  }

  private endSubagent(of: Open, record: LogRecord, chunk: Extract<Chunk, { type: "subagent_end" }>): void {
    const output = rawMembers(record.data).get("result") ?? "null";
    const status = rawMembers(output).has("error") ? "failed" : "done";
    const at = this.subagents.get(chunk.subSessionId);
    if (at !== undefined && this.nodes[at]?.session === record.session) {
      this.change(at, record, { status, output, to: record.time });
      return;
    }
    this.add(of, record, { kind: "subagent", type: chunk.subAgentType, subSession: chunk.subSessionId, callId: chunk.callId, status, output }, true);
  }
}

/** The members of a node that are not common to all. */
type NewNode = { kind: OutlineNode["kind"] } & Record<string, unknown>;

/** outlineOf folds records, of which cleanups among them have removed some. */
export function outlineOf(records: readonly LogRecord[]): Outline {
  const outline = new Outline();
  for (const record of withoutRemoved(records)) outline.apply(record);
  return outline;
}

/** withoutRemoved returns the records that no cleanup among them has removed. */
export function withoutRemoved(records: readonly LogRecord[]): LogRecord[] {
  const cleanups = records.filter((record) => record.data.includes('"truncated"')).map((record) => ({ record, chunk: JSON.parse(record.data) as Chunk }));
  const removals = cleanups.filter((c): c is { record: LogRecord; chunk: TruncatedChunk } => c.chunk.type === "truncated");
  if (removals.length === 0) return [...records];
  return records.filter((record) => !removals.some((removal) => isRemoved(record, removal.record, removal.chunk)));
}

function isRemoved(record: LogRecord, by: LogRecord, cleanup: TruncatedChunk): boolean {
  const { sequence, session, ordinal } = record;
  if (session !== by.session || sequence >= by.sequence) return false;
  if (ordinal !== undefined) return cleanup.removed.some(({ first, last }) => first <= ordinal && ordinal <= last);
  const chunk = JSON.parse(record.data) as Chunk;
  return !control.has(chunk.type) && chunk.step > cleanup.truncatedAtStep && sequence > cleanup.minSequence && sequence <= cleanup.atSequence;
}

function countOf(ranges: readonly OrdinalRange[] | undefined): number {
  return (ranges ?? []).reduce((sum, { first, last }) => sum + last - first + 1, 0);
}

const eventKinds: Readonly<Record<string, EventNode["kind"]>> = {
  error: "error",
  state_patch: "state",
  custom: "custom",
  source_url: "source",
  source_document: "source",
  file: "file",
  output: "output",
  stream_resync: "resync",
  checkpoint_created: "checkpoint",
};

function titleOf(chunk: Chunk): string {
  switch (chunk.type) {
    case "error":
      return chunk.error;
    case "custom":
      return chunk.eventName;
    case "source_url":
      return chunk.title ?? chunk.url;
    case "source_document":
      return chunk.title;
    case "file":
      return chunk.filename ?? chunk.mediaType;
    case "stream_resync":
      return chunk.reason;
    case "state_patch":
      return chunk.patches.map((patch) => `${patch.op} ${patch.path}`).join(", ");
    default:
      return chunk.type;
  }
}
