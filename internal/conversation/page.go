package conversation

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// Page returns the snapshot that a page loads first. It does not contain the answer in flight: the page gets all of it from the stream, spec/aisdk.md section
// 9, rule 1. It contains requested messages, also if no worker has started the run.
//
// o has the options of the sub-agents; Page sets the others.
func (v *State) Page(snap fold.Snapshot, o aisdk.SnapshotOptions) aisdk.FrontendSnapshot {
	o.Timestamp = v.Now.UnixMilli()
	c := v.Waiting()
	switch {
	case c != nil && OpensTurn(c):
		o.Partial = true
		page := aisdk.Snapshot(snap, o) // the metadata of earlier messages is part of them
		page.Status, page.AgentType = fold.Active, v.AgentType
		page.Messages = append(replaced(page.Messages, c), inputMessages(v.Count, c.Input)...)
		return page
	case v.InFlight():
		snap.Status = fold.Active // it is active, or will be soon: its message comes from the stream
	case v.subAgentAwaitsUser():
		snap.Status = fold.Active // its message comes from the stream too, with the pending call
		page := aisdk.Snapshot(snap, o)
		page.Status = fold.Paused
		return page
	}
	return aisdk.Snapshot(snap, o)
}

// PageVersion identifies what LoadPage returns, but for its timestamp.
type PageVersion struct {
	position  chunk.Position
	maxSeq    chunk.Seq
	command   control.Revision
	agentType string
	inFlight  bool
	awaits    bool
	subAgents chunk.Seq // the last record of the sub-agents that the page shows and that may continue; 0 if it shows none
}

// pageVersion returns the version of the page without the output of sub-agents.
func (v *State) pageVersion() PageVersion {
	return PageVersion{
		position: v.Position, maxSeq: v.MaxSeq, command: v.Revision, agentType: v.AgentType, inFlight: v.InFlight(), awaits: v.subAgentAwaitsUser(),
	}
}

// replaced returns the messages before the first one that a command replaces.
func replaced(messages []aisdk.UIMessage, c *control.Command) []aisdk.UIMessage {
	place, ok := fold.MessageIndex(c.Replaces)
	if !ok {
		return messages
	}
	return slices.DeleteFunc(messages, func(m aisdk.UIMessage) bool {
		index, ok := fold.MessageIndex(m.ID)
		return ok && index >= place
	})
}

// inputMessages returns the messages of a command as the log will have them, starting with a number.
func inputMessages(from int, input []chunk.InputMessage) []aisdk.UIMessage {
	run, err := chunk.Chunk{AgentID: "s", AgentType: "a", Body: chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: input}}.AppendJSON(nil)
	if err != nil {
		return nil // the queue rejects such input
	}
	s := chunk.RootSession("t", "s")
	f := fold.New(s)
	if err := f.Apply(chunk.Record{Seq: 1, Session: s, Epoch: 1, Ordinal: 1, Type: chunk.TypeRunStarted, Data: run}); err != nil {
		return nil
	}
	messages := aisdk.UIMessages(f.Snapshot().Messages(0))
	for i, m := range messages {
		if index, ok := fold.MessageIndex(m.ID); ok {
			messages[i].ID = fold.MessageID(from + index)
		}
	}
	return messages
}
