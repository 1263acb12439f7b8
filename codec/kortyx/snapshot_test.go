package kortyx

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/testkit/viewtest"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

// foldOf returns the snapshot of the records of the session.
func foldOf(tb failer, log []chunk.Record) fold.Snapshot {
	tb.Helper()
	f := fold.New(session)
	for _, rec := range log {
		if rec.Session != session {
			continue
		}
		if err := f.Apply(rec); err != nil {
			tb.Fatalf("%v", err)
		}
	}
	return f.Snapshot()
}

func TestSnapshot(t *testing.T) {
	v := func(s string) chunk.Value { return chunk.Value(s) }
	custom := func(name, data string) chunk.Custom { return chunk.Custom{EventName: name, Data: v(data)} }
	title := "T"
	const head = `{"id":"msg-0","role":"user","content":"hello","contentPieces":[{"id":"msg-0:0","type":"text","content":"hello"}]}`
	for _, tt := range []struct {
		name     string
		inFlight bool
		bodies   []chunk.Body
		want     string
	}{
		{"an answer in flight", false, []chunk.Body{chunk.TextDelta{Delta: "a"}}, `{"sessionId":"s1","messages":[` + head + `],"structured":[],"pendingRequests":[],"checkpointId":null,"status":"active","streamSequence":10}`},
		{"a part of an answer", true, []chunk.Body{
			chunk.TextDelta{Delta: "one"}, chunk.Thinking{Content: "hm"}, chunk.TextDelta{Delta: "two"}, custom("progress", `{"n":1}`), custom("kortyx.status", `{"message":"m"}`),
			custom("structured-data", `{"type":"structured-data","streamId":"s","dataType":"report","kind":"set","path":"a","value":1,"schemaId":"x"}`),
			chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(v(`1`))}}}, chunk.Output{Output: v(`{"o":1}`)}, chunk.CheckpointCreated{RunID: "r1", CheckpointID: "cp"},
		}, `{"sessionId":"s1","messages":[` + head + `,{"id":"msg-1","role":"assistant","content":"one two","contentPieces":[{"id":"msg-1:0","type":"text","content":"one"},{"id":"msg-1:1","type":"text","content":"two"},` +
			`{"id":"msg-1:2","type":"structured","data":{"streamId":"progress:msg-1:2","dataType":"progress","status":"done","data":{"n":1}}}]}],` +
			`"structured":[{"streamId":"state:s1","dataType":"state","status":"streaming","data":{"state":{"a":1}}},{"streamId":"output:r1","dataType":"output","status":"done","data":{"o":1}},` +
			`{"streamId":"s","dataType":"report","status":"streaming","schemaId":"x","data":{"a":1}}],"pendingRequests":[],"checkpointId":"cp","status":"active","streamSequence":19}`},
		{"an answer", false, []chunk.Body{
			chunk.SourceURL{SourceID: "1", URL: "https://u", Title: &title}, chunk.File{URL: "https://f", MediaType: "a/b"},
			custom("structured-data", `{"type":"structured-data","streamId":"s","dataType":"report","kind":"final","data":[1]}`),
			custom("structured-data", `{"type":"structured-data","streamId":"s2","dataType":"report","kind":"final","data":[2]}`),
			custom("structured-data-invalidated", `{"streamId":"s2","checkpointId":"c"}`), custom("structured-data-invalidated", `{"streamId":"s2","checkpointId":"c"}`), chunk.StreamEnd{StreamID: "s1"},
		}, `{"sessionId":"s1","messages":[` + head + `,{"id":"msg-1","role":"assistant","content":"","contentPieces":[{"id":"msg-1:0","type":"structured","data":{"streamId":"source:msg-1:0","dataType":"source","status":"done","data":{"sourceId":"1","url":"https://u","title":"T"}}},` +
			`{"id":"msg-1:1","type":"structured","data":{"streamId":"file:msg-1:1","dataType":"file","status":"done","data":{"url":"https://f","mediaType":"a/b"}}},` +
			`{"id":"msg-1:2","type":"structured","data":{"streamId":"s","dataType":"report","status":"done","data":[1]}}]}],"structured":[],"pendingRequests":[],"checkpointId":null,"status":"ended","streamSequence":17}`},
		{"an approval", false, []chunk.Body{
			chunk.ToolApprovalRequest{ToolCallID: "c", ToolName: "rm", ApprovalID: "a", Input: v(`{"p":1}`)}, chunk.StreamPaused{},
		}, `{"sessionId":"s1","messages":[` + head + `,{"id":"msg-1","role":"assistant","content":"","contentPieces":[{"id":"msg-1:0","type":"interrupt","resumeToken":"","requestId":"a","kind":"choice","question":"Approve rm?","multiple":false,` +
			`"options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}],"interruptId":"tool:c","meta":{"tool":"rm","toolCallId":"c","input":{"p":1}}}]}],"structured":[],` +
			`"pendingRequests":[{"token":"","requestId":"a","schema":{"kind":"choice","multiple":false,"question":"Approve rm?","id":"tool:c","meta":{"tool":"rm","toolCallId":"c","input":{"p":1}}},"options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}]}],` +
			`"checkpointId":null,"status":"paused","streamSequence":12}`},
		{"a question", false, []chunk.Body{
			custom("kortyx.interrupt", `{"type":"interrupt","requestId":"q","id":"i","input":{"kind":"text","multiple":false,"question":"Who?","options":[],"meta":{"a":1}}}`), chunk.RunPaused{RunID: "r1", Reason: "interrupt"}, chunk.StreamPaused{},
		}, `{"sessionId":"s1","messages":[` + head + `,{"id":"msg-1","role":"assistant","content":"","contentPieces":[{"id":"msg-1:0","type":"interrupt","resumeToken":"","requestId":"q","kind":"text","question":"Who?","multiple":false,"options":[],"interruptId":"i","meta":{"a":1}}]}],"structured":[],` +
			`"pendingRequests":[{"token":"","requestId":"q","schema":{"kind":"text","multiple":false,"question":"Who?","meta":{"a":1}},"options":[]}],"checkpointId":null,"status":"paused","streamSequence":13}`},
		{"a failure", false, []chunk.Body{chunk.StreamFailed{Error: "boom"}}, `{"sessionId":"s1","messages":[` + head + `],"structured":[],"pendingRequests":[],"checkpointId":null,"status":"failed","streamSequence":11,"error":"boom"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(AppendContent(nil, foldOf(t, turnOf(t, tt.bodies...)).Content(tt.inFlight))); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// A page has the last messages, and where the older ones are.
func TestPage(t *testing.T) {
	s := foldOf(t, turnOf(t, chunk.TextDelta{Delta: "a"}, chunk.StreamEnd{StreamID: "s1"}))
	for limit, want := range map[int]string{
		1: `{"sessionId":"s1","messages":[{"id":"msg-1","role":"assistant","content":"a","contentPieces":[{"id":"msg-1:0","type":"text","content":"a"}]}],"structured":[],"pendingRequests":[],"checkpointId":null,"status":"ended","streamSequence":12,"before":"msg-1"}`,
		9: `{"sessionId":"s1","messages":[{"id":"msg-0","role":"user","content":"hello","contentPieces":[{"id":"msg-0:0","type":"text","content":"hello"}]},{"id":"msg-1","role":"assistant","content":"a","contentPieces":[{"id":"msg-1:0","type":"text","content":"a"}]}],"structured":[],"pendingRequests":[],"checkpointId":null,"status":"ended","streamSequence":12,"before":null}`,
	} {
		page, err := s.MessagePage(fold.PageQuery{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(AppendContent(nil, page.Content())); got != want {
			t.Errorf("limit %d: got\n%s\nwant\n%s", limit, got, want)
		}
	}
}

// A page that is loaded shows the text that a client that followed the turn shows, also under a view.
func TestSnapshotShowsWhatTheClientShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, true)
		g.turn()
		var chat *view.Chat // shows everything
		if rapid.Bool().Draw(t, "under a view") {
			chat = viewtest.Views().Draw(t, "view").Chat()
		}
		var c client
		body := ""
		w := NewWriter(nil)
		for _, rec := range g.log {
			var frames []byte
			if shown, ok := chat.Record(rec); ok {
				frames = w.Append(nil, shown)
			} else {
				frames = w.Hide(nil, rec)
			}
			body += string(frames)
			if bytes.HasSuffix(frames, []byte("[DONE]\n\n")) {
				c.follow(t, body)
				body = ""
			}
		}
		c.follow(t, body)
		want := ""
		var join textState
		for _, m := range c.chunks {
			if m.Or("type", "") == "text-delta" {
				want = chunk.Concat(want, join.separated(blockKey(m), m.Or("delta", "")))
			}
		}
		content := chat.Snapshot(foldOf(t, g.log).Content(true))
		page := AppendContent(nil, content)
		if !json.Valid(page) {
			t.Fatalf("%s", page)
		}
		got, pending := "", 0
		for m := range elements(dialect.Read(page).Peek("messages")) {
			if role, _ := dialect.Read(m).Text("role"); role == "assistant" {
				got += dialect.Read(m).Or("content", "")
			}
		}
		for r := range elements(dialect.Read(page).Peek("pendingRequests")) {
			if token, ok := dialect.Read(r).Text("token"); token != "" || !ok {
				t.Fatalf("token %q of %q", token, dialect.Read(r).Or("requestId", ""))
			}
			pending++
		}
		if got != want {
			t.Fatalf("the page shows %q, the client %q", got, want)
		}
		asked := len(g.asked)
		if chat.Hidden().Calls {
			asked = 0
		}
		if pending != asked {
			t.Fatalf("%d requests, want %d", pending, asked)
		}
		state := content.State
		if s := c.streams["state:s1"]; s != nil && chat != nil && state != nil && !sameJSON(t, member(s.AppendData(nil), stateRoot), state) {
			t.Fatalf("the client has the state %s, the page %s", s.AppendData(nil), state)
		}
	})
}
