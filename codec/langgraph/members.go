package langgraph

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// keptPrefix begins the names of the events that have no counterpart.
const keptPrefix = dialect.LangGraph + "."

// memberName is the member of a chunk that has the rest of its event.
const memberName = dialect.LangGraph

// leftOut are the members of events that are not kept, see docs/reference/dialects.md.
var leftOut = dialect.LeaveOut(map[string]string{
	"": "type method event_id eventId params.namespace params.node params.data.event params.data.run_id params.data.runId",
	"messages": "params.data.index params.data.content.index params.data.content.type params.data.content_block.type params.data.contentBlock.type params.data.delta.type params.data.delta.fields.type params.data.delta.encoding params.data.content.status params.data.contentBlock.status " +
		"params.data.content.id params.data.metadata.run_id params.data.metadata.thread_id params.data.metadata.model_type",
	"lifecycle": "params.data.graph_name params.data.graphName params.data.cause",
	"tools": "params.data.output.type params.data.output.id params.data.output.name params.data.output.status params.data.output.tool_call_id params.data.output.kwargs.id params.data.output.kwargs.name " +
		"params.data.output.kwargs.status params.data.output.kwargs.tool_call_id params.data.output.kwargs.type params.data.output.kwargs.metadata",
})

// hidden are the members that an event or a rest which is kept loses, at any depth: prompts, definitions of tools, and keys.
var hidden = []string{"system_prompt", "systemPrompt", "api_key", "apiKey", "authorization", "headers", "configurable"}

// redact returns a value that is kept without what must not be stored.
func redact(v chunk.Value) chunk.Value { return dialect.Without(v, chunk.MaxDepth, hidden...) }

// either returns the name that an object has for a member: the one in snake case, or else the one in camel case.
func either(o *dialect.Object, snake string) string {
	if o.Peek(snake) != nil {
		return snake
	}
	words := strings.Split(snake, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}
