// The chunk types of the log. Written by go test ./chunk -run TestTypeScript -update from package chunk; do not edit.

/** The members that every chunk has. */
export interface ChunkBase {
  /** The session of the agent: the followed one, or one of a sub-agent. */
  agentId: string;
  /** The name of the agent's definition. */
  agentType: string;
  /** Unix milliseconds. */
  timestamp: number;
  /** The step of the agent loop. */
  step: number;
}

/** CheckpointCreated announces a saved checkpoint. */
export interface CheckpointCreatedChunk extends ChunkBase {
  type: "checkpoint_created";
  runId: string;
  checkpointId: string;
  stepCount: number;
}

/** Custom is an event of the application. */
export interface CustomChunk extends ChunkBase {
  type: "custom";
  eventName: string;
  data: unknown;
}

/** ErrorDetail is the classified form of an Error. */
export interface ErrorDetail {
  message: string;
  code?: string;
  category?: string;
  cause?: string;
  retryable?: boolean;
}

/** Error reports an error of the agent that does not end its stream. */
export interface ErrorChunk extends ChunkBase {
  type: "error";
  error: string;
  code?: string;
  errorDetail?: ErrorDetail;
  recoverable: boolean;
}

/** ExecutorSuperseded is the last chunk of an executor that was fenced. */
export interface ExecutorSupersededChunk extends ChunkBase {
  type: "executor_superseded";
  reason?: string;
}

/** File is a file that the agent created: a data URL or a hosted one. */
export interface FileChunk extends ChunkBase {
  type: "file";
  url: string;
  mediaType: string;
  filename?: string;
}

/** Output is the final structured output of an agent with an output schema. */
export interface OutputChunk extends ChunkBase {
  type: "output";
  output: unknown;
}

/** RunInterrupted reports that a run was interrupted and may be resumed. CheckpointID nil is JSON null: the checkpoint could not be saved. */
export interface RunInterruptedChunk extends ChunkBase {
  type: "run_interrupted";
  runId: string;
  checkpointId: string | null;
  reason?: string;
}

/** RunPaused reports what a paused run waits for. */
export interface RunPausedChunk extends ChunkBase {
  type: "run_paused";
  runId: string;
  reason: string;
  pendingToolName?: string;
  pendingToolCallId?: string;
}

/** RunResumed reports that a run continues. Known modes: continue, with_message, with_confirmation, from_checkpoint; others are kept. */
export interface RunResumedChunk extends ChunkBase {
  type: "run_resumed";
  runId: string;
  fromCheckpointId: string | null;
  fromStepCount: number;
  mode: string;
}

/** InputFile is a file that a user attached. */
export interface InputFile {
  url: string;
  mediaType: string;
  filename?: string;
}

/** InputData is a value that a page has added to the message of a user: a part "data-" and its name of the AI SDK. */
export interface InputData {
  name: string;
  id?: string;
  data: unknown;
}

/** InputMessage is one message of a user that a run answers. */
export interface InputMessage {
  content: string;
  files?: InputFile[];
  data?: InputData[];
  metadata?: Record<string, unknown>;
  clientMessageId?: string;
}

/** Parent identifies the caller of a sub-agent. */
export interface Parent {
  sessionId: string;
  callId: string;
}

/** Principal is the user or program that made a request. The one that requested the first run of a session is its owner. */
export interface Principal {
  subject: string;
  /** of the credential; nil for one that is not a token */
  issuer?: string;
}

/** RunStarted starts a run, or takes one over. It is written by compare-and-set and has the epoch of all later records of the run. Model and Provider are those of the steps of the run that name none. */
export interface RunStartedChunk extends ChunkBase {
  type: "run_started";
  runId: string;
  epoch: number;
  /** execute, takeover, or a mode of RunResumed */
  mode: string;
  input: InputMessage[];
  checkpointId?: string;
  /** set in the session of a sub-agent */
  parent?: Parent;
  /** the client that requested the run, nil if it is not known */
  by?: Principal;
  model?: string;
  provider?: string;
}

/** ForkOrigin is the point from which a fork continues another session. */
export interface ForkOrigin {
  session: string;
  /** of the last record that the fork has; 0 for none */
  sequence: number;
  /** of that record, as in a cursor */
  anchor?: string;
  run?: string;
  step: number;
  /** 1, or one more than that of the other session if it is a fork */
  depth: number;
}

/** ForkedTurn is the turn that was open at the point: its run is an interrupted one of the fork. */
export interface ForkedTurn {
  /** index of its first message */
  first: number;
  /** index of the message in which the answer is shown; nil before its first part */
  answer?: number;
}

/** OrdinalRange is a run of ordinals, both ends included. */
export interface OrdinalRange {
  first: number;
  last: number;
}

/** SessionForked ends the records with which a fork begins. */
export interface SessionForkedChunk extends ChunkBase {
  type: "session_forked";
  origin: ForkOrigin;
  /** number of messages that users see */
  messages: number;
  /** JSON text of the custom state */
  state?: string;
  checkpointId?: string;
  /** nil if no turn is open at the point */
  turn?: ForkedTurn;
  /** messages in whose place the message after them begins a branch */
  replaced?: OrdinalRange[];
  /** the client that forked, which is the owner; nil if it is not known */
  by?: Principal;
}

/** SessionSeed has messages with which a fork begins: those of another session up to a point. The records SessionSeed are the first ones of the log of a fork; the session begins with the SessionForked that follows them, and is an unknown one before. */
export interface SessionSeedChunk extends ChunkBase {
  type: "session_seed";
  /** the version of the stored form of the messages */
  form: number;
  /** JSON in that form, a line for each message or run of its parts */
  messages: string;
}

/** SourceDocument is a document source of the answer. */
export interface SourceDocumentChunk extends ChunkBase {
  type: "source_document";
  sourceId: string;
  mediaType: string;
  title: string;
  filename?: string;
}

/** SourceURL is a web source of the answer. */
export interface SourceURLChunk extends ChunkBase {
  type: "source_url";
  sourceId: string;
  url: string;
  title?: string;
}

/** PatchOp is one RFC 6902 operation. */
export interface PatchOp {
  op: "add" | "remove" | "replace" | "move" | "copy" | "test";
  path: string;
  value?: unknown;
  from?: string;
}

/** StatePatch changes the session's custom state by RFC 6902. */
export interface StatePatchChunk extends ChunkBase {
  type: "state_patch";
  patches: PatchOp[];
}

/** StepCommitted reports that a step and its checkpoint are saved. */
export interface StepCommittedChunk extends ChunkBase {
  type: "step_committed";
  runId: string;
  stepId: string;
  checkpointId: string;
}

/** StepDiscarded reports that staged changes of a step were discarded. Known reasons: retry, and shutdown if the worker left the run to another one; others are kept. */
export interface StepDiscardedChunk extends ChunkBase {
  type: "step_discarded";
  runId: string;
  stepId: string;
  reason: string;
}

/** Usage counts tokens of one step. InputTokens includes those that were read from a cache and written to it, OutputTokens includes ReasoningTokens. Cost is what the provider or a gateway charged for the step, as CostOf writes it, in Currency (nil: USD). */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cachedTokens?: number;
  cacheWriteTokens?: number;
  reasoningTokens?: number;
  cost?: string;
  currency?: string;
}

/** StepEnd closes a step of the agent loop. Model is the model that answered, as its provider reports it, and RequestModel the requested one if it differs. Provider is a value of gen_ai.provider.name of OpenTelemetry. */
export interface StepEndChunk extends ChunkBase {
  type: "step_end";
  stepId?: string;
  usage?: Usage;
  finishReason?: "stop" | "length" | "tool-calls" | "content-filter" | "error" | "other";
  model?: string;
  requestModel?: string;
  provider?: string;
}

/** StepStart opens a step of the agent loop. It is written with the first output of the step; StartedAt is when the work of the step began, in Unix milliseconds. */
export interface StepStartChunk extends ChunkBase {
  type: "step_start";
  stepId?: string;
  startedAt?: number;
}

/** StreamActive re-opens a paused stream without a new run. */
export interface StreamActiveChunk extends ChunkBase {
  type: "stream_active";
}

/** StreamEnd reports that a run has completed. A new run reopens the stream. */
export interface StreamEndChunk extends ChunkBase {
  type: "stream_end";
  streamId: string;
  finalOutput?: unknown;
}

/** StreamFailed reports that a run has failed. */
export interface StreamFailedChunk extends ChunkBase {
  type: "stream_failed";
  error: string;
  errorDetail?: ErrorDetail;
}

/** StreamPaused closes the stream at a point where it waits for users or children. */
export interface StreamPausedChunk extends ChunkBase {
  type: "stream_paused";
  reason?: string;
}

/** StreamResync reports that records which readers may have seen were removed. Known reasons: crash_recovery, rollback, branch, retry; others are kept. */
export interface StreamResyncChunk extends ChunkBase {
  type: "stream_resync";
  checkpointId: string;
  stepCount: number;
  messageCount: number;
  fromSequence: number;
  reason: string;
}

/** SubagentEnd has the result of a sub-agent in its parent's session. */
export interface SubagentEndChunk extends ChunkBase {
  type: "subagent_end";
  subAgentType: string;
  subSessionId: string;
  callId: string;
  result: unknown;
}

/** SubagentStart reports the start of a sub-agent in its parent's session. The child's own chunks are in the session SubSessionID under the same root. */
export interface SubagentStartChunk extends ChunkBase {
  type: "subagent_start";
  subAgentType: string;
  subSessionId: string;
  callId: string;
}

/** SuspensionMarker is for runtimes that stay alive while they wait. It is not sent to clients of a chat dialect. */
export interface SuspensionMarkerChunk extends ChunkBase {
  type: "suspension_marker";
  kind: "suspended_client_tool" | "suspended_awaiting_children" | "suspended_step_partial";
  payload: Record<string, unknown>;
}

/** TextDelta is text to append to the answer. */
export interface TextDeltaChunk extends ChunkBase {
  type: "text_delta";
  delta: string;
}

/** Thinking is reasoning text. IsComplete false is a streamed piece; true closes a complete block. */
export interface ThinkingChunk extends ChunkBase {
  type: "thinking";
  content: string;
  isComplete: boolean;
}

/** ToolApprovalRequest asks a user, or a rule, whether a call may run. */
export interface ToolApprovalRequestChunk extends ChunkBase {
  type: "tool_approval_request";
  toolCallId: string;
  toolName: string;
  approvalId: string;
  input: unknown;
  isAutomatic?: boolean;
}

/** ToolApprovalResponse is the decision on a ToolApprovalRequest. */
export interface ToolApprovalResponseChunk extends ChunkBase {
  type: "tool_approval_response";
  toolCallId: string;
  toolName: string;
  approvalId: string;
  approved: boolean;
  reason?: string;
  isAutomatic?: boolean;
}

/** ToolArgStreamDelta is a piece of the arguments' JSON text. */
export interface ToolArgStreamDeltaChunk extends ChunkBase {
  type: "tool_arg_stream_delta";
  toolCallId: string;
  delta: string;
}

/** ToolArgStreamEnd closes the streamed arguments. */
export interface ToolArgStreamEndChunk extends ChunkBase {
  type: "tool_arg_stream_end";
  toolCallId: string;
}

/** ToolArgStreamStart opens the streamed arguments of a tool call. */
export interface ToolArgStreamStartChunk extends ChunkBase {
  type: "tool_arg_stream_start";
  toolCallId: string;
  toolName: string;
}

/** ToolEnd is the outcome of a tool call. Error is present if and only if the tool failed, even if it is the empty string. ProviderExecuted is true if the server ran the tool; if it is false or absent the client did. */
export interface ToolEndChunk extends ChunkBase {
  type: "tool_end";
  toolCallId: string;
  toolName: string;
  result: unknown;
  error?: string;
  errorCode?: string;
  providerExecuted?: boolean;
}

/** ToolInputError reports that the input of a call could not be parsed or is invalid. */
export interface ToolInputErrorChunk extends ChunkBase {
  type: "tool_input_error";
  toolCallId: string;
  toolName: string;
  error: string;
  partialInput?: unknown;
}

/** ToolOutputError reports that the execution of a call failed. */
export interface ToolOutputErrorChunk extends ChunkBase {
  type: "tool_output_error";
  toolCallId: string;
  toolName: string;
  error: string;
}

/** ToolStart is a tool call with its parsed input. */
export interface ToolStartChunk extends ChunkBase {
  type: "tool_start";
  toolCallId: string;
  toolName: string;
  arguments: Record<string, unknown>;
}

/** Truncated is the record of a cleanup: the records in Removed are removed. It is written before they are deleted, so that every gap that a reader finds is explained. */
export interface TruncatedChunk extends ChunkBase {
  type: "truncated";
  /** chunks of a higher step were removed … */
  truncatedAtStep: number;
  /** … if their sequence was higher than this one (0: no minimum) */
  minSequence: number;
  /** sequence of the first removed record */
  fromSequence: number;
  /** last sequence of the session when the cleanup began */
  atSequence: number;
  removed: OrdinalRange[];
}

/** Any chunk of this version. A later server may send types that are not here: give every switch a default. */
export type Chunk =
  | CheckpointCreatedChunk
  | CustomChunk
  | ErrorChunk
  | ExecutorSupersededChunk
  | FileChunk
  | OutputChunk
  | RunInterruptedChunk
  | RunPausedChunk
  | RunResumedChunk
  | RunStartedChunk
  | SessionForkedChunk
  | SessionSeedChunk
  | SourceDocumentChunk
  | SourceURLChunk
  | StatePatchChunk
  | StepCommittedChunk
  | StepDiscardedChunk
  | StepEndChunk
  | StepStartChunk
  | StreamActiveChunk
  | StreamEndChunk
  | StreamFailedChunk
  | StreamPausedChunk
  | StreamResyncChunk
  | SubagentEndChunk
  | SubagentStartChunk
  | SuspensionMarkerChunk
  | TextDeltaChunk
  | ThinkingChunk
  | ToolApprovalRequestChunk
  | ToolApprovalResponseChunk
  | ToolArgStreamDeltaChunk
  | ToolArgStreamEndChunk
  | ToolArgStreamStartChunk
  | ToolEndChunk
  | ToolInputErrorChunk
  | ToolOutputErrorChunk
  | ToolStartChunk
  | TruncatedChunk;

/** The type member of a chunk. */
export type ChunkType = Chunk["type"];

/** The chunk of one type. */
export type ChunkOf<T extends ChunkType> = Extract<Chunk, { type: T }>;
