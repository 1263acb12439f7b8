package turn

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// noticeMembers has the members of files, of sources, and of the records about a run that clients get. suspension_marker is not sent to clients.
var noticeMembers = map[chunk.Type][]string{
	chunk.TypeToolApprovalResponse: {"toolCallId", "toolName", "approvalId", "approved", "reason", "isAutomatic"},
	chunk.TypeError:                {"error", "code", "errorDetail", "recoverable"},
	chunk.TypeOutput:               {"output"},
	chunk.TypeRunInterrupted:       {"runId", "checkpointId", "reason"},
	chunk.TypeRunResumed:           {"runId", "fromCheckpointId", "fromStepCount", "mode"},
	chunk.TypeRunPaused:            {"runId", "reason", "pendingToolName", "pendingToolCallId"},
	chunk.TypeExecutorSuperseded:   {"reason"},
	chunk.TypeCheckpointCreated:    {"runId", "checkpointId", "stepCount"},
	chunk.TypeStepCommitted:        {"runId", "stepId", "checkpointId"},
	chunk.TypeStepDiscarded:        {"runId", "stepId", "reason"},
	chunk.TypeStreamResync:         {"checkpointId", "stepCount", "messageCount", "fromSequence", "reason"},
	chunk.TypeRunStarted:           {"runId", "mode"},
	chunk.TypeStreamFailed:         {"error", "errorDetail"},
	chunk.TypeTruncated:            {"truncatedAtStep", "fromSequence", "atSequence"},
	chunk.TypeStatePatch:           {"patches"},
	chunk.TypeFile:                 {"url", "mediaType", "filename"},
	chunk.TypeSourceURL:            {"sourceId", "url", "title"},
	chunk.TypeSourceDocument:       {"sourceId", "mediaType", "title", "filename"},
}

// IsNotice reports whether the record has members for WriteNotice.
func (it *Item) IsNotice() bool { return noticeMembers[it.Rec.Type] != nil }

// WriteNotice writes the members that clients get of a record about a run: Notice, Error, Output, Decision, Removed, a Run that was taken over, AgentFail, State; or of a Part.
func (it *Item) WriteNotice(o *rawjson.Object) {
	for _, name := range noticeMembers[it.Rec.Type] {
		o.Raw(name, it.Get(name))
	}
}
