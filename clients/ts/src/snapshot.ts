import type { ErrorDetail } from "./chunks.js";

/** The state of a session up to a record, as GET /v1/sessions/{id}/snapshot returns it. A view may hide members. */
export interface Snapshot {
  /** The session state of the agent. */
  state: unknown;
  /**
   * The finished messages, in the form of the AI SDK. An answer that is being written is in the events after the snapshot; its beginning is here only if the log does
   * not have it any more.
   */
  messages: Message[];
  /** The position of the snapshot: events continue after it. */
  streamSequence: number;
  status: "active" | "paused" | "ended" | "failed";
  checkpointId: string | null;
  timestamp: number;
  session: { id: string; [member: string]: unknown };
  /** The sub-agents that the messages called. */
  children: Child[];
  pendingCalls: PendingCall[];
  usage: { inputTokens?: number; outputTokens?: number; [member: string]: unknown };
  error?: { message: string; detail?: ErrorDetail; [member: string]: unknown };
  [member: string]: unknown;
}

/** A message in the form of the AI SDK. */
export interface Message {
  id: string;
  role: "user" | "assistant";
  parts: Array<{ type: string; [member: string]: unknown }>;
  metadata?: unknown;
}

/** A sub-agent, from the records of its caller. */
export interface Child {
  session: string;
  type?: string;
  callId: string;
  status: "running" | "ended" | "failed";
  result?: unknown;
}

/** A call that waits for a user or the client. */
export interface PendingCall {
  kind: "approval" | "client-tool";
  toolCallId: string;
  toolName: string;
  runId?: string;
  approvalId?: string;
  deadline?: number;
  input?: unknown;
}

/** A page of messages. */
export interface MessagePage<M extends Message = Message> {
  messages: M[];
  /** Where the previous page ends; null at the start of the conversation. */
  before: string | null;
}

/** A session as it was saved last: the log can have later records. A view leaves out what it hides. */
export interface ListedSession {
  session: { id: string; agentType?: string; owner?: string; [member: string]: unknown };
  status: Snapshot["status"];
  streamSequence: number;
  /** The times of the first record, of the start of the latest run, and of the save, in Unix milliseconds. */
  created: number;
  began: number | null;
  timestamp: number;
  /** The beginning of the first message of the user. */
  title?: string;
  /** The numbers of runs and of messages. */
  runs?: number;
  messages?: number;
  /** The latest error. */
  error?: { text: string; code?: string; tool?: string; group: string; time?: number } | null;
  /** The numbers of calls that wait. */
  waits?: { approvals: number; clientTools: number };
  [member: string]: unknown;
}

/** A page of sessions. */
export interface SessionPage {
  sessions: ListedSession[];
  /** Where the next page begins; null at the end. */
  before: string | null;
  [member: string]: unknown;
}
