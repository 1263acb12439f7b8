package fold

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// A page that is loaded shows the parts that a client of the AI SDK has built of
// the stream: a call whose id comes twice is two parts, a value of structured
// data that was taken back is one, a call that needed an approval is not the
// browser's to run, one that ended undecided asks nobody, and no name in a value
// makes the client refuse it.
func TestPartsAsBuilt(t *testing.T) {
	for _, reloads := range []bool{false, true} {
		sc := &script{t: t, s: New(session), reloads: reloads}
		yes := true
		custom := func(name, data string) { sc.say(1, chunk.Custom{EventName: name, Data: chunk.Value(data)}) }
		sc.say(0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
		for range 2 {
			sc.say(1, chunk.ToolStart{ToolCallID: "c1", ToolName: "t", Arguments: chunk.Value(`{}`)})
			sc.say(1, chunk.ToolEnd{ToolCallID: "c1", ToolName: "t", Result: chunk.Value(`1`), ProviderExecuted: &yes})
		}
		custom("kortyx.structured-data", `{"type":"structured-data","streamId":"d","dataType":"t","kind":"final","data":[1]}`)
		custom("x", `{"__proto__":1e400,"constructor":{"prototype":"\ud83d"}}`)
		custom("kortyx.structured-data-invalidated", `{"streamId":"d"}`)
		sc.say(1, chunk.ToolApprovalRequest{ToolCallID: "c2", ToolName: "t", ApprovalID: "a", Input: chunk.Value(`{}`)})
		sc.say(1, chunk.ToolApprovalRequest{ToolCallID: "c3", ToolName: "t", ApprovalID: "b", Input: chunk.Value(`{}`)})
		sc.say(1, chunk.ToolOutputError{ToolCallID: "c3", ToolName: "t", Error: "abandoned"})
		sc.say(1, chunk.StreamPaused{})
		want := []string{
			`{"type":"dynamic-tool","toolName":"t","toolCallId":"c1","state":"output-available","input":{},"output":1,"providerExecuted":true}`,
			`{"type":"dynamic-tool","toolName":"t","toolCallId":"c1_2","state":"output-available","input":{},"output":1,"providerExecuted":true}`,
			`{"type":"data-structured","id":"d","data":{"status":"invalidated"}}`,
			`{"type":"data-x","data":{"$__proto__":1e400,"constructor":{"$prototype":"\ud83d"}}}`,
			`{"type":"dynamic-tool","toolName":"t","toolCallId":"c2","state":"approval-requested","input":{},"approval":{"id":"a"},"providerExecuted":true}`,
			`{"type":"dynamic-tool","toolName":"t","toolCallId":"c3","state":"output-error","input":{},"errorText":"abandoned","providerExecuted":true}`,
		}
		parts := sc.s.Frontend(false, 0).Messages[0].Parts
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
