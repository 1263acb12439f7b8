package aisdk

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// TestRollbackOfFinishedCalls: a rollback may reach calls that have their outcome. The latest call with an id decides, also if an earlier one is open again.
func TestRollbackOfFinishedCalls(t *testing.T) {
	yes := true
	start := chunk.ToolStart{ToolCallID: "c", ToolName: "search", Arguments: chunk.Value(`{}`)}
	end := chunk.ToolEnd{ToolCallID: "c", ToolName: "search", Result: null, ProviderExecuted: &yes}
	removes := func(first, last int64) chunk.Body {
		return chunk.Truncated{Removed: []chunk.OrdinalRange{{First: first, Last: last}}}
	}
	m := New("msg-1", Options{})
	for i, r := range []struct {
		body chunk.Body
		want string // in the frames, "" for no frame of a call
	}{
		{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, ""},
		{start, `"tool-input-available","toolCallId":"c"`}, // 2
		{end, `"tool-output-available","toolCallId":"c"`},
		{end, ""},
		{start, `"tool-input-available","toolCallId":"c_2"`}, // 5
		{end, `"tool-output-available","toolCallId":"c_2"`},
		{removes(3, 3), ""}, // c is open
		{end, ""},           // of c_2
		{removes(5, 6), ""}, // no c_2
		{end, `"tool-output-available","toolCallId":"c"`},
		{start, `"tool-input-available","toolCallId":"c_2"`},
		{removes(2, 11), ""},
		{end, `"tool-input-available","toolCallId":"c"`}, // shown before its outcome
	} {
		c := chunk.Chunk{AgentID: session.ID, AgentType: "a", Timestamp: 1, Body: r.body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := string(m.Append(nil, chunk.Record{
			Seq: chunk.Seq(i + 1), Session: session, Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), Data: data,
		}))
		if r.want == "" && strings.Contains(got, "toolCallId") || !strings.Contains(got, r.want) {
			t.Errorf("record %d: got %q, want %q", i+1, got, r.want)
		}
	}
}
