package aisdk_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
)

func record(n int, body chunk.Body) chunk.Record {
	c := chunk.Chunk{AgentID: "s1", Step: 1, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		panic(err)
	}
	return chunk.Record{
		Seq: chunk.Seq(40 + n), Session: chunk.RootSession("acme", "s1"), Epoch: 1, Ordinal: chunk.Ordinal(n), Type: c.Type(), Data: data,
	}
}

func Example() {
	log := []chunk.Record{
		record(1, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"}),
		record(2, chunk.TextDelta{Delta: "Hel"}),
		record(3, chunk.TextDelta{Delta: "lo"}),
		record(4, chunk.StreamEnd{StreamID: "s1"}),
	}
	m := aisdk.New("msg-1", aisdk.Options{})
	var frames []byte
	for _, rec := range log {
		frames = m.Append(frames, rec)
	}
	fmt.Printf("%sdone: %v\n", frames, m.Done())
	// Output:
	// data: {"type":"start","messageId":"msg-1"}
	//
	// data: {"type":"text-start","id":"t42"}
	//
	// id: 42
	// data: {"type":"text-delta","id":"t42","delta":"Hel"}
	//
	// id: 43
	// data: {"type":"text-delta","id":"t42","delta":"lo"}
	//
	// data: {"type":"text-end","id":"t42"}
	//
	// id: 44
	// data: {"type":"finish","finishReason":"stop"}
	//
	// data: [DONE]
	//
	// done: true
}

// A client that has received everything up to 42 gets the rest, with the ids that it knows.
func ExampleMessageWriter_Advance() {
	m := aisdk.New("msg-1", aisdk.Options{})
	m.Advance(record(1, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"}))
	m.Advance(record(2, chunk.TextDelta{Delta: "Hel"}))
	fmt.Printf("%s", m.Append(nil, record(3, chunk.TextDelta{Delta: "lo"})))
	// Output:
	// id: 43
	// data: {"type":"text-delta","id":"t42","delta":"lo"}
}

// A client that posts an answer for the second time gets an empty response.
func ExampleMessageWriter_Finish() {
	m := aisdk.New("msg-1", aisdk.Options{})
	m.Advance(record(1, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"}))
	m.Advance(record(2, chunk.StreamEnd{StreamID: "s1"}))
	m.Continue()
	fmt.Printf("%s", m.Finish(nil))
	// Output:
	// data: {"type":"start","messageId":"msg-1"}
	//
	// data: {"type":"finish","finishReason":"stop"}
	//
	// data: [DONE]
}

func ExampleTranslator() {
	response := `{"type":"start"}
{"type":"start-step"}
{"type":"text-start","id":"1"}
{"type":"text-delta","id":"1","delta":"Where are you? "}
{"type":"text-end","id":"1"}
{"type":"tool-input-available","toolCallId":"c1","toolName":"location","input":{}}
{"type":"finish-step"}
{"type":"finish","finishReason":"tool-calls"}`

	tr := aisdk.NewTranslator(codec.Run{Session: "s1", AgentType: "support", RunID: "r1"})
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
	// {"type":"step_start","agentId":"s1","agentType":"support","timestamp":0,"step":1} <nil>
	// {"type":"text_delta","agentId":"s1","agentType":"support","timestamp":0,"step":1,"delta":"Where are you? "} <nil>
	// {"type":"tool_start","agentId":"s1","agentType":"support","timestamp":0,"step":1,"toolCallId":"c1","toolName":"location","arguments":{},"part":{"dynamic":false},"providerExecuted":false} <nil>
	// {"type":"step_end","agentId":"s1","agentType":"support","timestamp":0,"step":1,"finishReason":"tool-calls"} <nil>
	// {"type":"stream_paused","agentId":"s1","agentType":"support","timestamp":0,"step":1,"reason":"tool-calls"} <nil>
}
