package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/internal/testkit/viewtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// The messages that a view shows of a session are those of the page with which a chat under this view starts, except for the ids that clients gave.
func TestSnapshotIsThePageOfAChat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Plain: rapid.Bool().Draw(t, "plain")}).Draw(t, "log")
		folder := fold.New(turntest.Session)
		for _, rec := range log {
			if rec.Session != turntest.Session {
				continue
			}
			err := folder.Apply(rec)
			if errors.Is(err, fold.ErrInvalidRecord) {
				err = folder.Skip(rec, err.Error())
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
		}
		chat := viewtest.Views().Draw(t, "view").Chat()
		page, err := chat.Page(aisdk.Snapshot(folder.Snapshot(), aisdk.SnapshotOptions{Partial: true}).AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		c := chat.Snapshot(folder.Snapshot().Content(true))
		shown := aisdk.FrontendSnapshot{Messages: aisdk.UIMessages(c.Messages), State: c.State, CheckpointID: c.CheckpointID, Failure: c.Failure}.AppendJSON(nil)
		for _, name := range []string{"messages", "state", "checkpointId", "error"} {
			if got, want := rawjson.Get(shown, name), rawjson.Get(page, name); !bytes.Equal(got, want) {
				t.Fatalf("%s:\n got %s\nwant %s\nof\n%s", name, got, want, log)
			}
		}
		if got, want := count(t, rawjson.Get(page, "pendingCalls")), len(c.Pending); got != want {
			t.Fatalf("%d pending calls, want %d", got, want)
		}
	})
}

func count(t *rapid.T, array []byte) int {
	t.Helper()
	var list []json.RawMessage
	if err := json.Unmarshal(array, &list); err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// An agent whose output is hidden has the course of its run, and nothing else.
func TestSnapshotOfHiddenAgent(t *testing.T) {
	text := func(c fold.Content) int {
		n := 0
		for _, m := range c.Messages {
			n += len(m.Parts)
		}
		return n
	}
	f := fold.New(child)
	for _, rec := range session(t, []chunk.Type{chunk.TypeStreamEnd}, nil) {
		rec.Session = child
		if err := f.Apply(rec); err != nil {
			t.Fatal(err)
		}
	}
	all := f.Snapshot().Content(true)
	v := everything()
	shown := compile(t, v).Chat().Snapshot(all)
	v.SubAgents = false
	hidden := compile(t, v).Chat().Snapshot(all)
	if text(shown) == 0 || shown.State == nil || shown.Failure.Message == "" {
		t.Errorf("a view with sub-agents shows %+v", shown)
	}
	if hidden.Messages != nil || hidden.Pending != nil || hidden.State != nil || hidden.Structured != nil || hidden.Run.Output != nil || hidden.Failure.Message != "" ||
		hidden.Position != all.Position || hidden.Status != all.Status {
		t.Errorf("a view without sub-agents shows %+v", hidden)
	}
}
