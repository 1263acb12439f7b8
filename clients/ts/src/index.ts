export type * from "./chunks.js";
export { TailraceError } from "./errors.js";
export { followSession, type FollowOptions, type SessionEvent } from "./follow.js";
export type { ConnectionOptions } from "./http.js";
export type { PieceSource } from "./pieces.js";
export { publishRun, type Dialect, type PublishChunk, type PublishedRun, type PublishOptions, type PublishWarning, type RunState } from "./publish.js";
export {
  answer, messages, sessions, snapshot, stopRun,
  type Answer, type ChatOptions, type MessagesOptions, type SessionOptions, type SessionsOptions, type SnapshotOptions,
} from "./sessions.js";
export type { Child, ListedSession, Message, MessagePage, PendingCall, SessionPage, Snapshot } from "./snapshot.js";
export { EventParser, type ServerSentEvent } from "./sse.js";
export { createSessionStore, type SessionStore, type SessionView } from "./store.js";
export { mintSessionToken, type SessionTokenOptions } from "./token.js";
export { emptyTree, reduceTree, textOf, toolsOf, type AgentPart, type AgentState, type ToolCall, type Tree } from "./tree.js";
