package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// look finds out how a chat stands; with said also what was said in it, for who has
// something to say.
//
// The command is read before the snapshot. The other way round:
//  1. the snapshot says that nothing is at work,
//  2. the run of a command begins, ends, and its command is gone,
//  3. no command is found: a page is told that there is nothing, and never sees
//     the answer.
func (s *Service) look(ctx context.Context, session chunk.Session, agentType string, said bool) (View, fold.Snapshot, error) {
	v := s.newView(session, agentType)
	if err := s.readCommand(ctx, &v); err != nil {
		return v, fold.Snapshot{}, err
	}
	snap, err := s.cfg.Snapshots.Snapshot(ctx, session)
	if err == nil && snap.AgentType != "" && snap.AgentType != v.AgentType {
		v.AgentType = snap.AgentType
		if err := s.readCommand(ctx, &v); err != nil {
			return v, fold.Snapshot{}, err
		}
		snap, err = s.cfg.Snapshots.Snapshot(ctx, session)
	}
	return s.complete(ctx, v, snap, err, said)
}

// glance is look for somebody who says something new, and takes it that there is no
// command. With that a run can be asked for, because this is refused where a command
// stands; but nothing else can be done, nor anything said.
func (s *Service) glance(ctx context.Context, session chunk.Session, agentType string) (View, error) {
	v := s.newView(session, agentType)
	snap, err := s.cfg.Snapshots.Snapshot(ctx, session)
	if err == nil && snap.AgentType != "" {
		v.AgentType = snap.AgentType
	}
	v, _, err = s.complete(ctx, v, snap, err, true)
	return v, err
}

func (s *Service) newView(session chunk.Session, agentType string) View {
	v := View{Now: s.cfg.Clock(), Session: session, AgentType: agentType}
	if v.AgentType == "" {
		v.AgentType = s.cfg.AgentTypes[0]
	}
	return v
}

// complete fills in what the snapshot says, or the error that came in its place.
func (s *Service) complete(ctx context.Context, v View, snap fold.Snapshot, err error, said bool) (View, fold.Snapshot, error) {
	if errors.Is(err, chunk.ErrUnknownSession) {
		return v, fold.New(v.Session), nil
	}
	if err != nil {
		return v, fold.Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	v.setSnapshot(snap)
	if said {
		v.setMessages(snap)
	}
	err = s.readBranches(ctx, &v, snap)
	return v, snap, err
}

func (s *Service) readCommand(ctx context.Context, v *View) error {
	v.Command, v.Revision = nil, 0
	c, revision, err := s.cfg.Commands.Pending(ctx, v.Session, v.AgentType)
	busy, unreadable := errors.AsType[*commands.BusyError](err)
	switch {
	case errors.Is(err, commands.ErrNone):
		return nil
	case unreadable: // of a newer build: somebody is at work
		v.Command, v.Revision = &busy.Command, busy.Revision
		return nil
	case err != nil:
		return fmt.Errorf("pending command: %w", err)
	}
	v.Command, v.Revision = &c, revision
	return nil
}

// The bounds of a tree that is looked at. Whoever delegates further is served, but
// the questions of agents that deep reach nobody.
const (
	maxBranchDepth = 8
	maxBranches    = 128
)

// readBranches finds the runs of the tree that are paused, and what was answered.
func (s *Service) readBranches(ctx context.Context, v *View, snap fold.Snapshot) error {
	after, resumed := v.after(), v.waiting() != nil
	b, children := branchOf(snap, v.AgentType)
	if b != nil {
		b.Resumed, b.After = resumed, after
		if err := s.addBranch(ctx, v, *b, ""); err != nil {
			return err
		}
	}
	return s.readChildren(ctx, v, children, maxBranchDepth)
}

func (s *Service) readChildren(ctx context.Context, v *View, children []fold.Child, depth int) error {
	for _, child := range children {
		if depth == 0 || len(v.Branches) == maxBranches {
			return nil
		}
		session := v.Session.Child(child.Session)
		w, snap, err := s.lookAtChild(ctx, session, child.Type)
		if err != nil {
			return err
		}
		if !w.Known {
			continue // it is about to begin
		}
		v.Reach = max(v.Reach, w.Reach)
		if v.Calls != nil {
			addCalls(v.Calls, snap, child.Session)
		}
		b, grandchildren := branchOf(snap, w.AgentType)
		if b != nil {
			b.Resumed, b.After = w.waiting() != nil, w.after()
			if err := s.addBranch(ctx, v, *b, child.Session); err != nil {
				return err
			}
		}
		if err := s.readChildren(ctx, v, grandchildren, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// lookAtChild is look for a sub-agent, without the branches.
func (s *Service) lookAtChild(ctx context.Context, session chunk.Session, agentType string) (View, fold.Snapshot, error) {
	v := View{Session: session, AgentType: agentType}
	if err := s.readCommand(ctx, &v); err != nil {
		return v, fold.Snapshot{}, err
	}
	snap, err := s.cfg.Snapshots.Snapshot(ctx, session)
	if errors.Is(err, chunk.ErrUnknownSession) {
		return v, snap, nil
	}
	if err != nil {
		return v, snap, fmt.Errorf("snapshot of a sub-agent: %w", err)
	}
	v.setSnapshot(snap)
	return v, snap, nil
}

// branchOf is what the run of a session waits for, nil if it is not paused; and
// the sub-agents that are at work for it.
func branchOf(snap fold.Snapshot, agentType string) (*Branch, []fold.Child) {
	var children []fold.Child
	b := &Branch{Session: snap.Session, AgentType: agentType, RunID: snap.Run.ID}
	for _, c := range snap.Unsettled() {
		w := Wait{Session: snap.Session, RunID: snap.Run.ID, CallID: c.ID, ToolName: c.ToolName}
		at := slices.IndexFunc(snap.Pending, func(p fold.Pending) bool { return p.CallID == c.ID && p.RunID == snap.Run.ID })
		switch {
		case c.Child != nil:
			children = append(children, *c.Child)
			w.Kind = inbox.SubagentResult
		case c.Granted || at < 0:
			continue
		case snap.Pending[at].Kind == fold.PendingApproval:
			w.Kind, w.Approval, w.Deadline = inbox.Approval, snap.Pending[at].ApprovalID, snap.Pending[at].Deadline
		default:
			w.Kind, w.Deadline = inbox.ClientResult, snap.Pending[at].Deadline
		}
		b.Waits = append(b.Waits, w)
	}
	if snap.Status != fold.Paused || snap.Run.Status != fold.RunSuspended {
		return nil, children
	}
	return b, children
}

// addBranch adds a branch with what was answered. agent is its sub-agent, "" for
// the session's own run.
func (s *Service) addBranch(ctx context.Context, v *View, b Branch, agent string) error {
	answers, err := s.cfg.Inbox.Answers(ctx, b.Session, b.RunID)
	if err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	for i := range b.Waits {
		w := &b.Waits[i]
		w.ClientID = clientCallID(agent, w.CallID)
		if at := slices.IndexFunc(answers, func(a inbox.Answer) bool { return a.CallID == w.CallID }); at >= 0 {
			w.Answer = &answers[at]
		}
	}
	v.Branches = append(v.Branches, b)
	return nil
}
