package mastra_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/mastra"
)

func Example() {
	response := `{"type":"start","runId":"r1","from":"AGENT","payload":{"id":"planner","messageId":"m1"}}
{"type":"step-start","runId":"r1","from":"AGENT","payload":{"messageId":"m1","request":{"body":"the prompt"}}}
{"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"t1","text":"Hello"}}
{"type":"step-finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop"},"output":{"usage":{"inputTokens":5,"outputTokens":7}}}}
{"type":"finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop"}}}`

	tr := mastra.New(mastra.Config{Session: "s1"})
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
