package fold

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// TestPartsAsBuilt checks that a loaded page has the parts that a client of the AI SDK has built from the stream: a call id
// that is used twice is two parts, structured data that was invalidated is one, a call that needed an approval runs on the
// server, a call that ended without a decision has no approval, and no member name makes the client reject a value.
func TestPartsAsBuilt(t *testing.T) {
	for _, reloads := range []bool{false, true} {
		sc := &script{t: t, s: newSnapshot(session), reloads: reloads}
		yes := true
		custom := func(name, data string) { sc.applyChunk(1, chunk.Custom{EventName: name, Data: chunk.Value(data)}) }
		sc.applyChunk(0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
		for range 2 {
			sc.applyChunk(1, chunk.ToolStart{ToolCallID: "c1", ToolName: "t", Arguments: chunk.Value(`{}`)})
			sc.applyChunk(1, chunk.ToolEnd{ToolCallID: "c1", ToolName: "t", Result: chunk.Value(`1`), ProviderExecuted: &yes})
		}
		custom("structured-data", `{"type":"structured-data","streamId":"d","dataType":"t","kind":"final","data":[1]}`)
		custom("x", `{"__proto__":1e400,"constructor":{"prototype":"\ud83d"}}`)
		custom("structured-data-invalidated", `{"streamId":"d"}`)
		sc.applyChunk(1, chunk.ToolApprovalRequest{ToolCallID: "c2", ToolName: "t", ApprovalID: "a", Input: chunk.Value(`{}`)})
		sc.applyChunk(1, chunk.ToolApprovalRequest{ToolCallID: "c3", ToolName: "t", ApprovalID: "b", Input: chunk.Value(`{}`)})
		sc.applyChunk(1, chunk.ToolOutputError{ToolCallID: "c3", ToolName: "t", Error: "abandoned"})
		sc.applyChunk(1, chunk.StreamPaused{})
		want := []string{
			`{"type":"dynamic-tool","toolName":"t","toolCallId":"c1","state":"output-available","input":{},"output":1,"providerExecuted":true}`,
			`{"type":"dynamic-tool","toolName":"t","toolCallId":"c1_2","state":"output-available","input":{},"output":1,"providerExecuted":true}`,
			`{"type":"data-structured","id":"d","data":{"status":"invalidated"}}`,
			`{"type":"data-x","data":{"$__proto__":1e400,"constructor":{"$prototype":"\ud83d"}}}`,
			`{"type":"dynamic-tool","toolName":"t","toolCallId":"c2","state":"approval-requested","input":{},"approval":{"id":"a"},"providerExecuted":true}`,
			`{"type":"dynamic-tool","toolName":"t","toolCallId":"c3","state":"output-error","input":{},"errorText":"abandoned","providerExecuted":true}`,
		}
		parts := BrowserForm(sc.s, false, 0).Messages[0].Parts
		if len(parts) != len(want) {
			t.Fatalf("%d parts, want %d", len(parts), len(want))
		}
		for i, p := range parts {
			if string(p) != want[i] {
				t.Errorf("part %d is %s, want %s", i, p, want[i])
			}
		}
	}
}
