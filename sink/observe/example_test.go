package observe_test

import (
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

func Example() {
	s := chunk.RootSession("acme", "s1")
	var records []chunk.Record
	for i, body := range []chunk.Body{
		chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "Which files are old?"}}},
		chunk.StepStart{},
		chunk.ToolStart{ToolCallID: "c1", ToolName: "list_files", Arguments: chunk.Value(`{"path":"/tmp"}`)},
		chunk.ToolEnd{ToolCallID: "c1", ToolName: "list_files", Result: chunk.Value(`["a","b"]`)},
		chunk.TextDelta{Delta: "Both "},
		chunk.TextDelta{Delta: "are."},
		chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "20", OutputTokens: "5", Cost: new("0.0042")}, Model: new("gpt-5")},
		chunk.StreamEnd{StreamID: "s1"},
	} {
		at := time.UnixMilli(int64(1_000 * i)).UTC()
		c := chunk.Chunk{AgentID: "s1", AgentType: "helper", Timestamp: at.UnixMilli(), Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			panic(err)
		}
		records = append(records, chunk.Record{
			Seq: chunk.Seq(i + 1), Session: s, Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), StoredAt: at, Data: data,
		})
	}

	f := observe.New(observe.Config{Position: row.Position{Generation: 1, History: "dk3p9x0q1a2b"}})
	var b row.Batch
	for _, rec := range records {
		f.Append(&b, rec)
	}
	for _, o := range b.Observations {
		fmt.Println(o.Seq, o.Kind, o.Name, o.Output, o.Status)
	}
	fmt.Println(len(b.Events), "events")
	// Output:
	// 1 run helper  running
	// 4 tool list_files ["a","b"] completed
	// 7 step gpt-5 {"text":"Both are.","calls":[{"id":"c1","name":"list_files"}]} completed
	// 8 run helper "Both are." completed
	// 6 events
}
