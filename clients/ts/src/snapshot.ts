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
