package mastra

import "github.com/tailrace/tailrace/internal/dialect"

// leftOut are the members of chunks that are left out, see docs/reference/dialects.md.
var leftOut = map[string]string{
	"":      "runId from",
	"start": "payload.id payload.messageId",
	"text-start text-delta text-end reasoning-start reasoning-delta reasoning-end": "payload.id payload.type",
	"step-start":         "payload.request payload.inputMessages payload.messageId",
	"step-finish finish": "payload",
	"tool-result tool-error tool-output-denied":                 "payload.args",
	"tool-call-delta tool-call-input-streaming-end tool-output": "payload.toolName",
	"object": "object",
	"error":  "payload.error.stack payload.error.requestBodyValues payload.error.prompt payload.error.responseBody payload.error.responseHeaders payload.error.data",
}

// members are those that are left out, and those that the Translator reads. The others are kept. A type that is not here is kept whole, or has another chunk in it.
var members = dialect.LeaveOut(leftOut).Reads(map[string]string{
	"text-delta reasoning-delta routing-agent-text-delta": "payload.text payload.providerMetadata.*",
	"reasoning-end":                   "payload.providerMetadata.*",
	"source":                          "payload.id payload.sourceType payload.url payload.title payload.mimeType payload.filename",
	"file":                            "payload.mimeType payload.data payload.base64 payload.filename",
	"object-result":                   "object.*",
	"error":                           "payload.error payload.error.message payload.error.code payload.error.category payload.error.cause.message",
	"tripwire abort":                  "payload.reason",
	"tool-call-input-streaming-start": "payload.toolCallId payload.toolName",
	"tool-call-input-streaming-end":   "payload.toolCallId",
	"tool-call-delta":                 "payload.toolCallId payload.argsTextDelta",
	"tool-call":                       "payload.toolCallId payload.toolName payload.args.* payload.providerMetadata.*",
	"tool-call-approval":              "payload.toolCallId payload.toolName payload.args.*",
	"tool-result":                     "payload.toolCallId payload.toolName payload.result.*",
	"tool-error":                      "payload.toolCallId payload.toolName payload.error payload.error.message payload.error.code",
	"tool-output-denied":              "payload.toolCallId payload.toolName payload.approval.reason",
	"tool-output":                     "payload.toolCallId payload.output.*",
	"data-":                           "data.*",
	"workflow-finish":                 "payload.workflowStatus payload.finalWorkflowResult.* payload.error payload.error.message payload.error.code",
})

// membersOfRepeated are those of a chunk that says something else than the chunks before it about the same call, or that has one thing in two ways. What is read of it
// is not in the log, so that it is kept.
var membersOfRepeated = dialect.LeaveOut(leftOut)
