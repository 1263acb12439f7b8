package kortyx_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/kortyx"
)

func Example() {
	bodies := []chunk.Body{
		chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"},
		chunk.TextDelta{Delta: "May I? "},
		chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "pay", ApprovalID: "a1", Input: chunk.Value(`{"eur":5}`)},
		chunk.StreamPaused{},
	}
	w := kortyx.NewWriter(nil)
	for i, body := range bodies {
		c := chunk.Chunk{AgentID: "s1", AgentType: "shop", Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			fmt.Println(err)
		}
		rec := chunk.Record{Seq: chunk.Seq(7 + i), Session: chunk.RootSession("acme", "s1"), Epoch: 1, Ordinal: chunk.Ordinal(1 + i), Type: c.Type(), Data: data}
		fmt.Print(string(w.Append(nil, rec)))
	}
	// Output:
	// data: {"type":"session","sessionId":"s1"}
	//
	// id: 7
	//
	// data: {"type":"text-start","node":"shop","opId":"r1","segmentId":"block-8"}
	//
	// data: {"type":"text-delta","node":"shop","opId":"r1","segmentId":"block-8","delta":"May I? "}
	//
	// id: 8
	//
	// data: {"type":"text-end","node":"shop","opId":"r1","segmentId":"block-8"}
	//
	// data: {"type":"interrupt","requestId":"a1","resumeToken":"","node":"shop","opId":"r1","id":"tool:c1","input":{"kind":"choice","multiple":false,"question":"Approve pay?","id":"tool:c1","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}],"meta":{"tool":"pay","toolCallId":"c1","input":{"eur":5}}}}
	//
	// id: 9
	//
	// data: {"type":"done"}
	//
	// id: 10
	//
	// data: [DONE]
}

func ExampleTranslator() {
	response := `{"type":"session","sessionId":"theirs"}
{"type":"text-delta","node":"plan","opId":"o1","segmentId":"1","delta":"Hello"}
{"type":"tool-call-start","tool":"search","toolCallId":"c1","input":{"q":"sky"},"node":"plan"}
{"type":"tool-call-result","tool":"search","toolCallId":"c1","content":"blue","node":"plan"}
{"type":"done"}`

	tr := kortyx.New(codec.Run{Session: "s1"})
	write := func(chunks []chunk.Chunk) {
		for _, c := range chunks {
			text, err := c.AppendJSON(nil)
			fmt.Println(string(text), err)
		}
	}
	for line := range strings.Lines(response) {
		chunks, err := tr.Translate([]byte(line))
		if err != nil {
			fmt.Println(err)
		}
		write(chunks)
	}
	write(tr.End())
	// Output:
	// {"type":"text_delta","agentId":"s1","agentType":"plan","timestamp":0,"step":0,"delta":"Hello"} <nil>
	// {"type":"tool_start","agentId":"s1","agentType":"plan","timestamp":0,"step":0,"toolCallId":"c1","toolName":"search","arguments":{"q":"sky"}} <nil>
	// {"type":"tool_end","agentId":"s1","agentType":"plan","timestamp":0,"step":0,"toolCallId":"c1","toolName":"search","result":"blue","providerExecuted":true} <nil>
	// {"type":"stream_end","agentId":"s1","agentType":"plan","timestamp":0,"step":0,"streamId":"s1"} <nil>
}
