import { TailraceError } from "./errors.js";
import { Connection, query, RetryLater, type ConnectionOptions } from "./http.js";
import type { Message, MessagePage, SessionPage, Snapshot } from "./snapshot.js";

/** A session, and how to reach it. */
export interface SessionOptions extends ConnectionOptions {
  /** The id of the session. */
  session: string;
  /** The root of the tree, if the session is a sub-agent's. */
  root?: string;
  /** The audience view. */
  view?: string;
}

/** Which state to load. */
export interface SnapshotOptions extends SessionOptions {
  /** The state when the log ended at this sequence. Defaults to the present. */
  at?: number;
  /** The state at this checkpoint. */
  checkpoint?: string;
  /** The id of a message: the latest branch that has it. */
  branch?: string;
  /** Only the last messages, 1 to 200. */
  messages?: number;
  /** With the answer in progress, which the events after the snapshot have too. */
  partial?: boolean;
}

/** Which messages to load. */
export interface MessagesOptions extends SessionOptions {
  /** The before of the page after this one, or the id of a message. Defaults to the end of the conversation. */
  before?: string;
  /** The size of the page, 1 to 200. Defaults to 50. */
  limit?: number;
  /** The id of a message: the latest branch that has it. */
  branch?: string;
  /** With the answer in progress. */
  partial?: boolean;
}

/** Which sessions to list. */
export interface SessionsOptions extends ConnectionOptions {
  status?: Snapshot["status"];
  agentType?: string;
  owner?: string;
  /** Only sessions that were saved last from this time on. */
  since?: Date;
  /** Only sessions that were saved last before this time. */
  until?: Date;
  /** Only sessions that wait for an approval or for the client. */
  waiting?: boolean;
  /** Text in the title, the latest error, the id or the owner. */
  q?: string;
  /** The size of the page, 1 to 200. Defaults to 50. */
  limit?: number;
  /** The before of the previous page. */
  before?: string;
  /** The audience view. */
  view?: string;
}

/** A chat, which is a root session. */
export interface ChatOptions extends ConnectionOptions {
  /** The id of the session. */
  session: string;
  /** The agent of the chat, if the edge serves several. */
  agentType?: string;
  /** The audience view. */
  view?: string;
}

/** What answers a call: its result, an error, or a decision about an approval. */
export type Answer =
  | { toolCallId: string; result: unknown }
  | { toolCallId: string; error: string }
  | { toolCallId: string; approved: boolean; approvalId?: string; reason?: string; inputHash?: string };

/** The time, in milliseconds, in which a request without a response is repeated. */
const repeatTime = 10_000;

/**
 * request sends a request once, and again for 10 seconds while the edge does not respond or asks for a later attempt. The error is always a TailraceError, unless the
 * signal is aborted: with the code UNREACHABLE if there was no response.
 */
export async function request(options: ConnectionOptions, path: string, init?: RequestInit, accept?: readonly number[]): Promise<{ status: number; text: string }> {
  const connection = new Connection(options);
  connection.firstDelay = 100;
  try {
    return await connection.repeat(() => connection.exchange(path, init, accept), repeatTime);
  } catch (error) {
    options.signal?.throwIfAborted();
    const cause = error instanceof RetryLater ? error.cause : error;
    if (cause instanceof TailraceError) throw cause;
    throw new TailraceError(`${options.url} is not reachable: ${String(cause)}`, 0, { code: "UNREACHABLE" });
  }
}

/** post returns a POST request with JSON. */
export function post(body: unknown): RequestInit {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}

function pathOf(session: string, name: string): string {
  return `/v1/sessions/${encodeURIComponent(session)}/${name}`;
}

function flag(value: boolean | undefined): string | undefined {
  return value === true ? "1" : undefined;
}

/** snapshot returns the state of a session, now or at an earlier position. The events after it are those of followSession with its streamSequence as cursor. */
export async function snapshot(options: SnapshotOptions): Promise<Snapshot> {
  const { session, root, view, at, checkpoint, branch, messages, partial } = options;
  const { text } = await request(options, pathOf(session, "snapshot") + query({ root, view, at, checkpoint, branch, messages, partial: flag(partial) }));
  return JSON.parse(text) as Snapshot;
}

/** messages returns a page of the finished messages of a session, the oldest one first. The page before it begins at its before. */
export async function messages<M extends Message = Message>(options: MessagesOptions): Promise<MessagePage<M>> {
  const { session, root, view, before, limit, branch, partial } = options;
  const { text } = await request(options, pathOf(session, "messages") + query({ root, view, before, limit, branch, partial: flag(partial) }));
  return JSON.parse(text) as MessagePage<M>;
}

/** sessions returns a page of the root sessions, the one that was saved last first. A page can have fewer than limit, or none, and still a before. */
export async function sessions(options: SessionsOptions): Promise<SessionPage> {
  const { status, agentType, owner, since, until, waiting, q, limit, before, view } = options;
  const members = { status, agentType, owner, since: since?.toISOString(), until: until?.toISOString(), waiting: flag(waiting), q, limit, before, view };
  const { text } = await request(options, "/v1/sessions" + query(members));
  return JSON.parse(text) as SessionPage;
}

function chatPath({ session, agentType, view }: ChatOptions, name: string): string {
  return `/api/chat/${encodeURIComponent(session)}/${name}${query({ agentType, view })}`;
}

/** stopRun asks for a stop of the run of a chat, and returns its id, or undefined if no answer is in progress. The run ends at its next step, and its output is kept. */
export async function stopRun(options: ChatOptions & { reason?: string }): Promise<string | undefined> {
  const { reason } = options;
  const { status, text } = await request(options, chatPath(options, "stop"), post({ reason }), [202, 204]);
  return status === 204 ? undefined : (JSON.parse(text) as { runId: string }).runId;
}

/**
 * answer answers a call of a chat that waits for the client or for a user. The first answer counts: another one gets a TailraceError with the code ALREADY_ANSWERED,
 * whose problem has the first one; CALL_NOT_FOUND if no such call waits, CALL_EXPIRED after its deadline.
 */
export async function answer(options: ChatOptions & { answer: Answer }): Promise<void> {
  const body = { kind: "approved" in options.answer ? "approval-response" : "client-tool-result", ...options.answer };
  let repeated = false;
  const onRetry: ConnectionOptions["onRetry"] = (retry) => {
    repeated = true;
    options.onRetry?.(retry);
  };
  try {
    await request({ ...options, onRetry }, chatPath(options, "answers"), post(body), [204]);
  } catch (error) {
    // An attempt without a response may have been the first answer.
    if (!repeated || !(error instanceof TailraceError) || error.code !== "ALREADY_ANSWERED" || !isEqual(body, error.problem["first"])) throw error;
  }
}

/** isEqual reports whether an answer is the first one. */
function isEqual(sent: Record<string, unknown>, first: unknown): boolean {
  const stored = (first ?? {}) as Record<string, unknown>;
  return ["kind", "toolCallId", "result", "error", "approved"].every((name) => JSON.stringify(sent[name]) === JSON.stringify(stored[name]));
}
