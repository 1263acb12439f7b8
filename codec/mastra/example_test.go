package mastra_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/mastra"
	"github.com/tailrace/tailrace/projector/fold"
)

func Example() {
	response := `{"type":"start","runId":"r1","from":"AGENT","payload":{"id":"planner","messageId":"m1"}}
{"type":"step-start","runId":"r1","from":"AGENT","payload":{"messageId":"m1","request":{"body":"the prompt"}}}
{"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"t1","text":"Hello"}}
{"type":"step-finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop"},"output":{"usage":{"inputTokens":5,"outputTokens":7}}}}
{"type":"finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop"}}}`

	tr := mastra.New(codec.Run{Session: "s1"})
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
	// {"type":"step_start","agentId":"s1","agentType":"planner","timestamp":0,"step":1} <nil>
	// {"type":"text_delta","agentId":"s1","agentType":"planner","timestamp":0,"step":1,"delta":"Hello"} <nil>
	// {"type":"step_end","agentId":"s1","agentType":"planner","timestamp":0,"step":1,"usage":{"inputTokens":5,"outputTokens":7},"finishReason":"stop"} <nil>
	// {"type":"stream_end","agentId":"s1","agentType":"planner","timestamp":0,"step":1,"streamId":"s1"} <nil>
}

func ExampleWriter() {
	bodies := []chunk.Body{
		chunk.RunStarted{RunID: "r1", Mode: "execute"},
		chunk.StepStart{},
		chunk.TextDelta{Delta: "Hello"},
		chunk.StepEnd{FinishReason: new("stop")},
		chunk.StreamEnd{StreamID: "s1"},
	}
	w := mastra.NewWriter("msg-1")
	for i, body := range bodies {
		c := chunk.Chunk{AgentID: "s1", AgentType: "planner", Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			fmt.Println(err)
		}
		n := i + 1
		frames := w.Append(nil, chunk.Record{
			Seq: chunk.Seq(n), Session: chunk.RootSession("acme", "s1"), Epoch: 1, Ordinal: chunk.Ordinal(n), Type: c.Type(), Data: data,
		})
		fmt.Print(strings.ReplaceAll(string(frames), "\n\n", "\n"))
	}
	// Output:
	// data: {"type":"start","runId":"r1","from":"AGENT","payload":{"id":"planner","messageId":"msg-1"}}
	// data: {"type":"step-start","runId":"r1","from":"AGENT","payload":{"messageId":"msg-1","request":{},"warnings":[]}}
	// id: 2
	// data: {"type":"text-start","runId":"r1","from":"AGENT","payload":{"id":"block-1"}}
	// data: {"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"block-1","text":"Hello"}}
	// id: 3
	// data: {"type":"text-end","runId":"r1","from":"AGENT","payload":{"id":"block-1"}}
	// data: {"type":"step-finish","runId":"r1","from":"AGENT","payload":{"messageId":"msg-1","stepResult":{"reason":"stop","isContinued":false},"output":{"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}},"metadata":{}}}
	// id: 4
	// data: {"type":"finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop","isContinued":false},"output":{"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}},"metadata":{},"messages":{"all":[],"user":[],"nonUser":[]}}}
	// id: 5
	// data: [DONE]
}

func ExampleAppendSnapshot() {
	f := aisdk.FrontendSnapshot{
		Session: chunk.RootSession("acme", "s1"), Status: fold.Ended, StreamSequence: 17, Run: fold.Run{StartedAt: 1767225600037},
		Messages: []aisdk.UIMessage{{ID: "msg-1", Role: fold.Assistant, Parts: []chunk.Value{
			chunk.Value(`{"type":"text","text":"Hello","state":"done"}`),
			chunk.Value(`{"type":"dynamic-tool","toolCallId":"c1","toolName":"search","state":"output-available","input":{"q":1},"output":2,"providerExecuted":true}`),
		}}},
	}
	fmt.Println(strings.ReplaceAll(string(mastra.AppendSnapshot(nil, f)), `{"type"`, "\n"+`{"type"`))
	// Output:
	// {"messages":[{"id":"msg-1","role":"assistant","createdAt":"2026-01-01T00:00:00.037Z","threadId":"s1","content":{"format":2,"parts":[
	// {"type":"text","text":"Hello"},
	// {"type":"tool-invocation","toolInvocation":{"toolCallId":"c1","toolName":"search","args":{"q":1},"state":"result","result":2},"providerExecuted":true}],"content":"Hello"}}],"status":"ended","streamSequence":17}
}
