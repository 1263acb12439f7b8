package aisdk

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// TestEndOfSubAgentWhileUserIsAsked: a run pauses for the browser and for a sub-agent. The run continues after both, so a response that the start of the sub-agent
// begins ends with the sub-agent: the browser posts its result only then.
func TestEndOfSubAgentWhileUserIsAsked(t *testing.T) {
	child := chunk.Session{Tenant: session.Tenant, Root: session.Root, ID: "k1"}
	m := New("msg-1", Options{ClientTool: func(tool string) bool { return tool == "ask" }})
	ordinals := map[string]chunk.Ordinal{}
	for i, r := range []struct {
		of   chunk.Session
		body chunk.Body
		done bool
	}{
		{session, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, false},
		{session, chunk.ToolStart{ToolCallID: "c1", ToolName: "ask", Arguments: chunk.Value(`{}`)}, false},
		{session, chunk.ToolStart{ToolCallID: "c2", ToolName: "subagent__x", Arguments: chunk.Value(`{}`)}, false},
		{session, chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "c2"}, false},
		{session, chunk.StreamPaused{}, true},
		{child, chunk.RunStarted{RunID: "k", Epoch: 1, Mode: "execute"}, false},
		{child, chunk.TextDelta{Delta: "x"}, false},
		{child, chunk.StreamEnd{StreamID: "k1"}, true},
		{session, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "continue"}, false},
	} {
		ordinals[r.of.ID]++
		c := chunk.Chunk{AgentID: r.of.ID, AgentType: "a", Timestamp: 1, Body: r.body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		frames := m.Append(nil, chunk.Record{
			Seq: chunk.Seq(i + 1), Session: r.of, Epoch: 1, Ordinal: ordinals[r.of.ID], Type: c.Type(), Data: data,
		})
		if m.Done() != r.done {
			t.Fatalf("record %d %s: the response is over: %t, want %t\n%s", i+1, data, m.Done(), r.done, frames)
		}
	}
}
