package chunk

import "slices"

// Body is the content of a chunk: one struct of this package, or Opaque. Chunk.Type returns its type. Optional members are pointers (nil: absent); members of type "any" are Values. The json
// tags are the names on the wire, in the order of the schema. A member that is tagged as "label", "decimal", "number" or "time" is optional, and a value of another form is
// kept in Extra instead of being rejected, see forms.go.
type Body interface {
	kind() Type
}

// Value is any JSON value, as its original text. The zero Value is null.
type Value []byte

// TextDelta is text to append to the answer.
type TextDelta struct {
	Delta string `json:"delta"`
}

// Thinking is reasoning text. IsComplete false is a streamed piece; true closes a complete block.
type Thinking struct {
	Content    string `json:"content"`
	IsComplete bool   `json:"isComplete"`
}

// ToolArgStreamStart opens the streamed arguments of a tool call.
type ToolArgStreamStart struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
}

// ToolArgStreamDelta is a piece of the arguments' JSON text.
type ToolArgStreamDelta struct {
	ToolCallID string `json:"toolCallId"`
	Delta      string `json:"delta"`
}

// ToolArgStreamEnd closes the streamed arguments.
type ToolArgStreamEnd struct {
	ToolCallID string `json:"toolCallId"`
}

// ToolStart is a tool call with its parsed input.
type ToolStart struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
	Arguments  Value  `json:"arguments" want:"object"`
}

// ToolEnd is the outcome of a tool call. Error is present if and only if the tool failed, even if it is the empty string. ProviderExecuted is true if the
// server ran the tool; if it is false or absent the client did.
type ToolEnd struct {
	ToolCallID       string  `json:"toolCallId"`
	ToolName         string  `json:"toolName"`
	Result           Value   `json:"result"`
	Error            *string `json:"error"`
	ErrorCode        *string `json:"errorCode"`
	ProviderExecuted *bool   `json:"providerExecuted"`
}

// ToolApprovalRequest asks a user, or a rule, whether a call may run.
type ToolApprovalRequest struct {
	ToolCallID  string `json:"toolCallId"`
	ToolName    string `json:"toolName"`
	ApprovalID  string `json:"approvalId"`
	Input       Value  `json:"input"`
	IsAutomatic *bool  `json:"isAutomatic"`
}

// ToolApprovalResponse is the decision on a ToolApprovalRequest.
type ToolApprovalResponse struct {
	ToolCallID  string  `json:"toolCallId"`
	ToolName    string  `json:"toolName"`
	ApprovalID  string  `json:"approvalId"`
	Approved    bool    `json:"approved"`
	Reason      *string `json:"reason"`
	IsAutomatic *bool   `json:"isAutomatic"`
}

// ToolInputError reports that the input of a call could not be parsed or is invalid.
type ToolInputError struct {
	ToolCallID   string `json:"toolCallId"`
	ToolName     string `json:"toolName"`
	Error        string `json:"error"`
	PartialInput *Value `json:"partialInput"`
}

// ToolOutputError reports that the execution of a call failed.
type ToolOutputError struct {
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
	Error      string `json:"error"`
}

// SubagentStart reports the start of a sub-agent in its parent's session. The child's own chunks are in the session SubSessionID under the same root.
type SubagentStart struct {
	SubAgentType string `json:"subAgentType"`
	SubSessionID string `json:"subSessionId"`
	CallID       string `json:"callId"`
}

// SubagentEnd has the result of a sub-agent in its parent's session.
type SubagentEnd struct {
	SubAgentType string `json:"subAgentType"`
	SubSessionID string `json:"subSessionId"`
	CallID       string `json:"callId"`
	Result       Value  `json:"result"`
}

// Custom is an event of the application.
type Custom struct {
	EventName string `json:"eventName"`
	Data      Value  `json:"data"`
}

// StatePatch changes the session's custom state by RFC 6902.
type StatePatch struct {
	Patches []PatchOp `json:"patches"`
}

// PatchOp is one RFC 6902 operation.
type PatchOp struct {
	Op    string   `json:"op" want:"add|remove|replace|move|copy|test"`
	Path  string   `json:"path"`
	Value *Value   `json:"value"`
	From  *string  `json:"from"`
	Extra []Member `json:"-"` // members that the schema does not have, in their order
}

// Error reports an error of the agent that does not end its stream.
type Error struct {
	Error       string       `json:"error"`
	Code        *string      `json:"code"`
	ErrorDetail *ErrorDetail `json:"errorDetail"`
	Recoverable bool         `json:"recoverable"`
}

// ErrorDetail is the classified form of an Error.
type ErrorDetail struct {
	Message   string   `json:"message"`
	Code      *string  `json:"code"`
	Category  *string  `json:"category"`
	Cause     *string  `json:"cause"`
	Retryable *bool    `json:"retryable"`
	Extra     []Member `json:"-"` // members that the schema does not have, in their order
}

// Output is the final structured output of an agent with an output schema.
type Output struct {
	Output Value `json:"output"`
}

// SourceURL is a web source of the answer.
type SourceURL struct {
	SourceID string  `json:"sourceId"`
	URL      string  `json:"url"`
	Title    *string `json:"title"`
}

// SourceDocument is a document source of the answer.
type SourceDocument struct {
	SourceID  string  `json:"sourceId"`
	MediaType string  `json:"mediaType"`
	Title     string  `json:"title"`
	Filename  *string `json:"filename"`
}

// StepStart opens a step of the agent loop. It is written with the first output of the step; StartedAt is when the work of the step began, in Unix milliseconds.
type StepStart struct {
	StepID    *string `json:"stepId"`
	StartedAt *int64  `json:"startedAt" want:"time"`
}

// StepEnd closes a step of the agent loop. Model is the model that answered, as its provider reports it, and RequestModel the requested one if it differs.
// Provider is a value of gen_ai.provider.name of OpenTelemetry.
type StepEnd struct {
	StepID       *string `json:"stepId"`
	Usage        *Usage  `json:"usage"`
	FinishReason *string `json:"finishReason" want:"stop|length|tool-calls|content-filter|error|other"`
	Model        *string `json:"model" want:"label"`
	RequestModel *string `json:"requestModel" want:"label"`
	Provider     *string `json:"provider" want:"label"`
}

// Usage counts tokens of one step. InputTokens includes those that were read from a cache and written to it, OutputTokens includes ReasoningTokens. Cost is what
// the provider or a gateway charged for the step, as CostOf writes it, in Currency (nil: USD).
type Usage struct {
	InputTokens      Number   `json:"inputTokens"`
	OutputTokens     Number   `json:"outputTokens"`
	CachedTokens     *Number  `json:"cachedTokens"`
	CacheWriteTokens *Number  `json:"cacheWriteTokens"`
	ReasoningTokens  *Number  `json:"reasoningTokens" want:"number"`
	Cost             *string  `json:"cost" want:"decimal"`
	Currency         *string  `json:"currency" want:"label"`
	Extra            []Member `json:"-"` // members that the schema does not have, in their order
}

// Number is a JSON number, as its original text.
type Number string

// File is a file that the agent created: a data URL or a hosted one.
type File struct {
	URL       string  `json:"url"`
	MediaType string  `json:"mediaType"`
	Filename  *string `json:"filename"`
}

// RunInterrupted reports that a run was interrupted and may be resumed. CheckpointID nil is JSON null: the checkpoint could not be saved.
type RunInterrupted struct {
	RunID        string  `json:"runId"`
	CheckpointID *string `json:"checkpointId" want:"nullable"`
	Reason       *string `json:"reason"`
}

// RunResumed reports that a run continues. Known modes: continue, with_message, with_confirmation, from_checkpoint; others are kept.
type RunResumed struct {
	RunID            string  `json:"runId"`
	FromCheckpointID *string `json:"fromCheckpointId" want:"nullable"`
	FromStepCount    int64   `json:"fromStepCount"`
	Mode             string  `json:"mode"`
}

// RunPaused reports what a paused run waits for.
type RunPaused struct {
	RunID             string  `json:"runId"`
	Reason            string  `json:"reason"`
	PendingToolName   *string `json:"pendingToolName"`
	PendingToolCallID *string `json:"pendingToolCallId"`
}

// ExecutorSuperseded is the last chunk of an executor that was fenced.
type ExecutorSuperseded struct {
	Reason *string `json:"reason"`
}

// CheckpointCreated announces a saved checkpoint.
type CheckpointCreated struct {
	RunID        string `json:"runId"`
	CheckpointID string `json:"checkpointId"`
	StepCount    int64  `json:"stepCount"`
}

// StepCommitted reports that a step and its checkpoint are saved.
type StepCommitted struct {
	RunID        string `json:"runId"`
	StepID       string `json:"stepId"`
	CheckpointID string `json:"checkpointId"`
}

// StepDiscarded reports that staged changes of a step were discarded. Known reasons: retry, and shutdown if the worker
// left the run to another one; others are kept.
type StepDiscarded struct {
	RunID  string `json:"runId"`
	StepID string `json:"stepId"`
	Reason string `json:"reason"`
}

// StreamResync reports that records which readers may have seen were removed. Known reasons: crash_recovery, rollback, branch, retry; others are kept.
type StreamResync struct {
	CheckpointID string `json:"checkpointId"`
	StepCount    int64  `json:"stepCount"`
	MessageCount int64  `json:"messageCount"`
	FromSequence int64  `json:"fromSequence"`
	Reason       string `json:"reason"`
}

// SuspensionMarker is for runtimes that stay alive while they wait. It is not sent to clients of a chat dialect.
type SuspensionMarker struct {
	Kind    string `json:"kind" want:"suspended_client_tool|suspended_awaiting_children|suspended_step_partial"`
	Payload Value  `json:"payload" want:"object"`
}

// RunStarted starts a run, or takes one over. It is written by compare-and-set and has the epoch of all later records of the run. Model and Provider are those of
// the steps of the run that name none.
type RunStarted struct {
	RunID        string         `json:"runId"`
	Epoch        int64          `json:"epoch"`
	Mode         string         `json:"mode"` // execute, takeover, or a mode of RunResumed
	Input        []InputMessage `json:"input"`
	CheckpointID *string        `json:"checkpointId"`
	Parent       *Parent        `json:"parent"` // set in the session of a sub-agent
	By           *Principal     `json:"by"`     // the client that requested the run, nil if it is not known
	Model        *string        `json:"model" want:"label"`
	Provider     *string        `json:"provider" want:"label"`
}

// Principal is the user or program that made a request. The one that requested the first run of a session is its owner.
type Principal struct {
	Subject string  `json:"subject"`
	Issuer  *string `json:"issuer"` // of the credential; nil for one that is not a token

	// TokenID is the id of the token, "" for a credential without one. It is not a member of records, which clients can read: commands, the inbox and the audit
	// log have it.
	TokenID string `json:"-"`

	Extra []Member `json:"-"` // members that the schema does not have, in their order
}

// Parent identifies the caller of a sub-agent.
type Parent struct {
	SessionID string   `json:"sessionId"`
	CallID    string   `json:"callId"`
	Extra     []Member `json:"-"` // members that the schema does not have, in their order
}

// InputMessage is one message of a user that a run answers.
type InputMessage struct {
	Content         string      `json:"content"`
	Files           []InputFile `json:"files" want:"optional"`
	Data            []InputData `json:"data" want:"optional"`
	Metadata        *Value      `json:"metadata" want:"object"`
	ClientMessageID *string     `json:"clientMessageId"`
	Extra           []Member    `json:"-"` // members that the schema does not have, in their order
}

// InputFile is a file that a user attached.
type InputFile struct {
	URL       string   `json:"url"`
	MediaType string   `json:"mediaType"`
	Filename  *string  `json:"filename"`
	Extra     []Member `json:"-"` // members that the schema does not have, in their order
}

// InputData is a value that a page has added to the message of a user: a part "data-" and its name of the AI SDK.
type InputData struct {
	Name  string   `json:"name"`
	ID    *string  `json:"id"`
	Data  Value    `json:"data"`
	Extra []Member `json:"-"` // members that the schema does not have, in their order
}

// StreamPaused closes the stream at a point where it waits for users or children.
type StreamPaused struct {
	Reason *string `json:"reason"`
}

// StreamActive re-opens a paused stream without a new run.
type StreamActive struct{}

// StreamEnd reports that a run has completed. A new run reopens the stream.
type StreamEnd struct {
	StreamID    string `json:"streamId"`
	FinalOutput *Value `json:"finalOutput"`
}

// StreamFailed reports that a run has failed.
type StreamFailed struct {
	Error       string       `json:"error"`
	ErrorDetail *ErrorDetail `json:"errorDetail"`
}

// CodeSessionDeleted is the code in the ErrorDetail of the StreamFailed that is the last record of a session when it is deleted. The records before it are
// purged next.
const CodeSessionDeleted = "session_deleted"

// IsDeletion reports whether d is that of a deletion, see CodeSessionDeleted. d may be nil.
func (d *ErrorDetail) IsDeletion() bool {
	return d != nil && d.Code != nil && *d.Code == CodeSessionDeleted
}

// Truncated is the record of a cleanup: the records in Removed are removed. It is written before they are deleted, so that every gap that a reader finds
// is explained.
type Truncated struct {
	TruncatedAtStep int64          `json:"truncatedAtStep"` // chunks of a higher step were removed …
	MinSequence     int64          `json:"minSequence"`     // … if their sequence was higher than this one (0: no minimum)
	FromSequence    int64          `json:"fromSequence"`    // sequence of the first removed record
	AtSequence      int64          `json:"atSequence"`      // last sequence of the session when the cleanup began
	Removed         []OrdinalRange `json:"removed"`
}

// Removes reports whether the record with this ordinal is removed.
func (b Truncated) Removes(o Ordinal) bool {
	return slices.ContainsFunc(b.Removed, func(r OrdinalRange) bool { return r.First <= int64(o) && int64(o) <= r.Last })
}

// OrdinalRange is a run of ordinals, both ends included.
type OrdinalRange struct {
	First int64    `json:"first"`
	Last  int64    `json:"last"`
	Extra []Member `json:"-"` // members that the schema does not have, in their order
}

// SessionSeed has messages with which a fork begins: those of another session up to a point. The records SessionSeed are the first ones of the log of a fork; the
// session begins with the SessionForked that follows them, and is an unknown one before.
type SessionSeed struct {
	Form     int64  `json:"form"`     // the version of the stored form of the messages
	Messages string `json:"messages"` // JSON in that form, a line for each message or run of its parts
}

// SessionForked ends the records with which a fork begins.
type SessionForked struct {
	Origin       ForkOrigin     `json:"origin"`
	Messages     int64          `json:"messages"` // number of messages that users see
	State        *string        `json:"state"`    // JSON text of the custom state
	CheckpointID *string        `json:"checkpointId"`
	Turn         *ForkedTurn    `json:"turn"`                     // nil if no turn is open at the point
	Replaced     []OrdinalRange `json:"replaced" want:"optional"` // messages in whose place the message after them begins a branch
	By           *Principal     `json:"by"`                       // the client that forked, which is the owner; nil if it is not known
}

// ForkOrigin is the point from which a fork continues another session.
type ForkOrigin struct {
	Session  string   `json:"session"`
	Sequence int64    `json:"sequence"` // of the last record that the fork has; 0 for none
	Anchor   *string  `json:"anchor"`   // of that record, as in a cursor
	Run      *string  `json:"run"`
	Step     int64    `json:"step"`
	Depth    int64    `json:"depth"` // 1, or one more than that of the other session if it is a fork
	Extra    []Member `json:"-"`     // members that the schema does not have, in their order
}

// ForkedTurn is the turn that was open at the point: its run is an interrupted one of the fork.
type ForkedTurn struct {
	First  int64    `json:"first"`  // index of its first message
	Answer *int64   `json:"answer"` // index of the message in which the answer is shown; nil before its first part
	Extra  []Member `json:"-"`      // members that the schema does not have, in their order
}

// Opaque is a chunk of a type that this build does not know: Raw is its JSON object, byte for byte.
type Opaque struct {
	Kind Type
	Raw  Value
}

func (TextDelta) kind() Type            { return TypeTextDelta }
func (Thinking) kind() Type             { return TypeThinking }
func (ToolArgStreamStart) kind() Type   { return TypeToolArgStreamStart }
func (ToolArgStreamDelta) kind() Type   { return TypeToolArgStreamDelta }
func (ToolArgStreamEnd) kind() Type     { return TypeToolArgStreamEnd }
func (ToolStart) kind() Type            { return TypeToolStart }
func (ToolEnd) kind() Type              { return TypeToolEnd }
func (ToolApprovalRequest) kind() Type  { return TypeToolApprovalRequest }
func (ToolApprovalResponse) kind() Type { return TypeToolApprovalResponse }
func (ToolInputError) kind() Type       { return TypeToolInputError }
func (ToolOutputError) kind() Type      { return TypeToolOutputError }
func (SubagentStart) kind() Type        { return TypeSubagentStart }
func (SubagentEnd) kind() Type          { return TypeSubagentEnd }
func (Custom) kind() Type               { return TypeCustom }
func (StatePatch) kind() Type           { return TypeStatePatch }
func (Error) kind() Type                { return TypeError }
func (Output) kind() Type               { return TypeOutput }
func (SourceURL) kind() Type            { return TypeSourceURL }
func (SourceDocument) kind() Type       { return TypeSourceDocument }
func (StepStart) kind() Type            { return TypeStepStart }
func (StepEnd) kind() Type              { return TypeStepEnd }
func (File) kind() Type                 { return TypeFile }
func (RunInterrupted) kind() Type       { return TypeRunInterrupted }
func (RunResumed) kind() Type           { return TypeRunResumed }
func (RunPaused) kind() Type            { return TypeRunPaused }
func (ExecutorSuperseded) kind() Type   { return TypeExecutorSuperseded }
func (CheckpointCreated) kind() Type    { return TypeCheckpointCreated }
func (StepCommitted) kind() Type        { return TypeStepCommitted }
func (StepDiscarded) kind() Type        { return TypeStepDiscarded }
func (StreamResync) kind() Type         { return TypeStreamResync }
func (SuspensionMarker) kind() Type     { return TypeSuspensionMarker }
func (RunStarted) kind() Type           { return TypeRunStarted }
func (StreamPaused) kind() Type         { return TypeStreamPaused }
func (StreamActive) kind() Type         { return TypeStreamActive }
func (StreamEnd) kind() Type            { return TypeStreamEnd }
func (StreamFailed) kind() Type         { return TypeStreamFailed }
func (Truncated) kind() Type            { return TypeTruncated }
func (SessionSeed) kind() Type          { return TypeSessionSeed }
func (SessionForked) kind() Type        { return TypeSessionForked }

func (o Opaque) kind() Type { return o.Kind }
