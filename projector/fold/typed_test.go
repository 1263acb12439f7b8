package fold

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

// TestMessagesAreAll checks that the history for a model has the content of all messages. A suffix of it equals the
// history from that message on, also for a snapshot that was saved and loaded.
func TestMessagesAreAll(t *testing.T) {
	laws(t, 40, func(t *rapid.T, a *generator) {
		s := whole(t, a, len(a.all), false)
		all := s.Messages(0)
		if loaded := reload(t, s).Messages(0); text(loaded) != text(all) {
			t.Fatalf("loaded\n%s\nwant\n%s", text(loaded), text(all))
		}
		from := rapid.IntRange(0, s.MessageCount()+1).Draw(t, "from")
		n := 0
		for n < len(all) && all[n].Index < from {
			n++
		}
		if got := s.Messages(from); text(got) != text(all[n:]) {
			t.Fatalf("from %d\n%s\nwant\n%s", from, text(got), text(all[n:]))
		}
		list := s.all()
		for _, m := range all {
			if want := storedMessage(&list[m.Index]); len(m.Parts) != len(list[m.Index].parts) || len(m.Parts) > 0 && !strings.Contains(string(want), partsOf(m)) {
				t.Fatalf("message %d has %s, want %s", m.Index, partsOf(m), want)
			}
		}
	})
}

func partsOf(m Message) string {
	var parts []string
	for _, p := range m.Parts {
		parts = append(parts, string(p.AppendJSON(nil)))
	}
	return `"parts":[` + strings.Join(parts, ",") + "]"
}

func text(list []Message) string {
	out := ""
	for _, m := range list {
		out += fmt.Sprintf("%d %d %s %t %q %s %s %v\n", m.Index, m.Shown, m.Role, m.Hidden, m.ClientID, m.Metadata, partsOf(m), m.Children)
	}
	return out
}

// TestTypedParts checks the fields of each kind of part, before and after the message is stored.
func TestTypedParts(t *testing.T) {
	for _, reloads := range []bool{false, true} {
		sc := &script{t: t, s: newSnapshot(session), reloads: reloads}
		name, title, client, no, why := "a.png", "One", "c1", false, "too dear \xed\xa0\xbd"
		metadata := chunk.Value(`{"hidden":true}`)
		sc.applyChunk(0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{
			Content: "look", Files: []chunk.InputFile{{URL: "data:,x", MediaType: "image/png", Filename: &name}}, ClientMessageID: &client, Metadata: &metadata,
		}}})
		for _, b := range []chunk.Body{
			chunk.StepStart{}, chunk.Thinking{Content: "hm", IsComplete: true}, chunk.TextDelta{Delta: "half \xed\xa0\xbd"},
			chunk.SourceURL{SourceID: "s1", URL: "https://example.com", Title: &title},
			chunk.SourceDocument{SourceID: "s2", MediaType: "text/plain", Title: "Two"},
			chunk.Custom{EventName: "x", Data: chunk.Value(`{"id":"inner"}`)},
			chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(`{"type":"structured-data","streamId":"d","dataType":"t","kind":"final","data":[1]}`)},
			chunk.ToolStart{ToolCallID: "k1", ToolName: "t", Arguments: chunk.Value(`{"q":1}`)},
			chunk.ToolEnd{ToolCallID: "k1", ToolName: "t", Result: chunk.Value(`2`)},
			chunk.ToolApprovalRequest{ToolCallID: "k2", ToolName: "t", ApprovalID: "a", Input: chunk.Value(`{}`)},
			chunk.ToolApprovalResponse{ToolCallID: "k2", ToolName: "t", ApprovalID: "a", Approved: no, Reason: &why},
			chunk.ToolOutputError{ToolCallID: "k3", ToolName: "t", Error: "boom"},
			chunk.TextDelta{Delta: " more"},
		} {
			sc.applyChunk(1, b)
		}
		list, id := sc.s.Messages(0), "d"
		if len(list) != 2 || !list[0].Hidden || list[0].ClientID != client || list[0].ID() != "msg-0" || list[0].Role != User || list[0].Text() != "look" {
			t.Fatalf("messages %+v", list)
		}
		if text := list[1].Text(); text != "half \uFFFD more" {
			t.Errorf("text %q", text)
		}
		data := chunk.Value(`{"dataType":"t","status":"done","data":[1]}`)
		want := []Part{
			{Kind: PartText, Text: "look"},
			{Kind: PartFile, File: &File{URL: "data:,x", MediaType: "image/png", Filename: name}},
			{Kind: PartStepStart},
			{Kind: PartReasoning, Text: "hm"},
			{Kind: PartText, Text: "half \xed\xa0\xbd"},
			{Kind: PartSource, Source: &Source{ID: "s1", URL: "https://example.com", Title: title}},
			{Kind: PartSource, Source: &Source{ID: "s2", MediaType: "text/plain", Title: "Two"}},
			{Kind: PartData, Data: &Data{Name: "x", Value: chunk.Value(`{"id":"inner"}`)}},
			{Kind: PartData, Data: &Data{Name: "structured", ID: &id, Value: data}},
			{Kind: PartCall, Call: &ToolCall{ID: "k1", Name: "t", State: CallDone, Input: chunk.Value(`{"q":1}`), Output: chunk.Value(`2`)}},
			{Kind: PartCall, Call: &ToolCall{
				ID: "k2", Name: "t", State: CallDenied, Input: chunk.Value(`{}`), Error: "call denied: " + why, Approval: &Approval{ID: "a", Approved: &no, Reason: &why},
			}},
			{Kind: PartCall, Call: &ToolCall{ID: "k3", Name: "t", State: CallFailed, Input: chunk.Value(`{}`), Error: "boom", ProviderExecuted: true}},
			{Kind: PartText, Text: " more", Streaming: true},
		}
		got := slices.Concat(list[0].Parts, list[1].Parts)
		if len(got) != len(want) {
			t.Fatalf("%d parts, want %d", len(got), len(want))
		}
		for i := range want {
			got[i].raw = nil
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("part %d is %s, want %s", i, got[i].AppendJSON(nil), want[i].AppendJSON(nil))
			}
		}
		if calls := list[1].Calls(); len(calls) != 3 || calls[1].ID != "k2" {
			t.Errorf("calls %+v", calls)
		}
	}
}

// TestOpenCallsCanBeCompleted completes all open calls: none remain.
func TestOpenCallsCanBeCompleted(t *testing.T) {
	laws(t, 40, func(t *rapid.T, a *generator) {
		s := whole(t, a, len(a.all), false)
		if s.HasUnexplainedGap() {
			return // the next record must be the one that explains the gap
		}
		for n, c := range s.OpenCalls() {
			body := chunk.ToolEnd{ToolCallID: c.ID, ToolName: c.ToolName, Result: chunk.Value(`1`)}
			data, err := chunk.Chunk{AgentID: session.ID, AgentType: "agent", Timestamp: 1, Step: s.Run.Step, Body: body}.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			rec := chunk.Record{
				Seq: s.Position.Seq + 1, Session: session, Epoch: max(1, s.Epoch), Ordinal: s.Position.Ordinal + 1,
				Type: chunk.TypeToolEnd, StoredAt: time.UnixMilli(1), Data: data,
			}
			if s, err = applyRecord(s, rec); err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
		}
		if open := s.OpenCalls(); len(open) > 0 {
			t.Fatalf("open calls: %+v", open)
		}
	})
}
