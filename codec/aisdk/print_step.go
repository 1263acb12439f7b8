package aisdk

import (
	"cmp"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/turn"
)

// steps is the state of the steps of the agent.
type steps struct {
	begun bool // a step began that has no output yet
	open  bool // start-step was written, finish-step was not

	// questions has the calls since the last start-step that the client must answer. Its predicates check the parts after that one: without another start-step
	// they would find the answered calls each time, and post indefinitely.
	questions []*call

	number uint64 // of start-steps

	beganAt    chunk.Ordinal // record of the latest step_start
	startedAt  chunk.Ordinal // record of the step_start for which start-step was written
	firstAt    chunk.Ordinal // record of the first part after it
	producedAt chunk.Ordinal // latest record with output in the message, besides texts
	unclear    bool          // a sub-agent has output in the step
	kept       bool          // reset-step left the step-start of a removed step
}

// stepStart begins a step. start-step is written with its first output: the snapshot has none for a step without output.
func (p *printer) stepStart(f *turn.Frames, e *turn.Event) {
	if e.Again || !e.Agent.Own() {
		return
	}
	p.finishStep(f, e)
	p.steps.begun, p.steps.beganAt = true, e.Item.Rec.Ordinal
}

func (p *printer) stepEnd(f *turn.Frames, e *turn.Event) {
	if !e.Agent.Own() {
		return
	}
	p.finishStep(f, e)
	p.steps.begun = false
	if reason := e.Item.Text("finishReason"); reason != "" {
		p.reason = p.opt.reason(reason)
	}
}

// beginPart is called before a part is written. The first part of a step of the message's own agent writes start-step.
func (p *printer) beginPart(f *turn.Frames, e *turn.Event) {
	p.markVisible(e)
	if e.Item.By.Own() && p.steps.begun {
		p.finishStep(f, e) // see separateStep
		p.startStep(f, e)
	}
}

// markVisible records that a record has output in the message.
func (p *printer) markVisible(e *turn.Event) {
	if e.Item.By.Own() {
		p.steps.producedAt = e.Item.Rec.Ordinal
	} else {
		p.steps.unclear = true
	}
}

func (p *printer) startStep(f *turn.Frames, e *turn.Event) {
	at, _, _ := e.Turn.Ordinals()
	if !p.steps.kept {
		f.Open("start-step")
		f.Shut()
	}
	p.steps = steps{
		number: p.steps.number + 1,
		open:   true, beganAt: p.steps.beganAt, startedAt: p.steps.beganAt,
		firstAt: at, producedAt: p.steps.producedAt,
	}
}

// finishStep ends the step that was written. A text can be open in a step that a question of a sub-agent begins. finish-step makes clients of version 6 discard the
// open texts of all agents.
func (p *printer) finishStep(f *turn.Frames, e *turn.Event) {
	if p.steps.open {
		e.Turn.CloseTexts()
		f.Open("finish-step")
		f.Shut()
	}
	p.steps.open = false
}

// separateStep begins a step for a request of a sub-agent, if the current step has the call that waits for the sub-agent. The client's predicate for
// approvals requires an outcome of every call since the last start-step, so it would never post a decision. If an earlier request of the step is open, the
// step continues, because otherwise the client would post without an answer to it.
func (p *printer) separateStep(f *turn.Frames, e *turn.Event) {
	waits := func(c *turn.Call) bool { return c.Delegated && c.Mark[0] == p.steps.number }
	if slices.ContainsFunc(p.steps.questions, (*call).unanswered) || !slices.ContainsFunc(e.Turn.OpenCalls(), waits) {
		return
	}
	begun := p.steps.begun
	p.finishStep(f, e)
	p.startStep(f, e)
	p.steps.begun = begun
}

// separate writes an empty step after calls that the client had to answer, if one of them was answered and the answer ends with them, successfully or not.
// Otherwise the client's predicates return true at the end, and it posts indefinitely. After an error it does not post at first, but:
//  1. the browser's own call is answered, an approval of the same step is still open,
//  2. the client posts, because its predicate for calls ignores calls that run on the server,
//  3. the run fails, and the client stops posting, as after every error,
//  4. the user decides the approval. Version 6 evaluates the predicate although the request no longer exists, finds the answered call, and posts to a run
//     that is over.
//
// A client passes a start-step to its application with the next change only, so the last answer is written again.
func (p *printer) separate(f *turn.Frames, e *turn.Event) {
	for _, c := range slices.Backward(p.steps.questions) {
		if c.again != nil {
			p.finishStep(f, e)
			p.startStep(f, e)
			f.Again(c.again)
			return
		}
	}
}

// end writes the end of a response.
func (p *printer) end(f *turn.Frames, e *turn.Event) {
	if e.Kind != turn.Pause && e.Item != nil {
		p.separate(f, e) // clients treat all these ends alike
	}
	p.finishStep(f, e)
	if e.Quiet {
		return
	}
	p.start(f)
	switch {
	case e.Kind == turn.Fail:
		p.failure(f, e)
	case e.Reason == turn.Aborted:
		f.Open("abort")
		if p.opt.Major >= 7 {
			f.Raw("reason", e.Item.Get("error"))
		}
		f.Shut()
	default:
		p.finish(f, e)
	}
	f.Mark("[DONE]")
}

// failure writes an error that ends the response. Clients read nothing after it.
func (p *printer) failure(f *turn.Frames, e *turn.Event) {
	f.Open("error")
	f.Raw("errorText", e.Failure)
	f.Shut()
}

func (p *printer) finish(f *turn.Frames, e *turn.Event) {
	reason := cmp.Or(p.reason, dialect.ReasonStop)
	switch {
	case e.Kind == turn.Pause || e.Reason == turn.Waiting:
		reason = dialect.ReasonToolCalls
	case e.Reason == turn.Superseded:
		reason = dialect.ReasonOther
	case e.Reason == turn.Interrupted:
		reason = p.opt.reason(reasonInterrupted)
	case e.Reason == turn.Failed:
		reason = dialect.ReasonError
	}
	f.Open("finish")
	f.String("finishReason", reason)
	f.Shut()
}

// start begins the response unless it has begun.
func (p *printer) start(f *turn.Frames) {
	if p.started {
		return
	}
	p.started = true
	f.Open("start")
	f.String("messageId", p.messageID)
	f.Shut()
	f.Bare()
}

// removed handles the removal of records: the step that a crashed worker left unfinished. Only a client of version 7 can remove its parts, and only if
// they are all parts since the last step-start; other clients get a notice and reload the message.
func (p *printer) removed(f *turn.Frames, e *turn.Event) {
	exact := p.isLastStep(e)
	p.steps.questions = slices.DeleteFunc(p.steps.questions, func(c *call) bool { return !e.Turn.HasCall(c.id) })
	for _, c := range e.Turn.OpenCalls() {
		if q := callOf(c); c.By.Own() && e.Taken(q.answeredAt) {
			q.again, q.ended = nil, false
		}
	}
	switch {
	case e.Quiet:
	case exact:
		f.Open("reset-step")
		f.Shut()
		p.steps.kept = true
		p.steps.firstAt = 0
	default:
		p.notice(f, e, "truncated", "truncatedAtStep", "fromSequence", "atSequence")
	}
}

// isLastStep reports whether the removed records are exactly those since the last start-step.
func (p *printer) isLastStep(e *turn.Event) bool {
	b, _ := chunk.BodyOf[chunk.Truncated](*e.Item.Rec)
	s := &p.steps
	_, piece, gap := e.Turn.Ordinals()
	if p.opt.Major < 7 || s.unclear || gap > s.firstAt || s.firstAt == 0 || len(b.Removed) != 1 || e.Taken(p.valueAt) {
		return false
	}
	first, last := chunk.Ordinal(b.Removed[0].First), chunk.Ordinal(b.Removed[0].Last)
	return s.startedAt > 0 && s.startedAt <= first && first <= s.firstAt && max(s.producedAt, piece) <= last
}
