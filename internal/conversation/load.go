package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// detail selects the parts of a session to load.
type detail int

const (
	runOnly      detail = iota // the fold and the command
	withBranches               // also the paused runs of the tree, and their answers
	withMessages               // also inputs and calls, for requests that send something
)

// loadState loads the state of a session. The queue knows a session by its agent type; the first of agentTypes is that of a session without a command that the
// log does not have.
//
// The command is read before the snapshot. The other way round:
//  1. the snapshot shows no run in progress,
//  2. the run of a command begins and ends, and its command is removed,
//  3. no command is found: a page gets the response that there is nothing, and never the answer.
func (s *Service) loadState(ctx context.Context, session chunk.Session, agentTypes []string, d detail) (State, fold.Snapshot, error) {
	v := s.newState(session, agentTypes[0])
	for _, name := range agentTypes {
		v.AgentType = name
		if err := s.readCommand(ctx, &v); err != nil {
			return v, fold.Snapshot{}, err
		}
		if v.Command != nil {
			break
		}
		v.AgentType = agentTypes[0]
	}
	snap, err := s.ports.Snapshots.Snapshot(ctx, session)
	if err == nil && snap.AgentType != "" && snap.AgentType != v.AgentType {
		v.AgentType = snap.AgentType
		if err := s.readCommand(ctx, &v); err != nil {
			return v, fold.Snapshot{}, err
		}
		snap, err = s.ports.Snapshots.Snapshot(ctx, session)
	}
	v, snap, err = s.fillState(ctx, v, snap, err, d)
	if err == nil && d >= withMessages && v.ownerless() {
		v.Abandoned, err = s.ports.Reaper.IsAbandoned(ctx, session)
	}
	return v, snap, err
}

// loadOptimistic loads the state for a new message on the assumption that there is no command. With that state a run can be requested, because the request
// is rejected if there is a command; nothing else can be done, and no other plan is final.
func (s *Service) loadOptimistic(ctx context.Context, session chunk.Session, agentType string) (State, error) {
	v := s.newState(session, s.typesOf(agentType)[0])
	snap, err := s.ports.Snapshots.Snapshot(ctx, session)
	if err == nil && snap.AgentType != "" {
		v.AgentType = snap.AgentType
	}
	v, _, err = s.fillState(ctx, v, snap, err, withMessages)
	return v, err
}

func (s *Service) newState(session chunk.Session, agentType string) State {
	return State{Now: s.cfg.Clock(), Session: session, AgentType: agentType}
}

// fillState sets the fields from a snapshot, or returns the error of loading it.
func (s *Service) fillState(ctx context.Context, v State, snap fold.Snapshot, err error, d detail) (State, fold.Snapshot, error) {
	if errors.Is(err, chunk.ErrUnknownSession) {
		return v, fold.New(v.Session).Snapshot(), nil
	}
	if err != nil {
		return v, fold.Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	v.setSnapshot(snap)
	if d >= withMessages {
		v.setMessages(snap)
	}
	if d < withBranches {
		return v, snap, nil
	}
	err = s.readBranches(ctx, &v, snap)
	return v, snap, err
}

func (s *Service) readCommand(ctx context.Context, v *State) error {
	v.Command, v.Revision = nil, 0
	c, revision, err := s.ports.Queue.Pending(ctx, v.Session, v.AgentType)
	busy, unreadable := errors.AsType[*control.BusyError](err)
	switch {
	case errors.Is(err, control.ErrNoCommand):
		return nil
	case unreadable: // of a newer build: counts as work
		v.Command, v.Revision = &busy.Command, busy.Revision
		return nil
	case err != nil:
		return fmt.Errorf("pending command: %w", err)
	}
	v.Command, v.Revision = &c, revision
	return nil
}

// The bounds of a loaded tree. Deeper sub-agents run, but their pending calls are not shown to the user.
const (
	maxBranchDepth = 8
	maxBranches    = 128
)

// readBranches finds the suspended runs of the tree, and their answers.
func (s *Service) readBranches(ctx context.Context, v *State, snap fold.Snapshot) error {
	after, resumed := v.after(), v.Waiting() != nil
	b, children := branchOf(snap, v.AgentType)
	if b != nil {
		b.Resumed, b.CommandRevision = resumed, after
		if err := s.addBranch(ctx, v, *b, ""); err != nil {
			return err
		}
	}
	return s.readChildren(ctx, v, children, maxBranchDepth)
}

func (s *Service) readChildren(ctx context.Context, v *State, children []fold.Child, depth int) error {
	for _, child := range children {
		if depth == 0 || len(v.Branches) == maxBranches {
			return nil
		}
		session := v.Session.Child(child.Session)
		w, snap, err := s.loadChild(ctx, session, child.Type)
		if err != nil {
			return err
		}
		if !w.Known {
			continue // it will start soon
		}
		v.MaxSeq = max(v.MaxSeq, w.MaxSeq)
		if v.Calls != nil {
			addCalls(v.Calls, snap.Messages(0), child.Session)
		}
		b, grandchildren := branchOf(snap, w.AgentType)
		if b != nil {
			b.Resumed, b.CommandRevision = w.Waiting() != nil, w.after()
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

// loadChild loads the state of a sub-agent, without the branches.
func (s *Service) loadChild(ctx context.Context, session chunk.Session, agentType string) (State, fold.Snapshot, error) {
	v := State{Session: session, AgentType: agentType}
	if err := s.readCommand(ctx, &v); err != nil {
		return v, fold.Snapshot{}, err
	}
	snap, err := s.ports.Snapshots.Snapshot(ctx, session)
	if errors.Is(err, chunk.ErrUnknownSession) {
		return v, snap, nil
	}
	if err != nil {
		return v, snap, fmt.Errorf("snapshot of a sub-agent: %w", err)
	}
	v.setSnapshot(snap)
	return v, snap, nil
}

// branchOf returns the calls that the run of a session waits for, nil if it is not suspended, and the running sub-agents.
func branchOf(snap fold.Snapshot, agentType string) (*SuspendedRun, []fold.Child) {
	var children []fold.Child
	b := &SuspendedRun{Session: snap.Session, AgentType: agentType, RunID: snap.Run.ID}
	for _, c := range snap.OpenCalls() {
		w := PendingCall{Session: snap.Session, RunID: snap.Run.ID, CallID: c.ID, ToolName: c.ToolName}
		at := slices.IndexFunc(snap.Pending, func(p fold.Pending) bool { return p.CallID == c.ID && p.RunID == snap.Run.ID })
		switch {
		case c.Child != nil:
			children = append(children, *c.Child)
			w.Kind = control.SubagentResult
		case c.Approved || at < 0:
			continue
		case snap.Pending[at].Kind == fold.PendingApproval:
			w.Kind, w.Approval, w.Deadline = control.Approval, snap.Pending[at].ApprovalID, snap.Pending[at].Deadline
		default:
			w.Kind, w.Deadline = control.ClientResult, snap.Pending[at].Deadline
		}
		b.PendingCalls = append(b.PendingCalls, w)
	}
	if snap.Status != fold.Paused || snap.Run.Status != fold.RunSuspended {
		return nil, children
	}
	return b, children
}

// addBranch adds a branch with its answers. agent is its sub-agent, "" for the session's own run.
func (s *Service) addBranch(ctx context.Context, v *State, b SuspendedRun, agent string) error {
	answers, err := s.ports.Inbox.Answers(ctx, b.Session, b.RunID)
	if err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	for i := range b.PendingCalls {
		w := &b.PendingCalls[i]
		w.UICallID = clientCallID(agent, w.CallID)
		if at := slices.IndexFunc(answers, func(a control.Answer) bool { return a.CallID == w.CallID }); at >= 0 {
			w.Answer = &answers[at]
		}
	}
	v.Branches = append(v.Branches, b)
	return nil
}
