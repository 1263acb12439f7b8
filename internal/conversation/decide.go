package conversation

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

// Decide returns the next step for a request in a state: the seven paths of docs/protocol/chat.md#helix-6.6. It is pure and total: every request
// has a plan. A plan that changes the state is one step, after which the request is decided again. So a request that is repeated, by a client that lost the
// response or at another edge, needs no rule: its step is already done.
func Decide(req Request, state State) Plan {
	if req.AgentType != "" && state.Known && req.AgentType != state.AgentType {
		return refuseWith(ReasonOtherAgent)
	}
	requested := req.intentOf(&state)
	if !state.Known && state.Waiting() == nil { // D1
		return decideUnknown(req, &state, requested)
	}
	if late := sweep(&state); len(late) > 0 { // D2
		return Plan{Path: PathExpireCalls, Store: late}
	}
	answers := req.sort(&state) // D3
	switch {
	case len(answers.intents) > 0: // D4; CS-22: before a new message is looked at
		return Plan{Path: PathSubmit, Store: answers.intents}
	case requested.state == intentInvalid:
		return refuse(requested.problem)
	case requested.state == newTurn: // D5
		return decideTurn(req, &state, requested)
	}
	if b := state.firstResumable(); b != nil {
		return resume(b)
	}
	switch {
	case answers.lost != nil:
		return refuse(alreadyAnswered(*answers.lost))
	case len(answers.rejected) > 0 && !answers.known: // D6
		return reject(req, answers.rejected)
	case req.Post:
		return decidePost(req, &state, requested, answers.rejected)
	}
	return decideGet(req, &state)
}

// decideUnknown decides a request for an unknown session.
func decideUnknown(req Request, state *State, requested intent) Plan {
	switch {
	case !req.Post:
		return Plan{Path: PathNoContent} // not 404: with resume, every new page sends this request
	case requested.state == newTurn:
		return execute(req, state, requested)
	case requested.state == intentInvalid:
		return refuse(requested.problem)
	case requested.state == repeated:
		// The run that this request asked for does not exist: its command was malformed and was removed from the queue.
		return refuseWith(ReasonUnavailable)
	case len(req.sort(state).rejected) > 0:
		return reject(req, req.sort(state).rejected)
	}
	return refuseWith(ReasonNoSession)
}

// decideTurn decides a request with a new message.
func decideTurn(req Request, state *State, requested intent) Plan {
	open := state.open()
	switch {
	case state.Abandoned:
		return Plan{Path: PathEndRun, EndRun: true}
	case req.Mode != dialect.ModeReject && requested.command.Replaces == "" && (state.waits(req.Mode) || len(state.Queue) > 0):
		return decideQueued(req, state, requested)
	case state.working(): // CS-23
		return refuseWith(ReasonRunning)
	case slices.ContainsFunc(open, func(w PendingCall) bool { return w.Kind == control.SubagentResult }):
		return refuseWith(ReasonDelegating) // a message must not be stored between a call and its result
	case len(open) > 0:
		return Plan{Path: PathAbandon, Store: abandon(open)}
	}
	return execute(req, state, requested)
}

// decideGet decides the request of a page for the answer in flight, docs/protocol/aisdk.md#aisdk-9.
func decideGet(req Request, state *State) Plan {
	cursor := chunk.Seq(0)
	if req.Cursor != nil {
		cursor = *req.Cursor
	}
	missed := state.TurnStart.Seq > 0 && cursor < state.MaxSeq && (req.Cursor != nil || state.SubAgentAwaitsUser())
	if !state.InFlight() && !missed {
		return Plan{Path: PathNoContent}
	}
	if c := state.Waiting(); c != nil && opensTurn(c) {
		return Plan{Path: PathAttach, Stream: &Stream{MessageID: state.next(c), Run: c.RunID}}
	}
	// Rule 2: a cursor at or before the start of the message gets all of it, and so does a cursor after the end of the log, which belongs to another
	// incarnation of the stream.
	s := &Stream{MessageID: state.Answer, Run: state.Awaited()}
	if cursor > state.TurnStart.Seq && cursor <= state.MaxSeq {
		s.Show, s.After = ShowTail, cursor // rule 3
	}
	if state.InFlight() {
		return Plan{Path: PathAttach, Stream: s}
	}
	return Plan{Path: PathReplay, Stream: s}
}

// decidePost decides a POST without new content: it was sent before, or another request was first.
func decidePost(req Request, state *State, requested intent, rejected []Rejection) Plan {
	if requested.state == repeated {
		return decideRepeated(state, requested)
	}
	held := req.Answered
	switch {
	case held == nil && len(req.Messages) == 0:
		return req.readOn()
	case held == nil:
		return refuseWith(ReasonChanged)
	case held.ID == state.Answer && state.TurnStart.Seq > 0 && !state.Opening():
		s := &Stream{MessageID: held.ID, Show: ShowNew, Steps: held.Steps, Decided: decided(held), Run: state.Awaited(), Rejected: rejected}
		if state.InFlight() {
			return Plan{Path: PathAttach, Stream: s}
		}
		return Plan{Path: PathUpToDate, Stream: s}
	}
	return Plan{Path: PathUpToDate, Stream: &Stream{MessageID: held.ID, Show: ShowEmpty, Rejected: rejected}}
}

// decideRepeated decides a repeated message. The client has no part of the answer, or it would have shown it, CS-31: it gets all of it.
func decideRepeated(state *State, requested intent) Plan {
	if c := state.Waiting(); c != nil && opensTurn(c) {
		if !requested.isOf(c) {
			return refuseWith(ReasonChanged)
		}
		return Plan{Path: PathAttach, Stream: &Stream{MessageID: state.next(c), Run: c.RunID}}
	}
	if !requested.isLast {
		return refuseWith(ReasonChanged)
	}
	s := &Stream{MessageID: state.Answer, Run: state.Awaited()}
	if state.InFlight() {
		return Plan{Path: PathAttach, Stream: s}
	}
	return Plan{Path: PathReplay, Stream: s}
}

// opensTurn reports whether a command starts a message of its own.
func opensTurn(c *control.Command) bool {
	return c.Kind == control.Execute || c.Kind == control.Resume && len(c.Input) > 0
}

// Opening reports whether a turn is requested and has not started.
func (state *State) Opening() bool { c := state.Waiting(); return c != nil && opensTurn(c) }

// next returns the id of the message that a command will start.
func (state *State) next(c *control.Command) string {
	return fold.MessageID(state.Count + len(c.Input))
}

// Awaited returns the run that is requested and has not started, "" if there is none.
func (state *State) Awaited() string {
	if c := state.Waiting(); c != nil {
		return c.RunID
	}
	return ""
}

func refuse(r *Refusal) Plan { return Plan{Path: PathRefused, Refusal: r} }

// reject returns a plan that rejects all answers of a client without changing the message that it has.
func reject(req Request, rejected []Rejection) Plan {
	s := &Stream{Show: ShowEmpty, Rejected: rejected}
	if req.Answered != nil {
		s.MessageID = req.Answered.ID
	}
	return Plan{Path: PathRejection, Stream: s}
}

// execute requests the run of a turn.
func execute(req Request, state *State, requested intent) Plan {
	c := requested.command
	c.Kind, c.Session, c.AgentType, c.Params = control.Execute, state.Session, state.AgentType, req.Params
	return Plan{Path: PathExecute, Command: &c, After: state.after()}
}

// resume requests that a paused run continues.
func resume(b *SuspendedRun) Plan {
	c := resumeCommand(b.Session, b.AgentType, b.RunID)
	return Plan{Path: PathResume, After: b.CommandRevision, Command: &c}
}

const modeContinue = "continue"

// sweep fails the calls whose deadline has passed, CV-20.
func sweep(state *State) []control.Answer {
	late := Expire(state.open(), state.Now)
	slices.SortFunc(late, func(a, b control.Answer) int { return strings.Compare(a.CallID, b.CallID) })
	return late
}

// abandon fails the pending calls of a user who sends a message instead of answers, CS-24.
func abandon(open []PendingCall) []control.Answer {
	return failAll(open, "the call was abandoned: the person said something else instead", control.CodeAbandoned)
}
