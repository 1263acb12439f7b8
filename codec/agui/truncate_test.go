package agui

import (
	"bytes"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
)

// The removal of a step reverts its changes to structured data, and keeps the data from before it: a stream that was incomplete then has no part in the
// snapshot when it becomes invalid.
func TestRemovedStepKeepsEarlierStructuredData(t *testing.T) {
	var log turntest.Log
	write := func(step int64, body chunk.Body) {
		n := len(log) + 1
		c := chunk.Chunk{AgentID: turntest.Session.ID, AgentType: "planner", Timestamp: 1, Step: step, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, chunk.Record{Seq: chunk.Seq(n), Ordinal: chunk.Ordinal(n), Session: turntest.Session, Type: c.Type(), Data: data})
	}
	piece := func(id string) chunk.Custom {
		return chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(`{"type":"structured-data","streamId":"` + id + `","dataType":"t","kind":"set","path":"a","value":1}`)}
	}
	invalid := func(id string) chunk.Custom {
		return chunk.Custom{EventName: structured.InvalidatedEvent, Data: chunk.Value(`{"streamId":"` + id + `"}`)}
	}
	write(0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	write(1, chunk.StepStart{})
	write(1, piece("kept"))
	write(1, chunk.StepEnd{})
	write(2, chunk.StepStart{}) // 5, removed
	write(2, piece("removed"))
	write(2, invalid("kept")) // 7
	write(2, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "takeover"})
	write(2, chunk.Truncated{TruncatedAtStep: 1, Removed: []chunk.OrdinalRange{{First: 5, Last: 7}}})
	write(2, chunk.StepStart{})
	write(2, invalid("kept"))
	write(2, invalid("removed"))

	w := New("msg-1", Options{})
	var last [2][]byte
	for _, rec := range log {
		last[0], last[1] = last[1], w.Append(nil, rec)
	}
	if !bytes.Contains(last[0], []byte(`"CUSTOM"`)) {
		t.Errorf("a stream from before the removed step:\n%s\nwant a custom event", last[0])
	}
	if !bytes.Contains(last[1], []byte(`"ACTIVITY_SNAPSHOT"`)) {
		t.Errorf("a stream of the removed step:\n%s\nwant an activity", last[1])
	}
}
