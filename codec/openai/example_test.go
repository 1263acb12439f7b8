package openai_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/openai"
)

func Example() {
	response := `{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}
{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}
{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
{"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}`

	tr := openai.New(codec.Run{Session: "s1", AgentType: "clerk"})
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
	// {"type":"step_start","agentId":"s1","agentType":"clerk","timestamp":0,"step":1} <nil>
	// {"type":"text_delta","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"delta":"Hel"} <nil>
	// {"type":"text_delta","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"delta":"lo"} <nil>
	// {"type":"step_end","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"usage":{"inputTokens":5,"outputTokens":2},"finishReason":"stop"} <nil>
	// {"type":"stream_end","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"streamId":"s1"} <nil>
}
