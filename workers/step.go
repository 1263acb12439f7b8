package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/inbox"
)

// Step takes what an agent says and does in one step. Its methods, and those of
// its Calls, may be called from many goroutines until the step's function
// returns; then they fail.
//
// A method that returns nil has queued what it was given; the step is committed
// when all of it is stored. chunk.ErrInvalid names what the catalogue of chunks
// does not allow, and the step may go on without it. Every other error is the
// end of the step: return it.
type Step struct {
	turn   *Turn
	number int64
	id     string

	mu      sync.RWMutex // guards the fields below; read-locked while a chunk is queued
	closed  bool
	started bool        // step_start is said
	spoilt  error       // a chunk is missing: the step cannot be committed
	calls   []*Call     // of this step, and those that were granted before it
	state   chunk.Value // custom, with what this step made of it
	usage   *chunk.Usage
	finish  string
	final   bool
}

// errClosed reports a word that came after the function of its step returned.
var errClosed = errors.New("the step is over")

// Number is the number of the step in its turn, from 1.
func (s *Step) Number() int { return int(s.number) }

// Text says a piece of the answer.
func (s *Step) Text(ctx context.Context, piece string) error {
	return s.say(ctx, chunk.TextDelta{Delta: piece})
}

// Think says a piece of reasoning. Thought ends the block.
func (s *Step) Think(ctx context.Context, piece string) error {
	return s.say(ctx, chunk.Thinking{Content: piece})
}

// Thought ends the block of reasoning, with its last piece or none. Without it
// the next word that is no reasoning does.
func (s *Step) Thought(ctx context.Context, last string) error {
	return s.say(ctx, chunk.Thinking{Content: last, IsComplete: true})
}

// Custom tells an event of the application: any JSON under a name.
func (s *Step) Custom(ctx context.Context, name string, data any) error {
	v, err := chunk.ValueOf(data)
	if err != nil {
		return err
	}
	return s.say(ctx, chunk.Custom{EventName: name, Data: v})
}

// Source names a web page that the answer rests on, Document a document, File a
// file that the agent made.
func (s *Step) Source(ctx context.Context, source chunk.SourceURL) error { return s.say(ctx, source) }

// Document is described at Source.
func (s *Step) Document(ctx context.Context, source chunk.SourceDocument) error {
	return s.say(ctx, source)
}

// File is described at Source.
func (s *Step) File(ctx context.Context, file chunk.File) error { return s.say(ctx, file) }

// Report tells of an error that the answer goes on after. What is said of it is
// what would be said if the run failed with it.
func (s *Step) Report(ctx context.Context, err error) error {
	d := detail(err, "something went wrong")
	return s.say(ctx, chunk.Error{Error: d.Message, Code: d.Code, ErrorDetail: &d, Recoverable: *d.Retryable})
}

// SetState changes the session's custom state to v, which becomes a JSON object
// or array. What is said is the difference to what it is, as RFC 6902 has it; a
// v that changes nothing says nothing.
func (s *Step) SetState(ctx context.Context, v any) error {
	to, err := chunk.ValueOf(v)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ops, err := diff(s.state, to)
	if err != nil || len(ops) == 0 {
		return err
	}
	if err := s.queue(ctx, chunk.StatePatch{Patches: ops}); err != nil {
		return err
	}
	s.state = to
	return nil
}

// State is the custom state with what this step has made of it.
func (s *Step) State() chunk.Value {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state
}

// Output gives the run its structured output, any JSON, and is Final.
func (s *Step) Output(ctx context.Context, v any) error {
	out, err := chunk.ValueOf(v)
	if err != nil {
		return err
	}
	s.Final()
	return s.say(ctx, chunk.Output{Output: out})
}

// Final says that nothing follows this step. Once it is committed the run ends,
// even if the worker dies before it can say so; the agent is not called again.
// A step that has to wait for an answer is not the last, whatever it says.
func (s *Step) Final() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = true
}

// Usage sets what the model counted in this step.
func (s *Step) Usage(u chunk.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage = &u
}

// Finish sets why the model stopped: "stop", "length", "tool-calls",
// "content-filter", "error" or "other". The default is "tool-calls" for a step
// with calls and "stop" for one without.
func (s *Step) Finish(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish = reason
}

// IdempotencyKey names the side effect of a call: the same in every worker and
// every time that the call is run, another one for every other call. Give it to
// whatever must happen once, such as a payment.
func (s *Step) IdempotencyKey(callID string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	run := s.turn.cmd.RunID
	for _, c := range s.calls {
		if c.id == callID {
			run = askedBy(c.approval, run)
		}
	}
	return idempotencyKey(s.turn.cmd.Session, run, callID)
}

// say queues a chunk of the step, after its step_start.
func (s *Step) say(ctx context.Context, body chunk.Body) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(ctx, body)
}

// queue is say with the lock held. Order matters within a step, so that two
// goroutines wait for one another; what they wait for is room in memory.
func (s *Step) queue(ctx context.Context, body chunk.Body, extra ...chunk.Member) error {
	if s.closed {
		return errClosed
	}
	if s.spoilt != nil {
		return s.spoilt
	}
	if !s.started {
		if err := s.emit(ctx, chunk.StepStart{StepID: &s.id}); err != nil {
			return err
		}
		s.started = true
	}
	return s.emit(ctx, body, extra...)
}

func (s *Step) emit(ctx context.Context, body chunk.Body, extra ...chunk.Member) error {
	err := s.turn.run.Emit(ctx, chunk.Chunk{AgentType: s.turn.cmd.AgentType, Step: s.number, Body: body, Extra: extra})
	switch {
	case err == nil, errors.Is(err, chunk.ErrInvalid):
		return err
	case ctx.Err() == nil && !errors.Is(err, chunk.ErrTooLarge):
		_ = s.turn.breaks(err) // it is the error that is returned
	}
	s.spoilt = err
	return err
}

// open begins the next step.
func (t *Turn) open(halt context.CancelCauseFunc) *Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.step + 1
	s := &Step{turn: t, number: n, id: stepID(t.cmd.RunID, n), state: t.state()}
	for _, c := range t.snap.Unsettled() {
		if c.Granted {
			s.calls = append(s.calls, &Call{step: s, id: c.ID, name: c.ToolName, input: c.Input, approval: c.ApprovalID, stage: running, granted: true})
		}
	}
	t.halt, t.current = halt, s
	return s
}

// close waits for words that are being queued; later ones fail.
func (s *Step) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// waiting reports whether the step has calls that somebody else answers.
func (s *Step) waiting() bool {
	return slices.ContainsFunc(s.calls, func(c *Call) bool { return c.stage == asked })
}

// commit ends the step: when it returns nil, or ErrSuspended, the log has all of
// it.
func (t *Turn) commit(s *Step) error {
	err := s.complete()
	if err == nil {
		err = t.seal(s)
	}
	switch {
	case err != nil:
		t.undone = s
		return err
	case s.waiting() && t.stopped() == inbox.Interrupt:
		return t.over(ErrInterrupted) // who pressed stop wants no more questions
	case s.waiting():
		return t.over(ErrSuspended)
	}
	return nil
}

// complete reports what is missing in a step.
func (s *Step) complete() error {
	if s.spoilt != nil {
		return s.spoilt
	}
	for _, c := range s.calls {
		if c.stage != settled && c.stage != asked {
			return &Error{
				Message: fmt.Sprintf("the tool call %.80q was left without an outcome", c.name), Code: CodeInternal,
				Cause: fmt.Errorf("step %d, call %q: want End, Fail, Reject, or somebody who is asked", s.number, c.id),
			}
		}
	}
	return nil
}

// seal writes the end of a step and its checkpoint, and waits until the log has
// them.
func (t *Turn) seal(s *Step) error {
	ctx, checkpoint := t.own, s.checkpoint()
	if !s.started {
		if err := t.say(ctx, s.number, chunk.StepStart{StepID: &s.id}); err != nil {
			return err
		}
	}
	if err := t.say(ctx, s.number, s.end()); err != nil {
		return err
	}
	if err := t.say(ctx, s.number, chunk.CheckpointCreated{RunID: t.cmd.RunID, CheckpointID: checkpoint, StepCount: s.number}); err != nil {
		return err
	}
	var extra []chunk.Member
	last := s.final && !s.waiting()
	if last {
		extra = []chunk.Member{{Name: memberFinal, Value: chunk.Value("true")}}
	}
	if err := t.say(ctx, s.number, chunk.StepCommitted{RunID: t.cmd.RunID, StepID: s.id, CheckpointID: checkpoint}, extra...); err != nil {
		return err
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step, t.final = s.number, last
	return nil
}

// memberFinal marks the step_committed that nothing follows.
const memberFinal = "final"

func (s *Step) checkpoint() string {
	return checkpointID(s.turn.cmd.Session, s.turn.cmd.RunID, s.turn.run.Epoch(), s.number)
}

func (s *Step) end() chunk.StepEnd {
	reason := s.finish
	if reason == "" {
		reason = "stop"
		if slices.ContainsFunc(s.calls, func(c *Call) bool { return !c.granted }) {
			reason = "tool-calls"
		}
	}
	return chunk.StepEnd{StepID: &s.id, Usage: s.usage, FinishReason: &reason}
}
