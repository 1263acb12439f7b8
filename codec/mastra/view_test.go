package mastra

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/testkit/viewtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// TestViewHasTheSnapshot checks that a client of the stream under a view has the texts, the reasoning and the calls of the messages under this view.
func TestViewHasTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t)
		g.words = g.words.Filter(utf8.ValidString) // the JSON of this test has no halves of surrogate pairs
		g.turn()
		chat := viewtest.Views().Draw(t, "view").Chat()
		w := NewWriter("msg-1")
		var got shown
		own := fold.New(root)
		for _, rec := range g.survivors() {
			var frames []byte
			if kept, ok := chat.Record(rec); ok {
				frames = w.Append(nil, kept)
			} else {
				frames = w.Hide(nil, rec)
			}
			chunks, _ := chunksIn(t, frames)
			for _, raw := range chunks {
				got.addChunk(t, raw)
			}
			if rec.Session == root {
				own.SkipGap(rec, fold.GapRemoved)
				if err := own.Apply(rec); err != nil {
					t.Fatal(err)
				}
			}
		}
		var want shown
		for _, m := range aisdk.UIMessages(chat.Snapshot(own.Snapshot().Content(true)).Messages) {
			if m.Role == fold.Assistant {
				for _, raw := range m.Parts {
					want.addPart(t, raw)
				}
			}
		}
		if got.String() != want.String() {
			t.Fatalf("the client has\n%s\nthe snapshot\n%s\nof %s", got.String(), want.String(), g)
		}
	})
}

// shown is what a client shows of an answer.
type shown struct {
	text, reasoning string
	calls           []string
}

func (s *shown) String() string {
	slices.Sort(s.calls)
	return "text " + s.text + "\nreasoning " + s.reasoning + "\ncalls " + strings.Join(slices.Compact(s.calls), " ")
}

func (s *shown) addChunk(tb fataler, raw []byte) {
	tb.Helper()
	var c struct {
		Type    string `json:"type"`
		Payload struct {
			Text       string `json:"text"`
			ToolCallID string `json:"toolCallId"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		tb.Fatalf("%v: %s", err, raw)
	}
	switch {
	case c.Type == "text-delta":
		s.text = chunk.Concat(s.text, c.Payload.Text)
	case c.Type == "reasoning-delta":
		s.reasoning = chunk.Concat(s.reasoning, c.Payload.Text)
	case strings.HasPrefix(c.Type, "tool-") && c.Type != "tool-output" && c.Payload.ToolCallID != "":
		s.calls = append(s.calls, c.Payload.ToolCallID)
	}
}

func (s *shown) addPart(tb fataler, raw []byte) {
	tb.Helper()
	var p struct {
		Type       string `json:"type"`
		Text       string `json:"text"`
		ToolCallID string `json:"toolCallId"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		tb.Fatalf("%v: %s", err, raw)
	}
	switch p.Type {
	case "text":
		s.text = chunk.Concat(s.text, p.Text)
	case "reasoning":
		s.reasoning = chunk.Concat(s.reasoning, p.Text)
	case "dynamic-tool":
		s.calls = append(s.calls, p.ToolCallID)
	}
}
