package langgraph_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/langgraph"
)

func Example() {
	response := `{"type":"event","method":"lifecycle","params":{"namespace":[],"data":{"event":"running"}}}
{"type":"event","method":"messages","params":{"namespace":["model:1"],"node":"model","data":{"event":"message-start","id":"msg_1"}}}
{"type":"event","method":"messages","params":{"namespace":["model:1"],"node":"model","data":{"event":"content-block-delta","index":0,"delta":{"type":"text-delta","text":"Hello"}}}}
{"type":"event","method":"messages","params":{"namespace":["model:1"],"node":"model","data":{"event":"message-finish","usage":{"input_tokens":5,"output_tokens":2}}}}
{"type":"event","method":"values","params":{"namespace":[],"data":{"done":true}}}
{"type":"event","method":"lifecycle","params":{"namespace":[],"data":{"event":"completed"}}}`

	tr := langgraph.New(codec.Run{Session: "s1", AgentType: "clerk"})
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

func ExampleWriter() {
	w := langgraph.NewWriter(langgraph.WriterConfig{MessageID: "msg-1", Channels: []string{"messages", "lifecycle"}})
	for i, body := range []chunk.Body{
		chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "Bern."}, chunk.StreamEnd{StreamID: "s1"},
	} {
		c := chunk.Chunk{AgentID: "s1", AgentType: "clerk", Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			panic(err)
		}
		rec := chunk.Record{Seq: chunk.Seq(i + 1), Session: chunk.RootSession("acme", "s1"), Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), Data: data}
		fmt.Print(string(w.Append(nil, rec)))
	}
	// Output:
	// id: 1
	// data: {"type":"event","event_id":"synth:r1:1.1","seq":1,"method":"lifecycle","params":{"namespace":[],"timestamp":0,"data":{"event":"running"}}}
	//
	// data: {"type":"event","event_id":"2.1","seq":2,"method":"messages","params":{"namespace":[],"timestamp":0,"data":{"event":"message-start","role":"ai","id":"ai-2"}}}
	//
	// data: {"type":"event","event_id":"2.2","seq":2,"method":"messages","params":{"namespace":[],"timestamp":0,"data":{"event":"content-block-start","index":0,"content":{"type":"text","text":""}}}}
	//
	// id: 2
	// data: {"type":"event","event_id":"2.3","seq":2,"method":"messages","params":{"namespace":[],"timestamp":0,"data":{"event":"content-block-delta","index":0,"delta":{"type":"text-delta","text":"Bern."}}}}
	//
	// data: {"type":"event","event_id":"3.1","seq":3,"method":"messages","params":{"namespace":[],"timestamp":0,"data":{"event":"content-block-finish","index":0,"content":{"type":"text","text":"Bern."}}}}
	//
	// data: {"type":"event","event_id":"3.2","seq":3,"method":"messages","params":{"namespace":[],"timestamp":0,"data":{"event":"message-finish"}}}
	//
	// id: 3
	// data: {"type":"event","event_id":"synth:r1:3.3","seq":3,"method":"lifecycle","params":{"namespace":[],"timestamp":0,"data":{"event":"completed"}}}
}
