package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

// detail selects the parts of a session to load. The zero value is the fold and the command.
type detail struct {
	messages messages
	branches bool // the suspended runs of the tree, and their answers
	calls    bool // the inputs and the calls in the messages, and whether the latest run has no worker: for requests that send something
}

// messages selects the finished messages to load. Their number grows with the session.
type messages int

const (
	noMessages  messages = iota
	lastMessage          // that users see last: all steps of an answer, and its open calls
	allMessages
)

var (
	runOnly      = detail{}
	withBranches = detail{branches: true}
	withAnswer   = detail{messages: lastMessage, branches: true, calls: true}
	withMessages = detail{messages: allMessages, branches: true, calls: true}
)

// loadState loads the state of a session. The queue knows a session by its agent type; the first of agentTypes is that of a session without a command that the
// log does not have.
//
// The command is read before the snapshot. The other way round:
//  1. the snapshot shows no run in progress,
//  2. the run of a command begins and ends, and its command is removed,
//  3. no command is found: a page gets the response that there is nothing, and never the answer.
func (s *Service) loadState(ctx context.Context, session chunk.Session, agentTypes []string, d detail) (State, fold.Snapshot, error) {
	state := s.newState(session, agentTypes[0])
	for _, name := range agentTypes {
		state.AgentType = name
		if err := s.readCommand(ctx, &state); err != nil {
			return state, fold.Snapshot{}, err
		}
		if state.Command != nil {
			break
		}
		state.AgentType = agentTypes[0]
	}
	snap, list, err := s.snapshot(ctx, session, d)
	if err == nil && snap.AgentType != "" && snap.AgentType != state.AgentType {
		state.AgentType = snap.AgentType
		if err := s.readCommand(ctx, &state); err != nil {
			return state, fold.Snapshot{}, err
		}
		snap, list, err = s.snapshot(ctx, session, d)
	}
	if state, err = s.fillState(ctx, state, snap, list, err, d); err == nil && d.calls && state.ownerless() {
		state.Abandoned, err = s.ports.Reaper.IsAbandoned(ctx, session)
	}
	if !state.Known {
		snap = fold.New(session).Snapshot()
	}
	return state, snap, err
}

// loadOptimistic loads the state for a new message on the assumption that there is no command. With that state a run can be requested, because the request
// is rejected if there is a command; nothing else can be done, and no other plan is final.
func (s *Service) loadOptimistic(ctx context.Context, session chunk.Session, agentType string, d detail) (State, error) {
	state := s.newState(session, s.typesOf(agentType)[0])
	snap, list, err := s.snapshot(ctx, session, d)
	if err == nil && snap.AgentType != "" {
		state.AgentType = snap.AgentType
	}
	return s.fillState(ctx, state, snap, list, err, d)
}

// snapshot returns the fold of a session, and the selected messages that are not replaced if d.calls is set.
func (s *Service) snapshot(ctx context.Context, session chunk.Session, d detail) (snap fold.Snapshot, list []fold.Message, err error) {
	switch d.messages {
	case noMessages:
		snap, err = s.ports.Snapshots.Head(ctx, session)
		return snap, nil, err
	case lastMessage:
		page, err := s.ports.Snapshots.MessagePage(ctx, session, fold.PageQuery{Limit: 1, Partial: true})
		if err != nil {
			return fold.Snapshot{}, nil, err
		}
		list, _ = page.Messages()
		return page.Current(), slices.DeleteFunc(list, func(m fold.Message) bool { return m.Replaced }), nil
	}
	snap, err = s.ports.Snapshots.Snapshot(ctx, session)
	if err == nil && d.calls {
		list = snap.Messages(0)
	}
	return snap, list, err
}

func (s *Service) newState(session chunk.Session, agentType string) State {
	return State{Now: time.Now(), Session: session, AgentType: agentType, hides: s.caller.Hides}
}

// fillState sets the fields from a snapshot and its messages, or returns the error of loading them.
func (s *Service) fillState(ctx context.Context, state State, snap fold.Snapshot, list []fold.Message, err error, d detail) (State, error) {
	unknown := errors.Is(err, chunk.ErrUnknownSession)
	if err != nil && !unknown {
		return state, fmt.Errorf("snapshot: %w", err)
	}
	if !unknown {
		state.setSnapshot(snap)
	}
	if !s.caller.sees(&state) {
		none := s.newState(state.Session, s.cfg.AgentTypes[0])
		none.hidden = true
		return none, nil
	}
	if unknown {
		return state, nil
	}
	if d.calls {
		state.setMessages(list)
	}
	if d.calls && d.messages == allMessages {
		state.Inputs = snap.Inputs()
	}
	if d.branches {
		err = s.readBranches(ctx, &state, snap, d)
	}
	return state, err
}

func (s *Service) readCommand(ctx context.Context, state *State) error {
	state.Command, state.Revision = nil, 0
	c, revision, err := s.ports.Queue.Pending(ctx, state.Session, state.AgentType)
	busy, unreadable := errors.AsType[*control.BusyError](err)
	switch {
	case errors.Is(err, control.ErrNoCommand):
		return nil
	case unreadable: // of a newer build: counts as work
		c, revision = busy.Command, busy.Revision
	case err != nil:
		return fmt.Errorf("pending command: %w", err)
	}
	state.Command, state.Revision = &c, revision
	return nil
}

// The bounds of a loaded tree. Deeper sub-agents run, but their pending calls are not shown to the user.
const (
	maxBranchDepth = 8
	maxBranches    = 128
)

// readBranches finds the suspended runs of the tree, and their answers.
func (s *Service) readBranches(ctx context.Context, state *State, snap fold.Snapshot, d detail) error {
	after, resumed := state.after(), state.Waiting() != nil
	b, children := branchOf(snap, state.AgentType)
	if b != nil {
		b.Resumed, b.CommandRevision = resumed, after
		if err := s.addBranch(ctx, state, *b, ""); err != nil {
			return err
		}
	}
	if !d.calls || d.messages == lastMessage {
		d.messages = noMessages
	}
	return s.readChildren(ctx, state, children, d, maxBranchDepth)
}

func (s *Service) readChildren(ctx context.Context, state *State, children []fold.Child, d detail, depth int) error {
	for _, child := range children {
		if depth == 0 || len(state.Branches) == maxBranches {
			return nil
		}
		session := state.Session.Child(child.Session)
		w, snap, list, err := s.loadChild(ctx, session, child.Type, d)
		if err != nil {
			return err
		}
		if !w.Known {
			continue // it will start soon
		}
		state.MaxSeq = max(state.MaxSeq, w.MaxSeq)
		if d.calls {
			state.addCalls(list, child.Session)
		}
		b, grandchildren := branchOf(snap, w.AgentType)
		if b != nil {
			b.Resumed, b.CommandRevision = w.Waiting() != nil, w.after()
			if err := s.addBranch(ctx, state, *b, child.Session); err != nil {
				return err
			}
		}
		if err := s.readChildren(ctx, state, grandchildren, d, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// loadChild loads the state of a sub-agent, without the branches.
func (s *Service) loadChild(ctx context.Context, session chunk.Session, agentType string, d detail) (State, fold.Snapshot, []fold.Message, error) {
	state := State{Session: session, AgentType: agentType}
	if err := s.readCommand(ctx, &state); err != nil {
		return state, fold.Snapshot{}, nil, err
	}
	snap, list, err := s.snapshot(ctx, session, d)
	if errors.Is(err, chunk.ErrUnknownSession) {
		return state, snap, nil, nil
	}
	if err != nil {
		return state, snap, nil, fmt.Errorf("snapshot of a sub-agent: %w", err)
	}
	state.setSnapshot(snap)
	return state, snap, list, nil
}

// branchOf returns the calls that the run of a session waits for, nil if it is not suspended, and the running sub-agents.
func branchOf(snap fold.Snapshot, agentType string) (*SuspendedRun, []fold.Child) {
	var children []fold.Child
	b := &SuspendedRun{Session: snap.Session, AgentType: agentType, RunID: snap.Run.ID, PendingCalls: pendingCalls(snap, snap.Run.ID)}
	for _, w := range b.PendingCalls {
		if w.Child != nil {
			children = append(children, *w.Child)
		}
	}
	if snap.Status != fold.Paused || snap.Run.Status != fold.RunSuspended {
		return nil, children
	}
	return b, children
}

// addBranch adds a branch with its answers. agent is its sub-agent, "" for the session's own run.
func (s *Service) addBranch(ctx context.Context, state *State, b SuspendedRun, agent string) error {
	answers, err := s.ports.Inbox.Answers(ctx, b.Session, b.RunID)
	if err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	for i := range b.PendingCalls {
		w := &b.PendingCalls[i]
		id := dialect.CallID(agent, w.CallID)
		w.UICallID = cmp.Or(state.shown[id], id)
		if at := slices.IndexFunc(answers, func(a control.Answer) bool { return a.CallID == w.CallID }); at >= 0 {
			w.Answer = &answers[at]
		}
	}
	state.Branches = append(state.Branches, b)
	return nil
}
