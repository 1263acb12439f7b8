package agui_test

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/agui"
)

func record(n int, body chunk.Body) chunk.Record {
	c := chunk.Chunk{AgentID: "s1", AgentType: "agent", Step: 1, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		panic(err)
	}
	return chunk.Record{Seq: chunk.Seq(n), Session: chunk.RootSession("acme", "s1"), Epoch: 1, Ordinal: chunk.Ordinal(n), Type: c.Type(), Data: data}
}

func Example() {
	records := []chunk.Record{
		record(1, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "Where is it?"}}}),
		record(2, chunk.TextDelta{Delta: "In "}),
		record(3, chunk.TextDelta{Delta: "Bern."}),
		record(4, chunk.StreamEnd{StreamID: "s1"}),
	}
	w := agui.New("msg-1", agui.Options{})
	for _, rec := range records {
		fmt.Print(string(w.Append(nil, rec)))
	}
	fmt.Println(w.Done())
	// Output:
	// data: {"type":"RUN_STARTED","threadId":"s1","runId":"r1","protocolVersion":"1.0","input":{"threadId":"s1","runId":"r1","messages":[{"id":"msg-0","role":"user","content":"Where is it?"}],"tools":[],"context":[]}}
	//
	// data: {"type":"TEXT_MESSAGE_START","messageId":"msg-1-2-0","role":"assistant"}
	//
	// id: 2
	// data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-1-2-0","delta":"In "}
	//
	// id: 3
	// data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-1-2-0","delta":"Bern."}
	//
	// data: {"type":"TEXT_MESSAGE_END","messageId":"msg-1-2-0"}
	//
	// id: 4
	// data: {"type":"RUN_FINISHED","threadId":"s1","runId":"r1","outcome":{"type":"success"}}
	//
	// true
}

// A client that lost its connection after record 2 calls runAgent again.
func ExampleWriter_Resume() {
	w := agui.New("msg-1", agui.Options{})
	for _, rec := range []chunk.Record{ // what the client has
		record(1, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"}),
		record(2, chunk.TextDelta{Delta: "In "}),
	} {
		w.Append(nil, rec)
	}
	fmt.Print(string(w.Resume(nil)))
	fmt.Print(string(w.Append(nil, record(3, chunk.TextDelta{Delta: "Bern."}))))
	// Output:
	// data: {"type":"RUN_STARTED","threadId":"s1","runId":"r1","protocolVersion":"1.0"}
	//
	// data: {"type":"TEXT_MESSAGE_START","messageId":"msg-1-2-0","role":"assistant"}
	//
	// id: 3
	// data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-1-2-0","delta":"Bern."}
}

func ExampleTranslator() {
	tr := agui.NewTranslator(codec.Run{Session: "s1"})
	write := func(chunks []chunk.Chunk) {
		for _, c := range chunks {
			text, err := c.AppendJSON(nil)
			fmt.Println(string(text), err)
		}
	}
	for _, event := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"Hello"}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
	} {
		chunks, err := tr.Translate([]byte(event))
		if err != nil {
			fmt.Println(err)
		}
		write(chunks)
	}
	write(tr.End())
	// Output:
	// {"type":"step_start","agentId":"s1","agentType":"agent","timestamp":0,"step":1} <nil>
	// {"type":"text_delta","agentId":"s1","agentType":"agent","timestamp":0,"step":1,"delta":"Hello"} <nil>
	// {"type":"step_end","agentId":"s1","agentType":"agent","timestamp":0,"step":1} <nil>
	// {"type":"stream_end","agentId":"s1","agentType":"agent","timestamp":0,"step":1,"streamId":"s1"} <nil>
}
