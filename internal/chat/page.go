package chat

import (
	"context"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/projector/fold"
)

// loadPage loads the snapshot that a page loads first, with the output of sub-agents if the streams that continue it have that.
func (s *Service) loadPage(ctx context.Context, of chat, agentType, branch string) (aisdk.FrontendSnapshot, error) {
	state, snap, err := of.logic.LoadPage(ctx, of.session, agentType)
	if err != nil {
		return aisdk.FrontendSnapshot{}, err
	}
	var o aisdk.SnapshotOptions
	if s.inlines(of) {
		o.ClientTool = s.cfg.Dialect.ClientTool
		o.SubAgents = func(list []fold.Message) map[string][]fold.Message {
			agents := &pageAgents{
				snapshots: of.logic.Snapshots(), root: of.session, log: s.shared.Log,
				messages: make(map[string][]fold.Message), loaded: map[string]bool{of.session.ID: true},
			}
			err = agents.load(ctx, list, maxPageDepth)
			return agents.messages
		}
	}
	if branch == "" {
		page := pageOf(&state, snap, o)
		return page, err
	}
	at, unknown := snap.OnBranch(branch)
	if unknown != nil {
		return aisdk.FrontendSnapshot{}, unknown
	}
	o.Timestamp = state.Now.UnixMilli()
	page := aisdk.Snapshot(at, o)
	return page, err
}

// pageOf returns the page of a session. It does not contain the answer in flight: the page gets all of it from the stream,
// docs/protocol/aisdk.md#aisdk-9.1. It contains requested messages, also if no worker has started the run.
//
// o has the options of the sub-agents; pageOf sets the others.
func pageOf(state *conversation.State, snap fold.Snapshot, o aisdk.SnapshotOptions) aisdk.FrontendSnapshot {
	o.Timestamp, o.Answered = state.Now.UnixMilli(), state.SetAnswer
	switch {
	case state.Opening():
		c := state.Waiting()
		o.Partial = true
		page := aisdk.Snapshot(snap.FollowedBy(c.Input), o) // the metadata of earlier messages is part of them
		page.Status, page.AgentType = fold.Active, state.AgentType
		page.Messages = append(page.Messages, inputMessages(state.Count, c.Input)...)
		return page
	case state.InFlight():
		snap.Status = fold.Active // it is active, or will be soon: its message comes from the stream
	case state.SubAgentAwaitsUser():
		snap.Status = fold.Active // its message comes from the stream too, with the pending call
		page := aisdk.Snapshot(snap, o)
		page.Status = fold.Paused
		return page
	}
	return aisdk.Snapshot(snap, o)
}

// pageVersion identifies the text of a page, but for its timestamp.
type pageVersion struct {
	branch    string
	view      string // clients with different views must not share it
	position  chunk.Position
	maxSeq    chunk.Seq
	command   control.Revision
	agentType string
	inFlight  bool
	awaits    bool
	answers   int       // after the position
	subAgents chunk.Seq // the last record of the sub-agents that the page shows and that may continue; 0 if it shows none
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
