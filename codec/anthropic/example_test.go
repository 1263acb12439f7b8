package anthropic_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/anthropic"
)

func Example() {
	response := `{"type":"message_start","message":{"id":"msg_1","model":"claude-opus-4-5","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}
{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}
{"type":"content_block_stop","index":0}
{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}
{"type":"message_stop"}`

	tr := anthropic.New(codec.Run{Session: "s1", AgentType: "clerk"})
	write := func(chunks []chunk.Chunk) {
		for _, c := range chunks {
			text, err := c.AppendJSON(nil)
			fmt.Println(string(text), err)
		}
	}
	for data := range strings.Lines(response) {
		chunks, err := tr.Translate([]byte(data))
		if err != nil {
			fmt.Println(err)
		}
		write(chunks)
	}
	write(tr.End())
	// Output:
	// {"type":"step_start","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"stepId":"msg_1"} <nil>
	// {"type":"text_delta","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"delta":"Hello"} <nil>
	// {"type":"step_end","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"usage":{"inputTokens":5,"outputTokens":2},"finishReason":"stop","model":"claude-opus-4-5"} <nil>
	// {"type":"stream_end","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"streamId":"s1"} <nil>
}
