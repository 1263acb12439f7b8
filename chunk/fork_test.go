package chunk_test

import (
	"reflect"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// The records of forks are control records, and are read as they were written.
func TestRecordsOfForks(t *testing.T) {
	for _, row := range []struct {
		body chunk.Body
		json string
	}{
		{chunk.SessionSeed{Form: 1, Messages: "{}\n{}"}, `"form":1,"messages":"{}\n{}"`},
		{chunk.SessionForked{Origin: chunk.ForkOrigin{Session: "s1"}}, `"origin":{"session":"s1","sequence":0,"step":0,"depth":0},"messages":0`},
		{chunk.SessionForked{
			Origin: chunk.ForkOrigin{Session: "s1", Sequence: 4117, Anchor: new("mgj6k2aa"), Run: new("r1"), Step: 3, Depth: 1}, Messages: 34,
			State: new(`{"n":1}`), CheckpointID: new("cp1"), Turn: &chunk.ForkedTurn{First: 2, Answer: new(int64(3))},
			Replaced: []chunk.OrdinalRange{{First: 0, Last: 1}}, By: &chunk.Principal{Subject: "ann"},
		}, `"origin":{"session":"s1","sequence":4117,"anchor":"mgj6k2aa","run":"r1","step":3,"depth":1},"messages":34,"state":"{\"n\":1}","checkpointId":"cp1",` +
			`"turn":{"first":2,"answer":3},"replaced":[{"first":0,"last":1}],"by":{"subject":"ann"}`},
	} {
		c := chunk.Chunk{AgentID: "f1", AgentType: "support", Timestamp: 7, Body: row.body}
		text, err := c.AppendJSON(nil)
		want := `{"type":"` + string(c.Type()) + `","agentId":"f1","agentType":"support","timestamp":7,"step":0,` + row.json + "}"
		if err != nil || string(text) != want {
			t.Errorf("%s, %v\nwant %s", text, err, want)
		}
		if back, err := chunk.Decode(text); err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%+v, %v\nwant %+v", back, err, c)
		}
		if typ := c.Type(); !typ.Control() || !typ.OfFork() || typ.Terminal() {
			t.Errorf("%s is not a control record of forks", typ)
		}
	}
}
