package openai

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The events of the Agents SDK, for TypeScript and for Python.
const (
	rawEvent      = "raw_response_event"     // Python: an event of an endpoint
	rawModelEvent = "raw_model_stream_event" // TypeScript: likewise, or one of the SDK
	itemEvent     = "run_item_stream_event"
	agentEvent    = "agent_updated_stream_event"
	progressEvent = "tool_progress_stream_event"

	approvalPrefix = "approval-" // of the id of an approval, before that of its call
)

// agentsLeftOut has the members that are not kept, see docs/reference/dialects.md.
var agentsLeftOut = dialect.LeaveOut(map[string]string{
	rawModelEvent: "source data.providerData.rawModelEventSource data.itemId data.response.id data.response.requestId data.response.output data.response.providerData data.response.usage",
	itemEvent: "item.type item.rawItem.type item.raw_item.type item.executionStatus item.agent item.sourceAgent item.source_agent item.targetAgent item.target_agent item.functionToolStateKey item.tool_origin " +
		"item.rawItem.id item.raw_item.id item.rawItem.status item.raw_item.status item.rawItem.role item.raw_item.role item.rawItem.providerData.id item.rawItem.providerData.type " +
		"item.rawItem.providerData.encrypted_content item.rawItem.content.providerData.type",
	agentEvent: "agent new_agent",
})

// agentsEvent returns an event of the Agents SDK, nil for other data.
func agentsEvent(raw []byte) (kind string, o *dialect.Object) {
	raw = rawjson.TrimSpace(raw)
	kind = dialect.TextAt(raw, "type")
	if !slices.Contains([]string{rawEvent, rawModelEvent, itemEvent, agentEvent, progressEvent}, kind) {
		return "", nil
	}
	if _, ok := rawjson.Scan(raw, rawjson.Limits{Levels: chunk.MaxDepth * 100}); !ok {
		return "", nil
	}
	return kind, dialect.Read(raw)
}

// agentsEvent translates an event of the Agents SDK, and keeps what was not read of it.
func (t *translator) agentsEvent(kind string, o *dialect.Object) {
	o.Text("type")
	named, understood := kind, false
	switch kind {
	case rawEvent:
		understood = t.modelEvent(o, "data")
	case rawModelEvent:
		understood = t.agentsModel(o)
	case itemEvent:
		named = o.Or("name", "unknown")
		understood = t.agentsItem(named, o.Object("item"))
	case agentEvent:
		understood = t.agentUpdated(o)
	}
	if !understood {
		t.agent.Resume()
		whole := o.GetAll()
		if kind == itemEvent || kind == agentEvent {
			whole = dialect.Without(whole, 2, "agent", "new_agent")
		}
		t.agent.EmitValid(openaistream.Custom(named, whole))
	}
	if rest := t.rests.Of(o, kind, agentsLeftOut); rest != nil {
		t.agent.EmitValid(openaistream.Custom(dialect.RestEvent, rest))
	}
}

// modelEvent translates the event of an endpoint in a member.
func (t *translator) modelEvent(o *dialect.Object, name string) bool {
	if rawjson.Kind(o.Peek(name)) != '{' || t.response(o.Peek(name)) != nil {
		return false
	}
	o.Get(name)
	return true
}

// agentsModel translates an event of a model of the SDK for TypeScript.
func (t *translator) agentsModel(o *dialect.Object) bool {
	d := o.Object("data")
	t.twice = true
	switch kind := d.Or("type", ""); kind {
	case "model":
		return t.modelEvent(d, "event")
	case "output_text_delta", "response_started", "response_done":
		if t.fresh = kind == "response_started"; t.fresh && t.reader != nil {
			t.finishStep(t.reader)
			t.reader = nil
		}
		t.read(t.current().ReadAgents(kind, d))
	default:
		return false
	}
	return true
}

// current returns the response that is read, and begins one if there is none.
func (t *translator) current() *openaistream.Reader {
	if t.reader == nil {
		t.reader = t.newReader()
		t.begin()
	}
	return t.reader
}

func (t *translator) read(events []openaistream.Event) {
	for _, e := range events {
		t.translate(e)
	}
}

// agentUpdated sets the agent of what follows.
func (t *translator) agentUpdated(o *dialect.Object) bool {
	for _, member := range []string{"agent", "new_agent"} {
		name := o.Object(member).Or("name", "")
		if name != "" && (chunk.Chunk{AgentID: "-", AgentType: name, Body: chunk.StepStart{}}).ValidateUnstored() == nil {
			t.agent.Type = name
			return true
		}
	}
	return false
}

// agentsItem translates an item of a run.
func (t *translator) agentsItem(name string, item *dialect.Object) bool {
	raw := cmp.Or(item.Object("rawItem"), item.Object("raw_item"))
	if raw == nil {
		return false
	}
	switch name {
	case "message_output_created", "reasoning_item_created":
		return t.readItem(raw)
	case "tool_called", "handoff_requested":
		return t.called(raw)
	case "tool_output":
		return t.toolOutput(item, raw)
	case "handoff_occurred", "handoff_occured": //nolint:misspell // as the SDK for Python writes it
		agents := rawjson.Begin(nil)
		for _, end := range []string{"source", "target"} {
			agents.Raw(end, dialect.Quote(cmp.Or(item.Object(end+"Agent"), item.Object(end+"_agent")).Or("name", "")))
		}
		return t.toolOutput(item, raw) && t.agent.EmitValid(openaistream.Custom("handoff", agents.End()))
	case "tool_approval_requested", "mcp_approval_requested":
		return t.approval(item, raw)
	case "mcp_approval_response":
		return t.approved(raw)
	}
	return false
}

// ofItem returns the response of an item, which has ended if its events are missing.
func (t *translator) ofItem() *openaistream.Reader {
	if t.reader == nil {
		t.current().Finish = openaistream.FinishStop
	}
	return t.reader
}

// readItem translates an item that the response may have had.
func (t *translator) readItem(raw *dialect.Object) bool {
	events, ok := t.ofItem().ReadItem(raw)
	t.read(events)
	return ok
}

// callOf returns the id of a call and its tool. provider: the endpoint runs it.
func (t *translator) callOf(raw *dialect.Object) (id, tool string, provider bool) {
	id = raw.Or("callId", raw.Or("call_id", ""))
	if provider = id == ""; provider {
		id = raw.Or("id", "")
	}
	if tool = raw.Or("name", ""); tool == "" {
		tool = strings.TrimSuffix(raw.Or("type", "unknown"), "_output")
	}
	if known := t.calls[id]; known != "" && known != tool {
		raw.Unread("name")
		tool = known
	}
	return id, tool, provider
}

// called starts a call that no response had. A call that the endpoint has run is complete.
func (t *translator) called(raw *dialect.Object) bool {
	switch raw.PeekText("type") {
	case "function_call", "custom_tool_call", "mcp_call", "image_generation_call":
		return t.readItem(raw)
	}
	id, tool, provider := t.callOf(raw)
	if isNew := t.calls[id] == ""; id == "" || isNew && !t.startCall(id, tool, raw, provider) {
		return false
	} else if isNew && provider {
		t.agent.EmitValid(chunk.ToolEnd{ToolCallID: id, ToolName: tool, Result: openaistream.Redacted(raw.GetAll()), ProviderExecuted: new(true)})
	}
	return true
}

// argumentsOf returns the arguments of a call: the members of its item that are not of all items, if it has none.
func argumentsOf(raw *dialect.Object, provider bool) chunk.Value {
	if raw.Peek("arguments") != nil || provider {
		return openaistream.CallArguments(raw)
	}
	ofAll := []string{"type", "id", "callId", "call_id", "name", "status", "providerData"}
	for name := range rawjson.Members(raw.All()) {
		if s := string(name.Bytes()); !slices.Contains(ofAll, s) {
			raw.Get(s)
		}
	}
	return openaistream.Redacted(dialect.Without(raw.All(), 1, ofAll...))
}

// startCall starts a call whose arguments are a member of its item, or the item itself.
func (t *translator) startCall(id, tool string, raw *dialect.Object, provider bool) bool {
	t.ofItem()
	if !t.agent.EmitValid(chunk.ToolStart{ToolCallID: id, ToolName: tool, Arguments: argumentsOf(raw, provider)}, t.by(provider)...) {
		return false
	}
	t.content, t.calls[id] = true, tool
	return true
}

// toolOutput ends a call.
func (t *translator) toolOutput(item, raw *dialect.Object) bool {
	id, tool, _ := t.callOf(raw)
	if id == "" {
		return false
	}
	output := item.Value("output")
	if inner := raw.Object("output"); output == nil && inner.Or("type", "") == "text" {
		output = inner.Get("text")
	}
	if output == nil {
		output = dialect.OrNull(raw.Get("output"))
	}
	t.agent.Resume()
	if !t.agent.EmitValid(chunk.ToolEnd{ToolCallID: id, ToolName: tool, Result: output}) {
		return false
	}
	if item.Get("output") != nil {
		raw.Get("output") // the same for the model, as a text
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(c openCall) bool { return c.id == id })
	return true
}

// approval asks for the approval of a call, which the run waits for at its end.
func (t *translator) approval(item, raw *dialect.Object) bool {
	id, tool, provider := t.callOf(raw)
	for _, member := range []string{"toolName", "tool_name"} {
		if t.calls[id] == "" {
			tool = item.Or(member, tool)
		} else if item.Or(member, tool) != tool {
			item.Unread(member)
		}
	}
	if id == "" || t.calls[id] == "" && !t.startCall(id, tool, raw, provider) {
		return false
	}
	c := openCall{id, t.calls[id]}
	if slices.Contains(t.waiting, c) {
		return true
	}
	t.agent.Resume()
	t.waiting = append(t.waiting, c)
	return t.agent.EmitValid(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: c.name, ApprovalID: approvalPrefix + id, Input: argumentsOf(raw, provider)})
}

// approved writes the decision on a call of an MCP server.
func (t *translator) approved(raw *dialect.Object) bool {
	id, ok := raw.Text("approval_request_id")
	tool := cmp.Or(t.calls[id], "unknown")
	if !ok || !t.agent.EmitValid(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: tool, ApprovalID: approvalPrefix + id, Approved: raw.Flag("approve"), Reason: raw.Maybe("reason")}) {
		return false
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(c openCall) bool { return c.id == id })
	return true
}
