package conversation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

// The methods of this file are for callers that delegate whole sessions. ctx bounds each call; the caller decides whether it ends with its client.

// StartRequest requests the only run of a new session.
type StartRequest struct {
	Session   chunk.Session
	AgentType string
	Input     []chunk.InputMessage
	Params    chunk.Value
}

// Start requests a run and returns its id. The id is a function of the session alone: if two callers start a session concurrently, both get the same run. A
// session that is running or paused is returned unchanged, whatever the request contains; a completed one is refused with ReasonOver.
func (s *Service) Start(ctx context.Context, req StartRequest) (run string, r *Refusal) {
	if r := s.CheckAgent(req.AgentType); r != nil {
		return "", r
	}
	c := &control.Command{
		Kind: control.Execute, AgentType: req.AgentType, RunID: control.ExecuteRunID(req.Session, "/start"), Input: req.Input, Params: req.Params,
	}
	state, r := s.update(ctx, req.Session, func(state *State, _ *fold.Snapshot) (*control.Command, *Refusal) {
		switch {
		case state.exists() && state.AgentType != c.AgentType:
			return nil, refusal(ReasonOtherAgent)
		case state.isUnnamed():
			return nil, refusal(ReasonRunning)
		case !state.exists():
			return c, nil
		case state.isComplete():
			return nil, refusal(ReasonOver)
		}
		return nil, nil
	})
	return state.latestRun(), r
}

// ResumeRequest requests a run that continues one that was interrupted, or that has all its answers.
type ResumeRequest struct {
	Session chunk.Session
	Input   []chunk.InputMessage // may be empty
	Key     string               // identifies Input; see ResumeKey
}

// ResumeKey returns the key of messages, "" for none.
func ResumeKey(input []chunk.InputMessage) (string, *Refusal) {
	if len(input) == 0 {
		return "", nil
	}
	text, err := json.Marshal(input)
	if err != nil {
		return "", invalid("the message cannot be stored")
	}
	return "/resume " + string(text), nil
}

// runID returns the run that continues a run. It is a function of the message too: a repeated request gets the same run, and one with another message does not.
func (r ResumeRequest) runID(run string) string {
	if r.Key == "" {
		return control.ResumeRunID(run)
	}
	return control.RegenerateRunID(r.Session, r.Key, run)
}

const modeMessage = "with_message"

// Resume requests the run and returns its id. A run that is in progress, or waits for answers, is returned as it is if the request has no message; with a
// message, which would be lost, it is refused.
func (s *Service) Resume(ctx context.Context, req ResumeRequest) (run string, r *Refusal) {
	state, r := s.update(ctx, req.Session, func(state *State, snap *fold.Snapshot) (*control.Command, *Refusal) {
		return s.decideResume(ctx, state, snap, req)
	})
	return state.latestRun(), r
}

func (s *Service) decideResume(ctx context.Context, state *State, snap *fold.Snapshot, req ResumeRequest) (*control.Command, *Refusal) {
	switch {
	case !state.exists():
		return nil, refusal(ReasonNoSession)
	case state.isComplete():
		return nil, refusal(ReasonOver)
	case state.isUnnamed():
		return nil, refusal(ReasonRunning)
	case req.Key != "" && !state.hides.Contents && state.resumedBy(req), req.Key == "" && (state.working() || state.isAborting()):
		return nil, nil
	case state.working(), state.isAborting(): // an abort of an interrupted run is not part of working: the resume would be stored after it
		return nil, refusal(ReasonRunning)
	}
	if state.suspended() {
		open, err := s.openCalls(ctx, snap)
		switch {
		case err != nil:
			return nil, s.Failed(ctx, req.Session, "answers", err)
		case len(open.CallIDs)+len(open.Children) == 0:
		case req.Key == "":
			return nil, nil
		default:
			return nil, refusal(ReasonAwaiting)
		}
	}
	c := &control.Command{Kind: control.Resume, RunID: req.runID(state.Run.ID), Resumes: state.Run.ID, Mode: modeContinue, Input: req.Input}
	if req.Key != "" {
		c.Mode = modeMessage
	}
	return c, nil
}

// Stop stores a stop request in the inbox of the run, loads the state again, and requests an abort if no worker would read the inbox. Without the second load:
//  1. the run is in progress when the state is loaded,
//  2. it pauses, and its worker finds nothing in the inbox,
//  3. the stop request is stored, and no worker reads it.
func (s *Service) Stop(ctx context.Context, id chunk.Session, kind control.StopKind, reason string) (run string, r *Refusal) {
	stored := make(map[string]bool)
	state, r := s.update(ctx, id, func(state *State, _ *fold.Snapshot) (*control.Command, *Refusal) {
		switch {
		case !state.exists():
			return nil, refusal(ReasonNoSession)
		case state.isComplete() && len(stored) == 0:
			return nil, refusal(ReasonOver)
		case state.isComplete():
			return nil, nil
		}
		run := state.stopTarget(kind)
		if !stored[run] {
			if err := s.storeStop(ctx, control.Stop{Session: id, RunID: run, Kind: kind, Reason: reason}); err != nil {
				return nil, s.Failed(ctx, id, "stop", err)
			}
			stored[run] = true
			return nil, loadAgain
		}
		if state.queued() != nil || state.ownerless() {
			return nil, s.endWithoutWorker(ctx, state)
		}
		if kind == control.StopAbort && state.Status == fold.Paused && state.Waiting() == nil && !state.isAborting() {
			return &control.Command{Kind: control.Abort, RunID: run, Reason: reason}, nil
		}
		return nil, nil
	})
	return state.latestRun(), r
}

// queued returns the command of a run that is requested and has not started, nil if there is none or if this build cannot read it.
func (state *State) queued() *control.Command {
	if c := state.Waiting(); c != nil && (c.Kind == control.Execute || c.Kind == control.Resume) {
		return c
	}
	return nil
}

// endWithoutWorker ends a run that is stopped and that no worker would end: one that is queued, and an active one without a command. Without it:
//  1. a user stops an answer that waits for a worker, or whose writer has crashed, and the response is that the request is stored,
//  2. the next message is refused, because a run is requested or active, until a worker reads the stop request.
func (s *Service) endWithoutWorker(ctx context.Context, state *State) (r *Refusal) {
	var err error
	if c := state.queued(); c != nil {
		err = s.ports.Reaper.Withdraw(ctx, *c)
	} else if state.ownerless() {
		_, err = s.ports.Reaper.Abandon(ctx, state.Session, true)
	}
	if err != nil {
		return s.Failed(ctx, state.Session, "end run", err)
	}
	return nil
}

// Phase is the state of the latest run of a session, RL-2.
type Phase string

// The phases.
const (
	PhaseRunning     Phase = "running"
	PhaseCompleted   Phase = "completed"
	PhaseFailed      Phase = "failed"
	PhaseInterrupted Phase = "interrupted"
	PhaseClient      Phase = "suspended_client_tool"
	PhaseChildren    Phase = "suspended_awaiting_children"
)

// Status is the state of a session for a caller that delegated it.
type Status struct {
	RunID        string
	Phase        Phase
	Output       chunk.Value   // of PhaseCompleted: the structured output, or the last text of the answer as JSON
	Failure      *fold.Failure // of PhaseFailed, nil if the log does not have it
	Open         OpenCalls     // of PhaseClient and PhaseChildren, as far as the caller may know
	StreamStatus fold.Status
	Sequence     chunk.Seq
}

// OpenCalls are the calls that a paused run waits for and that have no answer.
type OpenCalls struct {
	CallIDs  []string // to be answered by the caller
	Children []OpenChild
}

// OpenChild is a sub-agent that is still running.
type OpenChild struct{ Session, AgentType, CallID string }

// Status returns the state of a session. ReasonRunning: a newer build has started the session, and its run is not known here yet.
func (s *Service) Status(ctx context.Context, id chunk.Session) (Status, *Refusal) {
	state, snap, err := s.loadState(ctx, id, s.cfg.AgentTypes, runOnly)
	if err == nil && snap.Status == fold.Ended && len(snap.Run.Output) == 0 { // the output is in the messages
		state, snap, err = s.loadState(ctx, id, s.cfg.AgentTypes, detail{messages: allMessages})
	}
	if err != nil {
		return Status{}, s.Failed(ctx, id, "look", err)
	}
	switch {
	case !state.exists():
		return Status{}, refusal(ReasonNoSession)
	case state.isUnnamed():
		return Status{}, refusal(ReasonRunning)
	}
	st := Status{RunID: state.latestRun(), Phase: PhaseRunning, StreamStatus: snap.Status, Sequence: snap.Position.Seq}
	if state.Waiting() != nil {
		st.StreamStatus = fold.Active // as soon as the run begins
		return st, nil
	}
	switch {
	case snap.Status == fold.Ended:
		st.Phase, st.Output = PhaseCompleted, state.outputOf(snap)
	case snap.Status == fold.Failed:
		st.Phase = PhaseFailed
		if !state.hides.Failure {
			st.Failure = snap.Failure
		}
	case snap.Run.Status == fold.RunInterrupted:
		st.Phase = PhaseInterrupted
	case snap.Status == fold.Paused:
		if st.Open, err = s.openCalls(ctx, &snap); err != nil {
			return Status{}, s.Failed(ctx, id, "answers", err)
		}
		st.Phase = PhaseClient
		if len(st.Open.CallIDs) == 0 && len(st.Open.Children) > 0 {
			st.Phase = PhaseChildren
		}
		if state.hides.callsOf(false) {
			st.Open = OpenCalls{}
		} else if state.hides.SubAgents {
			st.Open.Children = nil
		}
	}
	return st, nil
}

// Started reports whether the log has the session. If neither the log nor the queue has it, the refusal is ReasonNoSession.
func (s *Service) Started(ctx context.Context, id chunk.Session) (bool, *Refusal) {
	snap, err := s.ports.Snapshots.Head(ctx, id)
	if err != nil && !errors.Is(err, chunk.ErrUnknownSession) {
		return false, s.Failed(ctx, id, "look", err)
	}
	// A session that the caller must not know is looked up further, as an unknown one is, so that both take the same time.
	if known := err == nil; s.caller.sees(&State{Known: known, Owner: snap.Owner}) && known {
		return true, nil
	}
	state, _, err := s.loadState(ctx, id, s.cfg.AgentTypes, runOnly)
	switch {
	case err != nil:
		return false, s.Failed(ctx, id, "look", err)
	case !state.exists():
		return false, refusal(ReasonNoSession)
	}
	return state.Known, nil
}

// openCalls returns the calls that a paused run waits for and that have no answer.
func (s *Service) openCalls(ctx context.Context, snap *fold.Snapshot) (OpenCalls, error) {
	var open OpenCalls
	answers, err := s.ports.Inbox.Answers(ctx, snap.Session, snap.Run.ID)
	if err != nil {
		return open, err
	}
	answered := make(map[string]bool, len(answers))
	for _, a := range answers {
		answered[a.CallID] = true
	}
	for _, c := range pendingCalls(*snap, snap.Run.ID) {
		switch {
		case answered[c.CallID]:
		case c.Child != nil:
			open.Children = append(open.Children, OpenChild{c.Child.Session, c.Child.Type, c.CallID})
		default:
			open.CallIDs = append(open.CallIDs, c.CallID)
		}
	}
	return open, nil
}

// outputOf returns the result of a run for its parent: its structured output, or else the last text of its answer; nil if the caller must not see it.
func (state *State) outputOf(snap fold.Snapshot) chunk.Value {
	switch {
	case len(snap.Run.Output) > 0 && !state.hides.Output:
		return snap.Run.Output
	case len(snap.Run.Output) > 0, state.hides.Texts:
		return nil
	}
	text := LastText(snap)
	if text == "" {
		return nil
	}
	v, err := chunk.ValueOf(text)
	if err != nil { // the log has only valid texts
		return nil
	}
	return v
}

// exists reports whether the log or the queue has the session.
func (state *State) exists() bool { return state.Known || state.Command != nil }

// isUnnamed reports whether the first run of a session is requested by a command that this build cannot read: there is no run id to return.
func (state *State) isUnnamed() bool {
	return !state.Known && state.Command != nil && state.Command.RunID == ""
}

// isComplete reports whether no record follows.
func (state *State) isComplete() bool {
	return state.Waiting() == nil && (state.Status == fold.Ended || state.Status == fold.Failed)
}

// latestRun returns the latest run, also if it has not begun.
func (state *State) latestRun() string {
	if c := state.Waiting(); c != nil {
		return cmp.Or(c.RunID, state.Run.ID) // a command that this build cannot read has none
	}
	return state.Run.ID
}

// isAborting reports whether the abort of the latest run is requested already. Waiting does not include that of an interrupted run.
func (state *State) isAborting() bool {
	return state.Command != nil && state.Command.Kind == control.Abort && state.Command.RunID == state.Run.ID
}

// resumedBy reports whether the latest run is the one that an equal request asked for.
func (state *State) resumedBy(req ResumeRequest) bool {
	if c := state.Waiting(); c != nil {
		return c.Kind == control.Resume && c.RunID == req.runID(c.Resumes)
	}
	return slices.ContainsFunc(state.Past, func(r fold.Run) bool { return req.runID(r.ID) == state.Run.ID })
}

// stopTarget returns the run whose inbox will be read: the latest one, or, if that waits for answers, the one that will resume it. An interrupt pauses a run. A
// run that waits is paused already; but answers would resume it.
func (state *State) stopTarget(kind control.StopKind) string {
	if kind == control.StopInterrupt && state.Waiting() == nil && state.Run.Status == fold.RunSuspended {
		return control.ResumeRunID(state.Run.ID)
	}
	return state.latestRun()
}

// loadAgain is returned to update to load the state once more.
var loadAgain = &Refusal{}

// update loads the state of a session until decide returns neither a command nor loadAgain, or its command is stored. It returns the state that decide got,
// with that command.
func (s *Service) update(ctx context.Context, id chunk.Session, decide func(*State, *fold.Snapshot) (*control.Command, *Refusal)) (State, *Refusal) {
	for round := range MaxRounds {
		if round > 3 && wait.Sleep(ctx, time.Duration(round)*5*time.Millisecond) != nil {
			break
		}
		state, snap, err := s.loadState(ctx, id, s.cfg.AgentTypes, runOnly)
		if err != nil {
			return state, s.Failed(ctx, id, "look", err)
		}
		c, r := decide(&state, &snap)
		switch {
		case r == loadAgain:
			continue
		case c == nil:
			return state, r
		case state.hidden:
			return state, refusal(ReasonNoSession)
		}
		s.caller.sign(c)
		c.Session, c.AgentType = id, cmp.Or(c.AgentType, state.AgentType)
		if err = s.storage(id); err == nil {
			err = s.storeFiles(ctx, c)
		}
		if err == nil {
			err = s.record(ctx, actOf(c), id, c.RunID, "", func() error { return s.ports.Queue.Request(ctx, *c, state.after()) })
		}
		switch {
		case err == nil:
			// The state is not loaded again: the run may be complete by now, and would be taken for one that was requested before.
			state.AgentType = c.AgentType
			state.applyCommand(c)
			return state, nil
		case !errors.Is(err, control.ErrBusy):
			return state, s.Failed(ctx, id, "request", err)
		}
		// Another request was first: the next state shows its command.
	}
	s.cfg.Log.WarnContext(ctx, "compare-and-set retries exhausted", "session", id.String())
	return State{}, refusal(ReasonContended)
}
