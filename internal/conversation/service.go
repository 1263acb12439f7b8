package conversation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/wait"
)

// MaxRounds is the maximum number of steps of a request, including those that lose a race.
const MaxRounds = 16

// decide decides a request and carries out its plans until one is final. The State is the one that the plan was made from. Errors of the ports are logged and
// returned as a refusal.
func (s *Service) decide(ctx context.Context, req *Request) (Plan, State) {
	for round := range MaxRounds {
		if round > 3 && wait.Sleep(ctx, time.Duration(round)*5*time.Millisecond) != nil {
			break
		}
		optimistic := round == 0 && req.says() && req.Mode == dialect.ModeReject
		state, err := s.loadFor(ctx, req, optimistic)
		if err != nil {
			return refuse(s.Failed(ctx, req.Session, "look", err)), state
		}
		plan := Decide(*req, state)
		if optimistic && !plan.executes() {
			continue
		}
		if p := s.allow(ctx, req, &state, &plan); p != nil {
			return refuse(p), state
		}
		if plan.isFinal() {
			return plan, state
		}
		if plan.executes() && s.cfg.MaxSessionBytes > 0 && state.SessionBytes >= s.cfg.MaxSessionBytes {
			return refuseWith(ReasonFull), state // its run could store nothing but its end
		}
		if plan.asksFor(state.Session) {
			if p := s.resumeAgents(ctx, req, state, plan); p != nil {
				return refuse(p), state
			}
			continue
		}
		next, p := s.execute(ctx, req, &state, plan)
		if p != nil {
			return refuse(p), state
		}
		if next != nil {
			return *next, state
		}
	}
	s.cfg.Log.WarnContext(ctx, "compare-and-set retries exhausted", "session", req.Session.String())
	return refuseWith(ReasonContended), State{}
}

// execute carries out a plan with a command. It returns the plan of a response, with the command in the state, or nil if the state must be loaded again.
func (s *Service) execute(ctx context.Context, req *Request, state *State, plan Plan) (*Plan, *Refusal) {
	var ahead Ahead
	if req.OnExecute != nil && plan.executes() {
		ahead = req.OnExecute(ctx, *state)
	}
	stored, p := s.carryOut(ctx, req, plan)
	if p == nil && stored {
		// The command is stored after the loaded state, so only its run has started since. A response checks that, see begun in package chat.
		state.applyCommand(plan.Command)
		if next := Decide(*req, *state); next.Stream != nil {
			next.Stream.Ahead = ahead
			return &next, nil
		}
	}
	if ahead != nil {
		ahead.Drop()
	}
	return nil, p
}

// loadFor loads the state for a request, optimistically or with the command, and with all messages only if the plan depends on them.
func (s *Service) loadFor(ctx context.Context, req *Request, optimistic bool) (State, error) {
	load := func(d detail) (State, error) {
		if optimistic {
			return s.loadOptimistic(ctx, req.Session, req.AgentType, d)
		}
		state, _, err := s.loadState(ctx, req.Session, s.typesOf(req.AgentType), d)
		if err == nil && req.Mode != dialect.ModeReject && !state.hidden {
			state.Queue, err = s.ports.Inbox.Queued(ctx, req.Session)
		}
		return state, err
	}
	d := req.detail()
	state, err := load(d)
	if err == nil {
		req.Answered = state.findCalls(req.Answered)
	}
	if err == nil && req.Post && d.messages != allMessages && state.Known && !req.isCovered(&state) {
		return load(withMessages)
	}
	return state, err
}

// detail returns what is loaded first for a request. A stock client sends the latest answer with each message and with each answer to a call of it.
func (r Request) detail() detail {
	switch {
	case !r.Post:
		return withBranches
	case r.Regenerate || r.Answered == nil || r.MessageID != "" && r.MessageID != r.Answered.ID:
		return withMessages
	case len(r.Answered.Answers) == 0:
		return detail{branches: true, calls: true}
	}
	return withAnswer
}

// isCovered reports whether the state without the earlier messages gives the plan of the state with them. The client has the latest answer, so that its next
// messages are not in the log yet: the first run of one of them would have started another answer. And its answers are to calls that are loaded.
//
// A client that gives a new message the id of an earlier one is not refused then, unless the run of the earlier one is in State.Past.
func (r Request) isCovered(state *State) bool {
	return r.Answered != nil && r.Answered.ID == state.Answer && !slices.ContainsFunc(r.Answered.Answers, func(c control.Answer) bool {
		_, known := state.Calls[c.CallID]
		return !known && state.wait(c.CallID) == nil
	})
}

// says reports whether a request may need a run of its own.
func (r Request) says() bool { return len(r.Messages) > 0 || r.Regenerate }

// executes reports whether a plan requests the run of a turn.
func (p *Plan) executes() bool { return p.Command != nil && p.Command.Kind == control.Execute }

// asksFor reports whether a plan has a command, and whether it is for a sub-agent of the session.
func (p *Plan) asksFor(root chunk.Session) bool {
	return p.Command != nil && p.Command.Session != root
}

// resumeAgents requests the resumes of all sub-agents that can continue, without a load of the whole tree for each: one POST may answer the calls of more
// sub-agents than MaxRounds. The next load finds those that were not requested.
func (s *Service) resumeAgents(ctx context.Context, req *Request, state State, plan Plan) *Refusal {
	for ; plan.asksFor(state.Session); plan = Decide(*req, state) {
		if _, p := s.carryOut(ctx, req, plan); p != nil {
			return p
		}
		state.resumed(plan.Command.Session)
	}
	return nil
}

// carryOut carries out one step, and reports whether a command of the chat itself was stored. If another request was first, that is not an error: the next load
// shows its result.
func (s *Service) carryOut(ctx context.Context, req *Request, plan Plan) (stored bool, p *Refusal) {
	for _, a := range plan.Store {
		err := s.answer(ctx, a)
		switch {
		case errors.Is(err, control.ErrAnswered):
		case err != nil:
			return false, s.Failed(ctx, a.Session, "answer", err)
		case plan.Path == PathSubmit:
			s.observe.Accepted()
		}
	}
	if plan.EndRun {
		if _, err := s.ports.Reaper.Abandon(ctx, req.Session, false); err != nil {
			return false, s.Failed(ctx, req.Session, "end run", err)
		}
		return false, nil
	}
	if plan.Queued != nil {
		return false, s.carryOutQueued(ctx, req, &plan)
	}
	c := plan.Command
	if c == nil {
		req.LastPath = plan.Path
		return false, nil
	}
	if c.Kind == control.Execute {
		if p := s.CheckAgent(c.AgentType); p != nil {
			return false, p
		}
		err := s.storeFiles(ctx, c)
		if err == nil {
			err = checkInput(c)
		}
		if err != nil {
			return false, s.Failed(ctx, req.Session, "input", err)
		}
	}
	act := audit.Act("") // a Resume follows from the answers
	if c.Kind == control.Execute {
		act = audit.Message
		if req.Regenerate {
			act = audit.Regenerate
		}
	}
	err := s.record(ctx, act, c.Session, c.RunID, "", func() error { return s.request(ctx, *c, plan.After) })
	switch {
	case errors.Is(err, control.ErrBusy):
		return false, nil
	case err != nil:
		return false, s.Failed(ctx, req.Session, "request", err)
	case c.Kind == control.Execute:
		req.RequestedRun = c.RunID
	}
	req.LastPath = plan.Path
	return c.Session == req.Session, nil
}

// request puts a command on the queue.
func (s *Service) request(ctx context.Context, c control.Command, after control.Revision) error {
	s.caller.sign(&c)
	err := s.storage(c.Session)
	if err == nil {
		err = s.ports.Queue.Request(ctx, c, after)
	}
	s.observe.Requested(err)
	return err
}

// storage returns why nothing can be stored for a session.
func (s *Service) storage(session chunk.Session) error {
	if s.cfg.Storage == nil {
		return nil
	}
	return s.cfg.Storage(session)
}

// answer stores an answer if a record of the log can hold it. It is that of the caller, unless its deadline has passed.
func (s *Service) answer(ctx context.Context, a control.Answer) error {
	if a.ErrorCode != control.CodeDeadline {
		a.By = s.caller.By
	}
	if err := checkAnswer(&a); err != nil {
		return err
	}
	if err := s.storage(a.Session); err != nil {
		return err
	}
	return s.record(ctx, actOfAnswer(&a), a.Session, a.RunID, a.CallID, func() error { return s.ports.Inbox.Answer(ctx, a) })
}

// storeStop stores a stop request of the caller.
func (s *Service) storeStop(ctx context.Context, stop control.Stop) error {
	stop.By = s.caller.By
	act := audit.Interrupt
	if stop.Kind == control.StopAbort {
		act = audit.Abort
	}
	return s.record(ctx, act, stop.Session, stop.RunID, "", func() error { return s.ports.Inbox.Stop(ctx, stop) })
}

// record carries out an act of the caller and records it. It does not record what follows from another act, for which act is "".
func (s *Service) record(ctx context.Context, act audit.Act, session chunk.Session, run, call string, do func() error) error {
	if act == "" {
		return do()
	}
	return s.cfg.Audit.Do(ctx, audit.Event{Act: act, By: s.caller.By, Session: session, Run: run, Call: call}, do)
}

// actOf returns the act that a command of update is. An Abort follows from the stop request.
func actOf(c *control.Command) audit.Act {
	switch c.Kind {
	case control.Execute:
		return audit.Start
	case control.Resume:
		return audit.Resume
	}
	return ""
}

// actOfAnswer returns the act that an answer is: none if its deadline has passed, or if it was abandoned for a message.
func actOfAnswer(a *control.Answer) audit.Act {
	switch {
	case a.ErrorCode == control.CodeDeadline || a.ErrorCode == control.CodeAbandoned:
		return ""
	case a.Kind != control.Approval:
		return audit.Answer
	case a.Approved:
		return audit.Approve
	}
	return audit.Deny
}
