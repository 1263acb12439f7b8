package anthropic

import (
	"cmp"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// message translates a message of the Agent SDK.
func (t *translator) message(a *agent, kind string, o *dialect.Object) bool {
	switch kind {
	case "stream_event":
		return t.streamEvent(a, o)
	case "assistant":
		return t.assistant(a, o)
	case "user":
		return t.user(a, o)
	case "result":
		t.queryResult(a, o)
	case "permission_denied":
		return t.denied(a, o)
	case "task_notification":
		t.taskEnded(o)
		return false
	case "thinking_tokens", "control_request_progress", "keep_alive":
	case "tool_progress":
		return o.Flag("heartbeat")
	default:
		return false
	}
	return true
}

// streamEvent translates the event inside of a message.
func (t *translator) streamEvent(a *agent, o *dialect.Object) bool {
	inner := o.Object("event")
	kind := inner.Or("type", "")
	if kind == "" {
		return false
	}
	t.event(a, kind, inner)
	inner.GetAll()
	return true
}

// assistant writes the blocks of a message that no event had. Several of these messages, with a block each, are one message of the model.
func (t *translator) assistant(a *agent, o *dialect.Object) bool {
	in := o.Object("message")
	if in == nil {
		return false
	}
	if id := in.PeekText("id"); a.m == nil || a.m.id != id {
		t.begin(a, id).whole = true
	}
	in.Text("id")
	m := a.m
	usage, stop := m.usage, m.stop
	t.readMessage(a, m, in)
	if !m.whole { // the events have the totals
		m.usage, m.stop = usage, stop
	}
	if supersedes := o.Get("supersedes"); supersedes != nil {
		a.Keep("supersedes", supersedes)
	}
	if code := o.Maybe("error"); code != nil {
		t.reported = *code
		a.EmitValid(chunk.Error{Error: "the model's answer has the error " + *code, Code: code})
	}
	return true
}

// user writes the results of calls. The other content is the message of the user, which the run has, or that of a sub-agent, which its call has.
func (t *translator) user(a *agent, o *dialect.Object) bool {
	in := o.Object("message")
	if in == nil {
		return false
	}
	if o.Flag("isSynthetic") && in.PeekText("content") != "" {
		return false
	}
	in.Text("content")
	var results []*dialect.Object
	for _, c := range in.List("content") {
		switch kind := c.PeekText("type"); {
		case kind == "tool_result":
			results = append(results, c)
		case !o.Flag("isSynthetic"):
			c.GetAll()
		}
	}
	understood := true
	for _, c := range results {
		var structured chunk.Value
		if len(results) == 1 && !c.Flag("is_error") {
			if structured = o.Value("tool_use_result"); structured != nil {
				o.Get("tool_use_result")
			}
		}
		understood = t.result(a, c, structured) && understood
	}
	return understood
}

// queryResult ends the query. Its cost and tokens are totals of the query.
func (t *translator) queryResult(a *agent, o *dialect.Object) {
	t.finish(a)
	t.over = true
	subtype := o.PeekText("subtype")
	leave := []string{"uuid", "session_id", "structured_output"}
	if output := o.Value("structured_output"); output != nil {
		a.Emit(chunk.Output{Output: output})
	}
	if a.said(o.PeekText("result")) {
		leave = append(leave, "result")
	}
	a.Keep("result", redact(dialect.Without(o.GetAll(), 1, leave...)))
	switch d := o.Object("deferred_tool_use"); {
	case o.Flag("is_error") || strings.HasPrefix(subtype, "error"):
		if subtype == "success" {
			subtype = cmp.Or(t.reported, "error")
		}
		if t.failure == nil {
			t.failure = &chunk.ErrorDetail{Message: "the agent ended with " + subtype, Code: &subtype}
		}
	case d != nil:
		t.deferCall(a, d)
	}
}

// said reports whether a text is the last one of the agent.
func (a *agent) said(s string) bool {
	if a.m == nil {
		return false
	}
	for _, b := range a.m.blocks {
		if rest, ok := b.text.Rest(s); ok && rest == "" && b.kind == kindText {
			return true
		}
	}
	return false
}

// deferCall asks for the approval of a call that waits for it after the query.
func (t *translator) deferCall(a *agent, d *dialect.Object) {
	id, input := d.Or("id", ""), dialect.Arguments(d.Value("input"))
	k := t.calls[id]
	if k == nil {
		k = &call{agent: a, sdk: true, id: id, name: d.Or("name", "unknown"), done: true}
		if !a.EmitValid(chunk.ToolStart{ToolCallID: id, ToolName: k.name, Arguments: input}) {
			return
		}
		t.calls[id] = k
	}
	if k.agent.live().EmitValid(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: k.name, ApprovalID: approvalOf(id), Input: input}) {
		t.deferred = k
	}
}

func approvalOf(call string) string { return "approval-" + call }

// denied writes the decision of a rule of the SDK.
func (t *translator) denied(a *agent, o *dialect.Object) bool {
	id, ok := o.Text("tool_use_id")
	name, isNamed := o.Text("tool_name")
	reason := o.Maybe("decision_reason")
	if reason == nil {
		reason = o.Maybe("message")
	}
	if k := t.calls[id]; k != nil {
		a = k.agent.live()
	}
	return ok && isNamed && a.EmitValid(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: approvalOf(id), Reason: reason, IsAutomatic: new(true)})
}

// taskEnded ends a sub-agent in the background, whose call has its result since the start.
func (t *translator) taskEnded(o *dialect.Object) {
	summary, status := o.PeekText("summary"), o.PeekText("status")
	var failure *chunk.ErrorDetail
	if status != "completed" {
		failure = &chunk.ErrorDetail{Message: "the sub-agent ended with " + status, Code: &status}
	}
	t.endChild(o.PeekText("tool_use_id"), failure, dialect.Quote(summary))
}
