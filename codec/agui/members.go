package agui

import "github.com/tailrace/tailrace/internal/dialect"

// The rows of events of which something was not used.
const (
	failedResult  = "TOOL_CALL_RESULT,failed" // its content is not its error
	repeatedError = "TOOL_CALL_RESULT,repeated"
	failedRun     = "RUN_FINISHED,failed"
	cancelledRun  = "RUN_FINISHED,cancelled"
	asking        = "RUN_FINISHED,interrupt"
	knownReason   = "STEP_FINISHED,known"
)

// members are those of events that are left out, see docs/reference/dialects.md, and those that the Translator reads. The others are kept.
var members = dialect.LeaveOut(map[string]string{
	"": "messageId parentMessageId role rawEvent subagentRunId parentSubagentRunId",
	"RUN_STARTED RUN_FINISHED RUN_FINISHED,failed RUN_FINISHED,cancelled RUN_FINISHED,interrupt": "threadId runId parentRunId input protocolVersion",
	"MESSAGES_SNAPSHOT": "messages",
}).Reads(map[string]string{
	"TEXT_MESSAGE_CONTENT REASONING_MESSAGE_CONTENT THINKING_TEXT_MESSAGE_CONTENT TEXT_MESSAGE_CHUNK REASONING_MESSAGE_CHUNK": "delta",
	"TOOL_CALL_START":            "toolCallId toolCallName",
	"TOOL_CALL_CHUNK":            "toolCallId toolCallName delta",
	"TOOL_CALL_ARGS":             "toolCallId delta",
	"TOOL_CALL_END":              "toolCallId metadata.arguments.*",
	"TOOL_CALL_RESULT":           "toolCallId content.*",
	failedResult:                 "toolCallId error metadata.error metadata.errorCode",
	repeatedError:                "toolCallId content error metadata.error metadata.errorCode",
	cancelledRun:                 "outcome.type metadata.reason",
	knownReason:                  "stepName metadata.finishReason",
	"RUN_FINISHED":               "result.* outcome.pendingToolCallIds.* outcome.type",
	asking:                       "result.* outcome.type outcome.interrupts.id outcome.interrupts.toolCallId outcome.interrupts.reason outcome.interrupts.metadata.toolCallName",
	"RUN_ERROR":                  "message code",
	"STEP_STARTED STEP_FINISHED": "stepName",
	"STATE_SNAPSHOT":             "snapshot.*",
	"STATE_DELTA":                "delta.op delta.path delta.from delta.value.*",
	"CUSTOM":                     "name value.*",
	"ACTIVITY_SNAPSHOT":          "activityType content.url content.mediaType content.filename content.sourceId content.title",
	"SUBAGENT_STARTED":           "name parentToolCallId",
	"SUBAGENT_FINISHED":          "result.* outcome.type",
	"SUBAGENT_ERROR":             "message code",
})

// row returns the row of members for an event that was translated.
func (t *translator) row(e event) string {
	_, failed := e.Text("error")
	_, inside := e.Object.Object("metadata").Text("error")
	switch {
	case e.kind == "TOOL_CALL_RESULT" && (failed || inside):
		if content, _ := e.Text("content"); content == e.Or("error", e.Object.Object("metadata").Or("error", "")) {
			return repeatedError
		}
		return failedResult
	case e.kind == "RUN_FINISHED" && e.Object.Object("outcome").Or("type", "") == "cancelled":
		return cancelledRun
	case e.kind == "RUN_FINISHED" && t.ending == fails:
		return failedRun
	case e.kind == "RUN_FINISHED" && e.Object.Object("outcome").Or("type", "") == "interrupt":
		return asking
	case e.kind == "STEP_FINISHED":
		if _, known := dialect.FinishReason(e.Object.Object("metadata").Or("finishReason", "")); known {
			return knownReason
		}
	}
	return e.kind
}
