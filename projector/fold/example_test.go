package fold_test

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Folding a log returns what a page loads. While the answer is in flight the page ends with the question, and the stream after
// its cursor contains the answer.
func ExampleFolder() {
	session := chunk.RootSession("acme", "s1")
	log := []string{
		`{"type":"run_started","agentId":"s1","agentType":"cook","timestamp":1,"step":0,"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"Soup?"}]}`,
		`{"type":"text_delta","agentId":"s1","agentType":"cook","timestamp":2,"step":1,"delta":"Yes, "}`,
		`{"type":"text_delta","agentId":"s1","agentType":"cook","timestamp":3,"step":1,"delta":"please."}`,
	}
	folder := fold.New(session)
	for i, line := range log {
		c, err := chunk.Decode([]byte(line))
		if err != nil {
			fmt.Println(err)
			return
		}
		err = folder.Apply(chunk.Record{
			Seq: chunk.Seq(100 + i), Session: session, Epoch: 1, Ordinal: chunk.Ordinal(1 + i), Type: c.Type(), Data: []byte(line),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	s := folder.Snapshot()
	page, whole := aisdk.Snapshot(s, aisdk.SnapshotOptions{}), aisdk.Snapshot(s, aisdk.SnapshotOptions{Partial: true})
	fmt.Println(page.Status, page.StreamSequence, string(page.Messages[0].AppendJSON(nil)))
	fmt.Println(whole.StreamSequence, string(whole.Messages[1].AppendJSON(nil)))
	// Output:
	// active 100 {"id":"msg-0","role":"user","parts":[{"type":"text","text":"Soup?","state":"done"}]}
	// 102 {"id":"msg-1","role":"assistant","parts":[{"type":"text","text":"Yes, please.","state":"streaming"}]}
}
