package fold

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// TestTranscriptHasAllMessages checks that the history for a model has the content of all messages. A suffix of it equals a
// transcript from that message on, also for a snapshot that was saved and loaded.
func TestTranscriptHasAllMessages(t *testing.T) {
	laws(t, 40, func(t *rapid.T, a *generator) {
		s := whole(t, a, len(a.all), false)
		all := s.Transcript(0)
		if loaded := reload(t, s).Transcript(0); text(loaded) != text(all) {
			t.Fatalf("loaded\n%s\nwant\n%s", text(loaded), text(all))
		}
		from := rapid.IntRange(0, s.MessageCount()+1).Draw(t, "from")
		n := 0
		for n < len(all) && all[n].Index < from {
			n++
		}
		if got := s.Transcript(from); text(got) != text(all[n:]) {
			t.Fatalf("from %d\n%s\nwant\n%s", from, text(got), text(all[n:]))
		}
		list := s.all()
		for _, m := range all {
			if want := appendMessage(nil, &list[m.Index]); len(m.Parts) != len(list[m.Index].parts) || len(m.Parts) > 0 && !strings.Contains(string(want), partsOf(m)) {
				t.Fatalf("message %d has %s, want %s", m.Index, partsOf(m), want)
			}
		}
	})
}

func partsOf(m TranscriptMessage) string {
	var parts []string
	for _, p := range m.Parts {
		parts = append(parts, string(p))
	}
	return `"parts":[` + strings.Join(parts, ",") + "]"
}

func text(list []TranscriptMessage) string {
	out := ""
	for _, m := range list {
		out += fmt.Sprintf("%d %d %s %t %q %s %s %v\n", m.Index, m.DisplayIndex, m.Role, m.Hidden, m.ClientID, m.Metadata, m.Parts, m.Children)
	}
	return out
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
