package chat

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// Decide says what to do next for a request, given how the chat stands: the seven
// paths of spec/helix.md section 6 as spec/aisdk.md overrides them. It is pure,
// and total: every request has a plan.
//
// A plan that changes something is one step, and the request is decided anew when
// it is done. So a request that is repeated, by a client that lost the answer or
// by another edge, needs no rule of its own: it finds the step done and goes on
// behind it.
func Decide(req Request, v View) Plan {
	if req.AgentType != "" && v.Known && req.AgentType != v.AgentType {
		return refuse(otherAgent)
	}
	asked := req.wants(&v)
	if !v.Known && v.waiting() == nil { // D1
		return decideUnknown(req, &v, asked)
	}
	if late := sweep(&v); len(late) > 0 { // D2
		return Plan{Path: PathSweep, Store: late}
	}
	said := req.sort(&v) // D3
	switch {
	case len(said.intents) > 0: // D4; CS-22: before a new message is looked at
		return Plan{Path: PathSubmit, Store: said.intents}
	case asked.state == impossible:
		return refuse(asked.problem)
	case asked.state == newTurn: // D5
		return decideTurn(&v, asked)
	}
	if b := v.ripe(); b != nil {
		return resume(b)
	}
	switch {
	case said.lost != nil:
		return refuse(alreadyAnswered(*said.lost))
	case len(said.rejected) > 0 && !said.known: // D6
		return reject(req, said.rejected)
	case req.Post:
		return decidePost(req, &v, asked, said.rejected)
	}
	return decideGet(req, &v)
}

// decideUnknown is for a session of which nothing is known.
func decideUnknown(req Request, v *View, asked wish) Plan {
	switch {
	case !req.Post:
		return Plan{Path: PathNothing} // not 404: with resume, every new page asks
	case asked.state == newTurn:
		return execute(v, asked)
	case asked.state == impossible:
		return refuse(asked.problem)
	case asked.state == repeated:
		// The run that this request asked for is nowhere: it was taken off the queue
		// as one that nobody can read.
		return refuse(unavailable)
	case len(req.sort(v).rejected) > 0:
		return reject(req, req.sort(v).rejected)
	}
	return refuse(noChat)
}

// decideTurn is for somebody who says something new.
func decideTurn(v *View, asked wish) Plan {
	open := v.open()
	switch {
	case v.working(): // CS-23
		return refuse(running)
	case slices.ContainsFunc(open, func(w Wait) bool { return w.Kind == inbox.SubagentResult }):
		return refuse(delegating) // a message must not land between a call and its result
	case len(open) > 0:
		return Plan{Path: PathAbandon, Store: abandon(open)}
	}
	return execute(v, asked)
}

// decideGet is for a page that looks whether something is on its way, spec/aisdk.md
// section 9.
func decideGet(req Request, v *View) Plan {
	cursor := chunk.Seq(0)
	if req.Cursor != nil {
		cursor = *req.Cursor
	}
	missed := v.TurnStart.Seq > 0 && cursor < v.Reach && (req.Cursor != nil || v.asksElsewhere())
	if !v.flight() && !missed {
		return Plan{Path: PathNothing}
	}
	if c := v.waiting(); c != nil && opensTurn(c) {
		return Plan{Path: PathAttach, Stream: &Stream{MessageID: v.next(c), Run: c.RunID}}
	}
	// Rule 2: at or before the start of the message is all of it. A cursor that the
	// log has not reached is one of another life of the stream, and says nothing.
	s := &Stream{MessageID: v.Answer, Run: v.awaited()}
	if cursor > v.TurnStart.Seq && cursor <= v.Reach {
		s.Show, s.After = ShowTail, cursor // rule 3
	}
	if v.flight() {
		return Plan{Path: PathAttach, Stream: s}
	}
	return Plan{Path: PathReplay, Stream: s}
}

// decidePost is for a POST that brings nothing new: it was sent before, or somebody
// else was faster.
func decidePost(req Request, v *View, asked wish, rejected []Rejection) Plan {
	if asked.state == repeated {
		return decideRepeated(v, asked)
	}
	held := req.Answered
	switch {
	case held == nil && len(req.Turn) == 0:
		return refuse(invalid("there is nothing to answer"))
	case held == nil:
		return refuse(goneOn)
	case held.ID == v.Answer && v.TurnStart.Seq > 0 && !v.opening():
		s := &Stream{MessageID: held.ID, Show: ShowNew, Steps: held.Steps, Run: v.awaited(), Rejected: rejected}
		if v.flight() {
			return Plan{Path: PathAttach, Stream: s}
		}
		return Plan{Path: PathUpToDate, Stream: s}
	}
	return Plan{Path: PathUpToDate, Stream: &Stream{MessageID: held.ID, Show: ShowNothing, Rejected: rejected}}
}

// decideRepeated is for a message that was sent before. The client has nothing of
// the answer, or it would have shown that, CS-31: it gets all of it.
func decideRepeated(v *View, asked wish) Plan {
	if c := v.waiting(); c != nil && opensTurn(c) {
		if !asked.isOf(c) {
			return refuse(goneOn)
		}
		return Plan{Path: PathAttach, Stream: &Stream{MessageID: v.next(c), Run: c.RunID}}
	}
	if !asked.isLast {
		return refuse(goneOn)
	}
	s := &Stream{MessageID: v.Answer, Run: v.awaited()}
	if v.flight() {
		return Plan{Path: PathAttach, Stream: s}
	}
	return Plan{Path: PathReplay, Stream: s}
}

// opensTurn reports whether a command begins a message of its own.
func opensTurn(c *commands.Command) bool {
	return c.Kind == commands.Execute || c.Kind == commands.Resume && len(c.Input) > 0
}

// opening reports whether a turn is about to begin.
func (v *View) opening() bool { c := v.waiting(); return c != nil && opensTurn(c) }

// next is the id of the message that a command will begin.
func (v *View) next(c *commands.Command) string { return fold.MessageID(v.Count + len(c.Input)) }

// awaited is the run that is asked for and has not begun, "" when there is none.
func (v *View) awaited() string {
	if c := v.waiting(); c != nil {
		return c.RunID
	}
	return ""
}

func refuse(p *Problem) Plan { return Plan{Path: PathRefused, Refusal: p} }

// reject tells a client that none of its answers is taken, without touching the
// message that it holds.
func reject(req Request, rejected []Rejection) Plan {
	s := &Stream{Show: ShowNothing, Rejected: rejected}
	if req.Answered != nil {
		s.MessageID = req.Answered.ID
	}
	return Plan{Path: PathRejection, Stream: s}
}

// execute asks for the run of a turn.
func execute(v *View, asked wish) Plan {
	c := asked.command
	c.Kind, c.Session, c.AgentType = commands.Execute, v.Session, v.AgentType
	return Plan{Path: PathExecute, Command: &c, After: v.after()}
}

// resume asks for a paused run to go on.
func resume(b *Branch) Plan {
	return Plan{Path: PathResume, After: b.After, Command: &commands.Command{
		Kind: commands.Resume, Session: b.Session, AgentType: b.AgentType,
		RunID: commands.ResumeRunID(b.RunID), Resumes: b.RunID, Mode: modeContinue,
	}}
}

const modeContinue = "continue"

// sweep answers what nobody has answered in time, CV-20.
func sweep(v *View) []inbox.Answer {
	late := slices.DeleteFunc(v.open(), func(w Wait) bool { return !w.expired(v.Now) })
	slices.SortFunc(late, func(a, b Wait) int { return strings.Compare(a.CallID, b.CallID) })
	return failAll(late, "nobody answered in time", codeDeadline)
}

// abandon fails the calls that somebody leaves unanswered who says something else
// instead, CS-24.
func abandon(open []Wait) []inbox.Answer {
	return failAll(open, "the call was abandoned: the person said something else instead", codeAbandoned)
}

// The codes of spec/helix.md section 12.2.
const (
	codeDeadline   = "client_tool_deadline_exceeded"
	codeAbandoned  = "client_tool_abandoned"
	codeToolFailed = "client_tool_error"
)

func failAll(waits []Wait, text, code string) []inbox.Answer {
	var out []inbox.Answer
	for _, w := range waits {
		if w.Kind == inbox.SubagentResult {
			continue // its own worker says what came of it
		}
		a := w.answer()
		a.Error, a.ErrorCode = text, code
		out = append(out, a)
	}
	return out
}

// answer is an answer to the call that says nothing yet.
func (w *Wait) answer() inbox.Answer {
	return inbox.Answer{Session: w.Session, RunID: w.RunID, CallID: w.CallID, ToolName: w.ToolName, Kind: w.Kind, ApprovalID: w.Approval}
}
