package conversation

import (
	"encoding/json"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Every request body is rejected, or is a request that can be decided, and the resulting command and answers are JSON that the queue and the log accept.
func FuzzPost(f *testing.F) {
	f.Add([]byte(chatBody("", user("u1", "hi"))))
	f.Add([]byte(chatBody(`,"messageId":"msg-1"`, user("u1", "hi"), assistantMessage("msg-1 step r::a1=yes c1=1 c2=broke"))))
	f.Add([]byte(`{"messages":[{"id":"\ud800","role":"user","parts":[{"type":"text","text":"\ud800"}],"metadata":{"\udc00":"\ud800"}}],"trigger":"regenerate-message"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if rawjson.Deeper(text, MaxDepth) {
			return
		}
		in, err := aisdk.ParseChatInput(text)
		if err != nil {
			return
		}
		req := requestOf(in)
		for _, state := range []State{begin(t).state(), begin(t).turn("u1").asks("c1", "a1").state(), begin(t).turn("u1").state()} {
			plan := Decide(req, state)
			if plan.Command != nil {
				c := chunk.Chunk{AgentID: "s", AgentType: "a", Body: chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: plan.Command.Input}}
				data, err := c.AppendJSON(nil)
				if err == nil && !json.Valid(data) {
					t.Fatalf("%s is no JSON", data)
				}
			}
			for _, a := range plan.Store {
				if len(a.Result) > 0 && !json.Valid(a.Result) {
					t.Fatalf("%s is no JSON", a.Result)
				}
			}
		}
	})
}
