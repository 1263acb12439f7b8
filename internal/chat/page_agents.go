package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/projector/fold"
)

// The bounds of the sub-agents whose output a page shows. The latest ones are shown. The size of their output is bounded by the limit of the read, see
// projector.WithReadLimit.
const (
	maxPageDepth  = 8
	maxPageAgents = 256
)

// pageAgents loads the messages of the sub-agents of a page.
type pageAgents struct {
	snapshots conversation.Snapshots
	root      chunk.Session
	log       *slog.Logger

	messages map[string][]fold.Message // by session
	loaded   map[string]bool           // sessions, also those without a snapshot
}

// inlines reports whether pages show the output of sub-agents.
func (s *Service) inlines(of chat) bool {
	return s.cfg.Dialect.SubAgents == aisdk.Inline && !of.view.Hidden().SubAgents
}

// load loads the sub-agents that the messages of a list called, and those that they called, the latest first.
func (a *pageAgents) load(ctx context.Context, list []fold.Message, depth int) error {
	if depth == 0 {
		return nil
	}
	for _, m := range slices.Backward(list) {
		if m.Hidden || m.Replaced {
			continue
		}
		for _, c := range slices.Backward(m.Children) {
			if a.loaded[c.Session] {
				continue
			}
			if len(a.loaded) > maxPageAgents { // it has the root too
				return nil
			}
			a.loaded[c.Session] = true
			child, err := a.read(ctx, c.Session)
			if err != nil {
				return fmt.Errorf("load sub-agent %s: %w", c.Session, err)
			}
			a.messages[c.Session] = child
			if err := a.load(ctx, child, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns the messages of a sub-agent. It returns none if the session was deleted or a part of it is lost: the page then shows the answer of the parent
// without the output of the sub-agent.
func (a *pageAgents) read(ctx context.Context, session string) ([]fold.Message, error) {
	snap, err := a.snapshots.Snapshot(ctx, a.root.Child(session))
	switch {
	case errors.Is(err, chunk.ErrUnknownSession):
		return nil, nil
	case errors.Is(err, chunk.ErrTruncated), errors.Is(err, fold.ErrInconsistent):
		a.log.WarnContext(ctx, "sub-agent omitted from page", "session", a.root.Child(session).String(), "error", err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	return snap.AllMessages(), nil
}

// pageVersion returns the version of the page of a session. The state needs no messages.
//
// With the output of sub-agents it covers those of the last two turns that have not ended according to their parents: they may write after their parent has
// failed or was stopped. Any other sub-agent ended before a record of its parent, so its output changes with the position of the session. The exception is one
// that still runs two turns later, or below a sub-agent that has ended: requests that share a read may not get what it wrote during that read.
func (s *Service) pageVersion(ctx context.Context, of chat, viewName string, state *conversation.State) (version pageVersion, err error) {
	version = pageVersion{
		view: viewName, position: state.Position, maxSeq: state.MaxSeq, command: state.Revision, agentType: state.AgentType,
		inFlight: state.InFlight(), awaits: state.SubAgentAwaitsUser(), answers: state.Answers(),
	}
	if s.inlines(of) {
		version.subAgents, err = lastSeqOf(ctx, of.logic.Snapshots(), state.Session, state.RunningChildren, map[string]bool{state.Session.ID: true}, maxPageDepth)
	}
	return version, err
}

// lastSeqOf returns the sequence of the last record of running sub-agents, and of the running sub-agents that they called.
func lastSeqOf(ctx context.Context, snapshots conversation.Snapshots, root chunk.Session, children []fold.Child, seen map[string]bool, depth int) (chunk.Seq, error) {
	var last chunk.Seq
	for _, c := range slices.Backward(children) {
		if seen[c.Session] || depth == 0 || len(seen) > maxPageAgents {
			continue
		}
		seen[c.Session] = true
		head, err := snapshots.Head(ctx, root.Child(c.Session))
		if errors.Is(err, chunk.ErrUnknownSession) {
			continue // it will start soon, or was deleted
		}
		if err != nil {
			return 0, fmt.Errorf("load head of sub-agent %s: %w", c.Session, err)
		}
		below, err := lastSeqOf(ctx, snapshots, root, head.RunningChildren(), seen, depth-1)
		if err != nil {
			return 0, err
		}
		last = max(last, head.Position.Seq, below)
	}
	return last, nil
}
