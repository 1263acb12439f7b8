package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// Step writes the output of an agent in one step. Its methods, and those of its Calls, may be called
// concurrently until the step's function returns; after that they fail.
//
// A method that returns nil has queued its chunk. The step is committed when all of its chunks are stored.
// chunk.ErrInvalid reports a chunk that the chunk schema does not allow; the step may continue without it.
// Return every other error: the step cannot be committed.
type Step struct {
	turn      *Turn
	number    int64
	id        string
	span      trace.Span
	startedAt int64 // when its function was called, in Unix milliseconds

	mu       sync.RWMutex // guards the fields below; read-locked while a chunk is queued
	closed   bool
	started  bool        // step_start is written
	writeErr error       // a chunk was not queued: the step cannot be committed
	calls    []*Call     // of this step, and approved calls of earlier steps
	state    chunk.Value // the custom state, with the changes of this step
	usage    *chunk.Usage
	model    chunk.Model
	finish   string
	final    bool
}

// errClosed reports a write after the function of the step has returned.
var errClosed = errors.New("step closed")

// Number returns the number of the step in its turn, from 1.
func (s *Step) Number() int { return int(s.number) }

// Text writes a piece of the answer.
func (s *Step) Text(ctx context.Context, piece string) error {
	return s.write(ctx, chunk.TextDelta{Delta: piece})
}

// Think writes a piece of reasoning. The next chunk of another kind ends the block, and so does a chunk.Thinking that is complete.
func (s *Step) Think(ctx context.Context, piece string) error {
	return s.write(ctx, chunk.Thinking{Content: piece})
}

// Custom writes an event of the application: a name and any JSON value.
func (s *Step) Custom(ctx context.Context, name string, data any) error {
	v, err := chunk.ValueOf(data)
	if err != nil {
		return err
	}
	return s.write(ctx, chunk.Custom{EventName: name, Data: v})
}

// Emit writes any chunk for which Step has no method, such as a chunk.SourceURL or a chunk.File. chunk.ErrInvalid reports a chunk that the SDK owns: records
// of the stream (run_started to truncated), and those that start, end or commit a step. A tool call that is
// written with Emit must get its outcome in the same step. extra are members of the chunk that the chunk schema does not have; a
// state_patch has none.
func (s *Step) Emit(ctx context.Context, body chunk.Body, extra ...chunk.Member) error {
	if body == nil {
		return fmt.Errorf("emit nil: %w", chunk.ErrInvalid)
	}
	typ := chunk.Chunk{Body: body}.Type()
	switch typ {
	case chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeCheckpointCreated, chunk.TypeStepCommitted:
		return fmt.Errorf("emit %s: %w: reserved for the SDK", typ, chunk.ErrInvalid)
	}
	if typ.Control() {
		return fmt.Errorf("emit %s: %w: reserved for the SDK", typ, chunk.ErrInvalid)
	}
	if patch, ok := body.(chunk.StatePatch); ok {
		return s.patchState(ctx, patch)
	}
	return s.write(ctx, body, extra...)
}

// patchState writes a patch of the custom state and applies it to the step's copy.
func (s *Step) patchState(ctx context.Context, patch chunk.StatePatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, err := applyPatch(s.state, patch.Patches)
	if err != nil {
		return fmt.Errorf("emit %s: %w: patch does not apply to the state: %w", chunk.TypeStatePatch, chunk.ErrInvalid, err)
	}
	if err := s.queue(ctx, patch); err != nil {
		return err
	}
	s.state = to
	return nil
}

// ReportError writes an error that does not end the run. It stores the same parts of err as a failure of the
// run does, see Error.
func (s *Step) ReportError(ctx context.Context, err error) error {
	d := detail(err, "something went wrong")
	return s.write(ctx, chunk.Error{Error: d.Message, Code: d.Code, ErrorDetail: &d, Recoverable: *d.Retryable})
}

// SetState sets the session's custom state to v, which must be encoded as a JSON object or array. It writes
// the difference to the current state as RFC 6902 operations, and nothing if there is none.
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

// State returns the custom state with the changes of this step.
func (s *Step) State() chunk.Value {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state
}

// Output sets the structured output of the run, any JSON value, and calls MarkFinal.
func (s *Step) Output(ctx context.Context, v any) error {
	out, err := chunk.ValueOf(v)
	if err != nil {
		return err
	}
	s.MarkFinal()
	return s.write(ctx, chunk.Output{Output: out})
}

// MarkFinal marks the step as the last one. After its commit the run completes, even if the worker crashes
// first; the agent is not called again. The mark has no effect on a step that waits for an answer.
func (s *Step) MarkFinal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = s.final || !s.closed
}

// Usage sets the token counts of the step, and what the provider charged for it. chunk.ErrInvalid reports values
// that step_end cannot hold; those of an earlier call remain.
func (s *Step) Usage(u chunk.Usage) error {
	if err := checkEnd(chunk.StepEnd{Usage: &u}); err != nil {
		return err
	}
	return s.set(func() { s.usage = &u })
}

// set changes the step, unless its function has returned.
func (s *Step) set(change func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	change()
	return nil
}

// Model sets the model of the step, as the provider names it. A name that step_end cannot hold is left out, see chunk.LabelOf.
func (s *Step) Model(m chunk.Model) error {
	return s.set(func() { s.model = m })
}

// SetFinishReason sets why the model stopped: "stop", "length", "tool-calls", "content-filter", "error" or
// "other". The default is "tool-calls" for a step with calls and "stop" otherwise. chunk.ErrInvalid reports any
// other reason; that of an earlier call remains.
func (s *Step) SetFinishReason(reason string) error {
	if err := checkEnd(chunk.StepEnd{FinishReason: &reason}); err != nil {
		return err
	}
	return s.set(func() { s.finish = reason })
}

// checkEnd returns the error with which step_end would be rejected at the end of the step, after the model and the
// tools were called.
func checkEnd(end chunk.StepEnd) error {
	return chunk.Chunk{AgentID: "a", AgentType: "a", Body: end}.Validate()
}

// write queues a chunk of the step, after its step_start.
func (s *Step) write(ctx context.Context, body chunk.Body, extra ...chunk.Member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(ctx, body, extra...)
}

// queue is write with the lock held. Chunks of a step are ordered, so concurrent writers block each other;
// they block while the queue of the run is full.
func (s *Step) queue(ctx context.Context, body chunk.Body, extra ...chunk.Member) error {
	if s.closed {
		return errClosed
	}
	if s.writeErr != nil {
		return s.writeErr
	}
	if !s.started {
		if err := s.emit(ctx, s.start()); err != nil {
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
		_ = s.turn.recordWriteErr(err) // the same error is returned below
	}
	s.writeErr = err
	return err
}

// openStep starts the next step.
func (t *Turn) openStep(halt context.CancelCauseFunc) *Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.step + 1
	s := &Step{turn: t, number: n, id: stepID(t.cmd.RunID, n), state: t.state(), startedAt: t.w.cfg.now().UnixMilli()}
	for _, c := range t.snap.OpenCalls() {
		if c.Approved {
			s.calls = append(s.calls, &Call{step: s, id: c.ID, name: c.ToolName, input: (&expander{Turn: t}).value(c.Input), approval: c.ApprovalID, callState: pendingOwn, approved: true})
		}
	}
	t.cancelStep, t.current = halt, s
	return s
}

// close rejects later writes. It blocks while a chunk is being queued.
func (s *Step) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// hasPendingCalls reports whether the step has calls that a browser, a user or another agent completes.
func (s *Step) hasPendingCalls() bool {
	return slices.ContainsFunc(s.calls, func(c *Call) bool { return c.callState == pendingOther })
}

// commit ends the step. All of it is stored when commit returns nil or ErrSuspended.
func (t *Turn) commit(s *Step) error {
	err := s.checkComplete()
	if err == nil {
		err = t.writeStepEnd(s)
	}
	switch {
	case err != nil:
		t.failedStep = s
		return err
	case s.hasPendingCalls() && t.stopped() == control.StopInterrupt:
		return t.finishTurn(ErrInterrupted) // do not ask the user again
	case s.hasPendingCalls():
		return t.finishTurn(ErrSuspended)
	}
	return nil
}

// checkComplete returns the reason why the step cannot be committed, nil if there is none.
func (s *Step) checkComplete() error {
	if s.writeErr != nil {
		return s.writeErr
	}
	for _, c := range s.calls {
		if c.callState != done && c.callState != pendingOther {
			return &Error{
				Message: fmt.Sprintf("tool call %.80q without outcome", c.name), Code: CodeInternal,
				Cause: fmt.Errorf("step %d, call %q: want End, Fail, Reject, AskClient, AskApproval or Delegate", s.number, c.id),
			}
		}
	}
	return nil
}

// writeStepEnd writes the end of a step and its checkpoint, and waits until they are stored.
func (t *Turn) writeStepEnd(s *Step) error {
	ctx, checkpoint := t.writeCtx, s.checkpoint()
	if !s.started {
		if err := t.emit(ctx, s.number, s.start()); err != nil {
			return err
		}
	}
	if err := t.emit(ctx, s.number, s.end()); err != nil {
		return err
	}
	if err := t.emit(ctx, s.number, chunk.CheckpointCreated{RunID: t.cmd.RunID, CheckpointID: checkpoint, StepCount: s.number}); err != nil {
		return err
	}
	var extra []chunk.Member
	last := s.final && !s.hasPendingCalls()
	if last {
		extra = []chunk.Member{{Name: memberFinal, Value: chunk.Value("true")}}
	}
	if err := t.emit(ctx, s.number, chunk.StepCommitted{RunID: t.cmd.RunID, StepID: s.id, CheckpointID: checkpoint}, extra...); err != nil {
		return err
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	if t.committed != nil {
		t.committed()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step, t.final = s.number, last
	return nil
}

// memberFinal marks the step_committed of a final step.
const memberFinal = "final"

func (s *Step) checkpoint() string {
	return checkpointID(s.turn.cmd.Session, s.turn.cmd.RunID, s.turn.run.Epoch(), s.number)
}

func (s *Step) start() chunk.StepStart {
	return chunk.StepStart{StepID: &s.id, StartedAt: &s.startedAt}
}

func (s *Step) end() chunk.StepEnd {
	reason := s.finish
	if reason == "" {
		reason = "stop"
		if slices.ContainsFunc(s.calls, func(c *Call) bool { return !c.approved }) {
			reason = "tool-calls"
		}
	}
	end := chunk.StepEnd{StepID: &s.id, Usage: s.usage, FinishReason: &reason}
	s.model.AddTo(&end)
	return end
}
