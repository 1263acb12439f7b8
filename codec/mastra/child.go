package mastra

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// toolOutput is the output of a running tool: a chunk of a sub-agent, data of the application, or any other value.
func (t *Translator) toolOutput(a *agent, callID, toolName string, p object) bool {
	output, ok := p["output"]
	if !ok {
		return false
	}
	inner := read(output)
	kind, _ := inner.text("type")
	if data, ok := inner["data"]; ok && strings.HasPrefix(kind, "data-") {
		t.emit(a, chunk.Custom{EventName: strings.TrimPrefix(kind, "data-"), Data: data})
		return true
	}
	if child := t.child(a, callID, toolName, inner); child != nil {
		t.nested(child, output)
		return true
	}
	data := append(chunk.Value(`{"toolCallId":`), p["toolCallId"]...)
	data = append(append(data, `,"toolName":`...), quote(toolName)...)
	data = append(append(data, `,"output":`...), redact(output, chunk.MaxDepth)...)
	t.emit(a, chunk.Custom{EventName: "tool-output", Data: append(data, '}')})
	return true
}

// child returns the sub-agent of a chunk in a tool's output, nil if it has none. Agents, workflows and networks have one, and its chunks include those that its
// tools and steps wrote.
func (t *Translator) child(a *agent, callID, toolName string, chunkInside object) *agent {
	kind, _ := chunkInside.text("type")
	run, _ := chunkInside.text("runId")
	if kind == "" {
		return nil
	}
	for _, c := range a.children {
		if c.callID == callID && c.session == run {
			return c
		}
	}
	name := toolName
	switch from, _ := chunkInside.text("from"); {
	case from == "AGENT", from == "NETWORK", kind == "tool-output":
		name = strings.TrimPrefix(name, "agent-")
	case from == "WORKFLOW":
		name = strings.TrimPrefix(name, "workflow-")
	default:
		return nil
	}
	if first := chunkInside.object("payload"); name == toolName {
		switch kind {
		case "start":
			name = first.or("id", name)
		case "workflow-start":
			name = first.or("workflowId", name)
		}
	}
	c := t.newChild(a, run, name, callID)
	if c != nil {
		t.addChild(a, c)
	}
	return c
}

// remember stores the output of a sub-agent. Two halves of a split character are joined.
func (a *agent) remember(piece string) {
	if n := len(a.text); n > 0 && strings.HasPrefix(piece, "\xed") {
		a.text[n-1] = chunk.Concat(a.text[n-1], piece)
		return
	}
	a.text = append(a.text, piece)
}

// result returns the result of a sub-agent for its parent.
func (a *agent) result() chunk.Value {
	switch {
	case a.ending == failed:
		return a.failure.result()
	case a.output != nil:
		return a.output
	}
	return quote(strings.Join(a.text, ""))
}
