package mastra

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
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
		t.resume(child)
		t.handleChunk(child, output)
		if child.over && child.ending != waits {
			t.conclude(child)
		}
		return true
	}
	data := append(chunk.Value(`{"toolCallId":`), p["toolCallId"]...)
	data = append(append(data, `,"toolName":`...), quote(toolName)...)
	data = append(append(data, `,"output":`...), redact(output, chunk.MaxDepth)...)
	t.emit(a, chunk.Custom{EventName: "tool-output", Data: append(data, '}')})
	return true
}

// child returns the sub-agent of a chunk in a tool's output, nil if it has none: chunks of workflows have none, nor have those whose run id is not a valid
// session id.
func (t *Translator) child(a *agent, callID, toolName string, chunkInside object) *agent {
	kind, _ := chunkInside.text("type")
	run, _ := chunkInside.text("runId")
	from, _ := chunkInside.text("from")
	if kind == "" || from != "AGENT" && kind != "tool-output" || subjects.CheckToken("session", run) != nil {
		return nil
	}
	for up := a; up != nil; up = up.parent {
		if up.session == run {
			return nil
		}
	}
	for _, c := range a.children {
		if c.callID == callID && c.session == run {
			return c
		}
	}
	name := strings.TrimPrefix(toolName, "agent-")
	if name == toolName && kind == "start" {
		name = chunkInside.object("payload").or("id", name)
	}
	begin := chunk.SubagentStart{SubAgentType: name, SubSessionID: run, CallID: callID}
	if (chunk.Chunk{AgentID: a.session, AgentType: a.kind, Step: a.step, Body: begin}).Validate() != nil {
		return nil
	}
	c := &agent{session: run, kind: name, run: run, parent: a, callID: callID}
	a.children = append(a.children, c)
	t.emit(a, begin)
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
