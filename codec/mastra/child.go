package mastra

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// toolOutput is the output of a running tool: a chunk of a sub-agent, data of the application, or any other value.
func (t *translator) toolOutput(a *agent, callID, toolName string, p *dialect.Object) bool {
	output, inner := p.Peek("output"), p.Object("output")
	if output == nil {
		return false
	}
	if a.data(inner) {
		return true
	}
	if child := t.child(a, callID, toolName, inner); child != nil {
		t.nested(child, inner)
		return true
	}
	o := rawjson.Begin(nil)
	o.Raw("toolCallId", p.Peek("toolCallId"))
	o.Raw("toolName", dialect.Quote(toolName))
	o.Raw("output", redact(output, chunk.MaxDepth))
	a.Emit(chunk.Custom{EventName: toolProgress, Data: o.End()})
	return true
}

// data writes data of the application, and reports whether a chunk has them.
func (a *agent) data(m *dialect.Object) bool {
	name, is := strings.CutPrefix(m.Or("type", ""), "data-")
	data := m.Peek("data")
	if !is || data == nil {
		return false
	}
	a.Emit(chunk.Custom{EventName: name, Data: data})
	return true
}

// child returns the sub-agent of a chunk in a tool's output, nil if it has none. Agents, workflows and networks have one, and its chunks include those that its
// tools and steps wrote.
func (t *translator) child(a *agent, callID, toolName string, chunkInside *dialect.Object) *agent {
	kind, _ := chunkInside.Text("type")
	run, _ := chunkInside.Text("runId")
	if kind == "" {
		return nil
	}
	for _, c := range a.children {
		if c.CallID == callID && c.Session == run {
			return c
		}
	}
	name := toolName
	switch from, _ := chunkInside.Text("from"); {
	case from == "AGENT", from == "NETWORK", kind == "tool-output":
		name = strings.TrimPrefix(name, "agent-")
	case from == "WORKFLOW":
		name = strings.TrimPrefix(name, "workflow-")
	default:
		return nil
	}
	if first := chunkInside.Object("payload"); name == toolName {
		switch kind {
		case "start":
			name = first.Or("id", name)
		case "workflow-start":
			name = first.Or("workflowId", name)
		}
	}
	c := t.newChild(a, run, name, callID)
	if c != nil {
		t.addChild(a, c)
	}
	return c
}
