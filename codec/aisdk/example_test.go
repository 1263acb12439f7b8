package aisdk_test

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
)

func record(n int, body chunk.Body) chunk.Record {
	data, err := chunk.Chunk{AgentID: "s1", Step: 1, Body: body}.AppendJSON(nil)
	if err != nil {
		panic(err)
	}
	return chunk.Record{
		Seq: chunk.Seq(40 + n), Session: chunk.RootSession("acme", "s1"), Epoch: 1, Ordinal: chunk.Ordinal(n), Type: body.Type(), Data: data,
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
