"""The chunk types of the log. Written by go test ./chunk -run TestPython -update from package chunk; do not edit.

A type such as TextDelta is what a program writes, and TextDeltaChunk what it reads.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired


class ChunkBase(TypedDict):
    """The members that every chunk has."""

    agentId: str
    """The session of the agent: the followed one, or one of a sub-agent."""
    agentType: str
    """The name of the agent's definition."""
    timestamp: int
    """Unix milliseconds."""
    step: int
    """The step of the agent loop."""


class CheckpointCreated(TypedDict):
    """CheckpointCreated announces a saved checkpoint."""

    type: Literal["checkpoint_created"]
    runId: str
    checkpointId: str
    stepCount: int


class CheckpointCreatedChunk(CheckpointCreated, ChunkBase):
    """CheckpointCreated as it is read."""


class Custom(TypedDict):
    """Custom is an event of the application."""

    type: Literal["custom"]
    eventName: str
    data: Any


class CustomChunk(Custom, ChunkBase):
    """Custom as it is read."""


class ErrorDetail(TypedDict):
    """ErrorDetail is the classified form of an Error."""

    message: str
    code: NotRequired[str]
    category: NotRequired[str]
    cause: NotRequired[str]
    retryable: NotRequired[bool]


class Error(TypedDict):
    """Error reports an error of the agent that does not end its stream."""

    type: Literal["error"]
    error: str
    code: NotRequired[str]
    errorDetail: NotRequired[ErrorDetail]
    recoverable: bool


class ErrorChunk(Error, ChunkBase):
    """Error as it is read."""


class ExecutorSuperseded(TypedDict):
    """ExecutorSuperseded is the last chunk of an executor that was fenced."""

    type: Literal["executor_superseded"]
    reason: NotRequired[str]


class ExecutorSupersededChunk(ExecutorSuperseded, ChunkBase):
    """ExecutorSuperseded as it is read."""


class File(TypedDict):
    """File is a file that the agent created: a data URL or a hosted one."""

    type: Literal["file"]
    url: str
    mediaType: str
    filename: NotRequired[str]


class FileChunk(File, ChunkBase):
    """File as it is read."""


class Output(TypedDict):
    """Output is the final structured output of an agent with an output schema."""

    type: Literal["output"]
    output: Any


class OutputChunk(Output, ChunkBase):
    """Output as it is read."""


class RunInterrupted(TypedDict):
    """RunInterrupted reports that a run was interrupted and may be resumed. CheckpointID nil is JSON null: the checkpoint could not be saved."""

    type: Literal["run_interrupted"]
    runId: str
    checkpointId: str | None
    reason: NotRequired[str]


class RunInterruptedChunk(RunInterrupted, ChunkBase):
    """RunInterrupted as it is read."""


class RunPaused(TypedDict):
    """RunPaused reports what a paused run waits for."""

    type: Literal["run_paused"]
    runId: str
    reason: str
    pendingToolName: NotRequired[str]
    pendingToolCallId: NotRequired[str]


class RunPausedChunk(RunPaused, ChunkBase):
    """RunPaused as it is read."""


class RunResumed(TypedDict):
    """RunResumed reports that a run continues. Known modes: continue, with_message, with_confirmation, from_checkpoint; others are kept."""

    type: Literal["run_resumed"]
    runId: str
    fromCheckpointId: str | None
    fromStepCount: int
    mode: str


class RunResumedChunk(RunResumed, ChunkBase):
    """RunResumed as it is read."""


class InputFile(TypedDict):
    """InputFile is a file that a user attached."""

    url: str
    mediaType: str
    filename: NotRequired[str]


class InputData(TypedDict):
    """InputData is a value that a page has added to the message of a user: a part "data-" and its name of the AI SDK."""

    name: str
    id: NotRequired[str]
    data: Any


class InputMessage(TypedDict):
    """InputMessage is one message of a user that a run answers."""

    content: str
    files: NotRequired[list[InputFile]]
    data: NotRequired[list[InputData]]
    metadata: NotRequired[dict[str, Any]]
    clientMessageId: NotRequired[str]


class Parent(TypedDict):
    """Parent identifies the caller of a sub-agent."""

    sessionId: str
    callId: str


class Principal(TypedDict):
    """Principal is the user or program that made a request. The one that requested the first run of a session is its owner."""

    subject: str
    issuer: NotRequired[str]
    """of the credential; nil for one that is not a token"""


class RunStarted(TypedDict):
    """RunStarted starts a run, or takes one over. It is written by compare-and-set and has the epoch of all later records of the run. Model and Provider are those of the steps of the run that name none."""

    type: Literal["run_started"]
    runId: str
    epoch: int
    mode: str
    """execute, takeover, or a mode of RunResumed"""
    input: list[InputMessage]
    checkpointId: NotRequired[str]
    parent: NotRequired[Parent]
    """set in the session of a sub-agent"""
    by: NotRequired[Principal]
    """the client that requested the run, nil if it is not known"""
    model: NotRequired[str]
    provider: NotRequired[str]


class RunStartedChunk(RunStarted, ChunkBase):
    """RunStarted as it is read."""


class ForkOrigin(TypedDict):
    """ForkOrigin is the point from which a fork continues another session."""

    session: str
    sequence: int
    """of the last record that the fork has; 0 for none"""
    anchor: NotRequired[str]
    """of that record, as in a cursor"""
    run: NotRequired[str]
    step: int
    depth: int
    """1, or one more than that of the other session if it is a fork"""


class ForkedTurn(TypedDict):
    """ForkedTurn is the turn that was open at the point: its run is an interrupted one of the fork."""

    first: int
    """index of its first message"""
    answer: NotRequired[int]
    """index of the message in which the answer is shown; nil before its first part"""


class OrdinalRange(TypedDict):
    """OrdinalRange is a run of ordinals, both ends included."""

    first: int
    last: int


class SessionForked(TypedDict):
    """SessionForked ends the records with which a fork begins."""

    type: Literal["session_forked"]
    origin: ForkOrigin
    messages: int
    """number of messages that users see"""
    state: NotRequired[str]
    """JSON text of the custom state"""
    checkpointId: NotRequired[str]
    turn: NotRequired[ForkedTurn]
    """nil if no turn is open at the point"""
    replaced: NotRequired[list[OrdinalRange]]
    """messages in whose place the message after them begins a branch"""
    by: NotRequired[Principal]
    """the client that forked, which is the owner; nil if it is not known"""


class SessionForkedChunk(SessionForked, ChunkBase):
    """SessionForked as it is read."""


class SessionSeed(TypedDict):
    """SessionSeed has messages with which a fork begins: those of another session up to a point. The records SessionSeed are the first ones of the log of a fork; the session begins with the SessionForked that follows them, and is an unknown one before."""

    type: Literal["session_seed"]
    form: int
    """the version of the stored form of the messages"""
    messages: str
    """JSON in that form, a line for each message or run of its parts"""


class SessionSeedChunk(SessionSeed, ChunkBase):
    """SessionSeed as it is read."""


class SourceDocument(TypedDict):
    """SourceDocument is a document source of the answer."""

    type: Literal["source_document"]
    sourceId: str
    mediaType: str
    title: str
    filename: NotRequired[str]


class SourceDocumentChunk(SourceDocument, ChunkBase):
    """SourceDocument as it is read."""


class SourceURL(TypedDict):
    """SourceURL is a web source of the answer."""

    type: Literal["source_url"]
    sourceId: str
    url: str
    title: NotRequired[str]


class SourceURLChunk(SourceURL, ChunkBase):
    """SourceURL as it is read."""


PatchOp = TypedDict(
    "PatchOp",
    {
        "op": 'Literal["add", "remove", "replace", "move", "copy", "test"]',
        "path": 'str',
        "value": 'NotRequired[Any]',
        "from": 'NotRequired[str]',
    },
)
"""PatchOp is one RFC 6902 operation."""


class StatePatch(TypedDict):
    """StatePatch changes the session's custom state by RFC 6902."""

    type: Literal["state_patch"]
    patches: list[PatchOp]


class StatePatchChunk(StatePatch, ChunkBase):
    """StatePatch as it is read."""


class StepCommitted(TypedDict):
    """StepCommitted reports that a step and its checkpoint are saved."""

    type: Literal["step_committed"]
    runId: str
    stepId: str
    checkpointId: str


class StepCommittedChunk(StepCommitted, ChunkBase):
    """StepCommitted as it is read."""


class StepDiscarded(TypedDict):
    """StepDiscarded reports that staged changes of a step were discarded. Known reasons: retry, and shutdown if the worker left the run to another one; others are kept."""

    type: Literal["step_discarded"]
    runId: str
    stepId: str
    reason: str


class StepDiscardedChunk(StepDiscarded, ChunkBase):
    """StepDiscarded as it is read."""


class Usage(TypedDict):
    """Usage counts tokens of one step. InputTokens includes those that were read from a cache and written to it, OutputTokens includes ReasoningTokens. Cost is what the provider or a gateway charged for the step, as CostOf writes it, in Currency (nil: USD)."""

    inputTokens: float
    outputTokens: float
    cachedTokens: NotRequired[float]
    cacheWriteTokens: NotRequired[float]
    reasoningTokens: NotRequired[float]
    cost: NotRequired[str]
    currency: NotRequired[str]


class StepEnd(TypedDict):
    """StepEnd closes a step of the agent loop. Model is the model that answered, as its provider reports it, and RequestModel the requested one if it differs. Provider is a value of gen_ai.provider.name of OpenTelemetry."""

    type: Literal["step_end"]
    stepId: NotRequired[str]
    usage: NotRequired[Usage]
    finishReason: NotRequired[Literal["stop", "length", "tool-calls", "content-filter", "error", "other"]]
    model: NotRequired[str]
    requestModel: NotRequired[str]
    provider: NotRequired[str]


class StepEndChunk(StepEnd, ChunkBase):
    """StepEnd as it is read."""


class StepStart(TypedDict):
    """StepStart opens a step of the agent loop. It is written with the first output of the step; StartedAt is when the work of the step began, in Unix milliseconds."""

    type: Literal["step_start"]
    stepId: NotRequired[str]
    startedAt: NotRequired[int]


class StepStartChunk(StepStart, ChunkBase):
    """StepStart as it is read."""


class StreamActive(TypedDict):
    """StreamActive re-opens a paused stream without a new run."""

    type: Literal["stream_active"]


class StreamActiveChunk(StreamActive, ChunkBase):
    """StreamActive as it is read."""


class StreamEnd(TypedDict):
    """StreamEnd reports that a run has completed. A new run reopens the stream."""

    type: Literal["stream_end"]
    streamId: str
    finalOutput: NotRequired[Any]


class StreamEndChunk(StreamEnd, ChunkBase):
    """StreamEnd as it is read."""


class StreamFailed(TypedDict):
    """StreamFailed reports that a run has failed."""

    type: Literal["stream_failed"]
    error: str
    errorDetail: NotRequired[ErrorDetail]


class StreamFailedChunk(StreamFailed, ChunkBase):
    """StreamFailed as it is read."""


class StreamPaused(TypedDict):
    """StreamPaused closes the stream at a point where it waits for users or children."""

    type: Literal["stream_paused"]
    reason: NotRequired[str]


class StreamPausedChunk(StreamPaused, ChunkBase):
    """StreamPaused as it is read."""


class StreamResync(TypedDict):
    """StreamResync reports that records which readers may have seen were removed. Known reasons: crash_recovery, rollback, branch, retry; others are kept."""

    type: Literal["stream_resync"]
    checkpointId: str
    stepCount: int
    messageCount: int
    fromSequence: int
    reason: str


class StreamResyncChunk(StreamResync, ChunkBase):
    """StreamResync as it is read."""


class SubagentEnd(TypedDict):
    """SubagentEnd has the result of a sub-agent in its parent's session."""

    type: Literal["subagent_end"]
    subAgentType: str
    subSessionId: str
    callId: str
    result: Any


class SubagentEndChunk(SubagentEnd, ChunkBase):
    """SubagentEnd as it is read."""


class SubagentStart(TypedDict):
    """SubagentStart reports the start of a sub-agent in its parent's session. The child's own chunks are in the session SubSessionID under the same root."""

    type: Literal["subagent_start"]
    subAgentType: str
    subSessionId: str
    callId: str


class SubagentStartChunk(SubagentStart, ChunkBase):
    """SubagentStart as it is read."""


class SuspensionMarker(TypedDict):
    """SuspensionMarker is for runtimes that stay alive while they wait. It is not sent to clients of a chat dialect."""

    type: Literal["suspension_marker"]
    kind: Literal["suspended_client_tool", "suspended_awaiting_children", "suspended_step_partial"]
    payload: dict[str, Any]


class SuspensionMarkerChunk(SuspensionMarker, ChunkBase):
    """SuspensionMarker as it is read."""


class TextDelta(TypedDict):
    """TextDelta is text to append to the answer."""

    type: Literal["text_delta"]
    delta: str


class TextDeltaChunk(TextDelta, ChunkBase):
    """TextDelta as it is read."""


class Thinking(TypedDict):
    """Thinking is reasoning text. IsComplete false is a streamed piece; true closes a complete block."""

    type: Literal["thinking"]
    content: str
    isComplete: bool


class ThinkingChunk(Thinking, ChunkBase):
    """Thinking as it is read."""


class ToolApprovalRequest(TypedDict):
    """ToolApprovalRequest asks a user, or a rule, whether a call may run."""

    type: Literal["tool_approval_request"]
    toolCallId: str
    toolName: str
    approvalId: str
    input: Any
    isAutomatic: NotRequired[bool]


class ToolApprovalRequestChunk(ToolApprovalRequest, ChunkBase):
    """ToolApprovalRequest as it is read."""


class ToolApprovalResponse(TypedDict):
    """ToolApprovalResponse is the decision on a ToolApprovalRequest."""

    type: Literal["tool_approval_response"]
    toolCallId: str
    toolName: str
    approvalId: str
    approved: bool
    reason: NotRequired[str]
    isAutomatic: NotRequired[bool]


class ToolApprovalResponseChunk(ToolApprovalResponse, ChunkBase):
    """ToolApprovalResponse as it is read."""


class ToolArgStreamDelta(TypedDict):
    """ToolArgStreamDelta is a piece of the arguments' JSON text."""

    type: Literal["tool_arg_stream_delta"]
    toolCallId: str
    delta: str


class ToolArgStreamDeltaChunk(ToolArgStreamDelta, ChunkBase):
    """ToolArgStreamDelta as it is read."""


class ToolArgStreamEnd(TypedDict):
    """ToolArgStreamEnd closes the streamed arguments."""

    type: Literal["tool_arg_stream_end"]
    toolCallId: str


class ToolArgStreamEndChunk(ToolArgStreamEnd, ChunkBase):
    """ToolArgStreamEnd as it is read."""


class ToolArgStreamStart(TypedDict):
    """ToolArgStreamStart opens the streamed arguments of a tool call."""

    type: Literal["tool_arg_stream_start"]
    toolCallId: str
    toolName: str


class ToolArgStreamStartChunk(ToolArgStreamStart, ChunkBase):
    """ToolArgStreamStart as it is read."""


class ToolEnd(TypedDict):
    """ToolEnd is the outcome of a tool call. Error is present if and only if the tool failed, even if it is the empty string. ProviderExecuted is true if the server ran the tool; if it is false or absent the client did."""

    type: Literal["tool_end"]
    toolCallId: str
    toolName: str
    result: Any
    error: NotRequired[str]
    errorCode: NotRequired[str]
    providerExecuted: NotRequired[bool]


class ToolEndChunk(ToolEnd, ChunkBase):
    """ToolEnd as it is read."""


class ToolInputError(TypedDict):
    """ToolInputError reports that the input of a call could not be parsed or is invalid."""

    type: Literal["tool_input_error"]
    toolCallId: str
    toolName: str
    error: str
    partialInput: NotRequired[Any]


class ToolInputErrorChunk(ToolInputError, ChunkBase):
    """ToolInputError as it is read."""


class ToolOutputError(TypedDict):
    """ToolOutputError reports that the execution of a call failed."""

    type: Literal["tool_output_error"]
    toolCallId: str
    toolName: str
    error: str


class ToolOutputErrorChunk(ToolOutputError, ChunkBase):
    """ToolOutputError as it is read."""


class ToolStart(TypedDict):
    """ToolStart is a tool call with its parsed input."""

    type: Literal["tool_start"]
    toolCallId: str
    toolName: str
    arguments: dict[str, Any]


class ToolStartChunk(ToolStart, ChunkBase):
    """ToolStart as it is read."""


class Truncated(TypedDict):
    """Truncated is the record of a cleanup: the records in Removed are removed. It is written before they are deleted, so that every gap that a reader finds is explained."""

    type: Literal["truncated"]
    truncatedAtStep: int
    """chunks of a higher step were removed …"""
    minSequence: int
    """… if their sequence was higher than this one (0: no minimum)"""
    fromSequence: int
    """sequence of the first removed record"""
    atSequence: int
    """last sequence of the session when the cleanup began"""
    removed: list[OrdinalRange]


class TruncatedChunk(Truncated, ChunkBase):
    """Truncated as it is read."""


Body = Union[
    CheckpointCreated,
    Custom,
    Error,
    ExecutorSuperseded,
    File,
    Output,
    RunInterrupted,
    RunPaused,
    RunResumed,
    RunStarted,
    SessionForked,
    SessionSeed,
    SourceDocument,
    SourceURL,
    StatePatch,
    StepCommitted,
    StepDiscarded,
    StepEnd,
    StepStart,
    StreamActive,
    StreamEnd,
    StreamFailed,
    StreamPaused,
    StreamResync,
    SubagentEnd,
    SubagentStart,
    SuspensionMarker,
    TextDelta,
    Thinking,
    ToolApprovalRequest,
    ToolApprovalResponse,
    ToolArgStreamDelta,
    ToolArgStreamEnd,
    ToolArgStreamStart,
    ToolEnd,
    ToolInputError,
    ToolOutputError,
    ToolStart,
    Truncated,
]
"""Any chunk that a program writes. The edge adds the members of ChunkBase."""


Chunk = Union[
    CheckpointCreatedChunk,
    CustomChunk,
    ErrorChunk,
    ExecutorSupersededChunk,
    FileChunk,
    OutputChunk,
    RunInterruptedChunk,
    RunPausedChunk,
    RunResumedChunk,
    RunStartedChunk,
    SessionForkedChunk,
    SessionSeedChunk,
    SourceDocumentChunk,
    SourceURLChunk,
    StatePatchChunk,
    StepCommittedChunk,
    StepDiscardedChunk,
    StepEndChunk,
    StepStartChunk,
    StreamActiveChunk,
    StreamEndChunk,
    StreamFailedChunk,
    StreamPausedChunk,
    StreamResyncChunk,
    SubagentEndChunk,
    SubagentStartChunk,
    SuspensionMarkerChunk,
    TextDeltaChunk,
    ThinkingChunk,
    ToolApprovalRequestChunk,
    ToolApprovalResponseChunk,
    ToolArgStreamDeltaChunk,
    ToolArgStreamEndChunk,
    ToolArgStreamStartChunk,
    ToolEndChunk,
    ToolInputErrorChunk,
    ToolOutputErrorChunk,
    ToolStartChunk,
    TruncatedChunk,
]
"""Any chunk of this version. A later server may send types that are not here."""
