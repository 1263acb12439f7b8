package langgraph_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/langgraph"
)

func Example() {
	response := `{"type":"event","method":"lifecycle","params":{"namespace":[],"data":{"event":"running"}}}
{"type":"event","method":"messages","params":{"namespace":["model:1"],"node":"model","data":{"event":"message-start","id":"msg_1"}}}
{"type":"event","method":"messages","params":{"namespace":["model:1"],"node":"model","data":{"event":"content-block-delta","index":0,"delta":{"type":"text-delta","text":"Hello"}}}}
{"type":"event","method":"messages","params":{"namespace":["model:1"],"node":"model","data":{"event":"message-finish","usage":{"input_tokens":5,"output_tokens":2}}}}
{"type":"event","method":"values","params":{"namespace":[],"data":{"done":true}}}
{"type":"event","method":"lifecycle","params":{"namespace":[],"data":{"event":"completed"}}}`

	tr := langgraph.New(langgraph.Config{Session: "s1", AgentType: "clerk"})
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
	// {"type":"step_end","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"usage":{"inputTokens":5,"outputTokens":2},"finishReason":"stop"} <nil>
	// {"type":"output","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"output":{"done":true}} <nil>
	// {"type":"stream_end","agentId":"s1","agentType":"clerk","timestamp":0,"step":1,"streamId":"s1"} <nil>
}
