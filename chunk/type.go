package chunk

// Type is the discriminator of a chunk, the "type" member of its JSON and the ce-type of its message.
type Type string

// The 31 chunk types of the agent stream protocol.
const (
	TypeTextDelta            Type = "text_delta"
	TypeThinking             Type = "thinking"
	TypeToolArgStreamStart   Type = "tool_arg_stream_start"
	TypeToolArgStreamDelta   Type = "tool_arg_stream_delta"
	TypeToolArgStreamEnd     Type = "tool_arg_stream_end"
	TypeToolStart            Type = "tool_start"
	TypeToolEnd              Type = "tool_end"
	TypeToolApprovalRequest  Type = "tool_approval_request"
	TypeToolApprovalResponse Type = "tool_approval_response"
	TypeToolInputError       Type = "tool_input_error"
	TypeToolOutputError      Type = "tool_output_error"
	TypeSubagentStart        Type = "subagent_start"
	TypeSubagentEnd          Type = "subagent_end"
	TypeCustom               Type = "custom"
	TypeStatePatch           Type = "state_patch"
	TypeError                Type = "error"
	TypeOutput               Type = "output"
	TypeSourceURL            Type = "source_url"
	TypeSourceDocument       Type = "source_document"
	TypeStepStart            Type = "step_start"
	TypeStepEnd              Type = "step_end"
	TypeFile                 Type = "file"
	TypeRunInterrupted       Type = "run_interrupted"
	TypeRunResumed           Type = "run_resumed"
	TypeRunPaused            Type = "run_paused"
	TypeExecutorSuperseded   Type = "executor_superseded"
	TypeCheckpointCreated    Type = "checkpoint_created"
	TypeStepCommitted        Type = "step_committed"
	TypeStepDiscarded        Type = "step_discarded"
	TypeStreamResync         Type = "stream_resync"
	TypeSuspensionMarker     Type = "suspension_marker"
)

// Control records are not output of an agent: they are in the same log with the same envelope and describe changes of the stream itself.
const (
	TypeRunStarted    Type = "run_started"
	TypeStreamPaused  Type = "stream_paused"
	TypeStreamActive  Type = "stream_active"
	TypeStreamEnd     Type = "stream_end"
	TypeStreamFailed  Type = "stream_failed"
	TypeTruncated     Type = "truncated"
	TypeSessionSeed   Type = "session_seed"
	TypeSessionForked Type = "session_forked"
)

// Control reports whether t is a record about the stream rather than a chunk.
func (t Type) Control() bool {
	switch t {
	case TypeRunStarted, TypeStreamPaused, TypeStreamActive, TypeStreamEnd, TypeStreamFailed, TypeTruncated, TypeSessionSeed, TypeSessionForked:
		return true
	}
	return false
}

// OfFork reports whether t is a record with which a fork begins. Clients that show a session get its content from the snapshot.
func (t Type) OfFork() bool { return t == TypeSessionSeed || t == TypeSessionForked }

// Terminal reports whether t closes a stream until a new run opens it again.
func (t Type) Terminal() bool { return t == TypeStreamEnd || t == TypeStreamFailed }
