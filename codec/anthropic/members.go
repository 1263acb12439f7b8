package anthropic

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// keptPrefix begins the names of the events that have no counterpart.
const keptPrefix = dialect.Anthropic + "."

// memberName is the member of a chunk that has the rest of its event.
const memberName = dialect.Anthropic

// leftOut are the members of events that are not kept, see docs/reference/dialects.md.
var leftOut = dialect.LeaveOut(map[string]string{
	"":                         "uuid session_id request_id user_message_uuid user_message_uuids timestamp agent_id task_description",
	"message_start assistant":  "message.type message.role",
	"message":                  "role",
	"assistant":                "message.content.caller.type",
	"content_block_start":      "content_block.caller.type",
	"user":                     "message.role",
	"error":                    "error.message",
	"control_request_progress": "status",
	"tool_progress":            "tool_use_id tool_name task_id",
})

// hidden are the members that an event or a rest which is kept loses, at any depth: prompts, definitions of tools, keys and paths of the machine.
var hidden = []string{
	"prompt", "system", "tools", "cwd", "path", "paths", "memory_paths", "output_file", "transcript_path", "backup_path", "subpath", "projectKey", "apiKeySource", "api_key",
	"authorization_token", "fallback_credit_token",
}

// redact returns a value that is kept without what must not be stored.
func redact(v chunk.Value) chunk.Value { return dialect.Without(v, chunk.MaxDepth, hidden...) }
