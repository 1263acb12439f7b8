package workers

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/tracing"
)

// stopPoll is the interval at which a running step checks for a stop request. Hints arrive at once but may be
// lost.
const stopPoll = 5 * time.Second

// interruptedText is the outcome of calls that an interruption leaves open.
const interruptedText = "run interrupted"

// watch applies stop requests, and ends a run that another worker has taken over, until the returned function is called. halt cancels the agent.
func (t *Turn) watch(ctx context.Context, halt context.CancelCauseFunc) (func(), error) {
	before := t.run.Position()
	return t.w.watchStop(t.cmd, func(polled bool) (ended bool) {
		// A write returns chunk.ErrFenced by itself.
		if at := t.run.Position(); at != before {
			before = at
		} else if polled && t.endIfSuperseded(ctx, halt) {
			return true
		}
		if err := t.readStop(ctx); err != nil {
			t.log.WarnContext(ctx, "stop request not read", "error", err)
			return false
		}
		t.applyStop(halt)
		return false
	})
}

// watchStop calls check when the inbox of the run of c may have a stop request, and once per stopPoll, until check returns true
// or the returned function is called. That function waits for a running check.
func (w *Workers) watchStop(c control.Command, check func(polled bool) (ended bool)) (func(), error) {
	hints, unsubscribe, err := w.inbox.Watch(c.Session, c.RunID)
	if err != nil {
		return nil, err
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(w.stopPoll)
		defer tick.Stop()
		for {
			polled := false
			select {
			case <-hints:
			case <-tick.C:
				polled = true
			case <-done:
				return
			}
			if check(polled) {
				return
			}
		}
	}()
	return func() {
		unsubscribe()
		close(done)
		<-ended
	}, nil
}

// endIfSuperseded cancels the agent if another worker has taken the run over. Without it:
//  1. The agent waits for a model, for an hour, and its worker A is frozen for longer than the lease.
//  2. Worker B takes the run over, and crashes.
//  3. Worker A is still waiting for the model, and so keeps the command in progress: no worker gets it.
func (t *Turn) endIfSuperseded(ctx context.Context, halt context.CancelCauseFunc) bool {
	last, err := t.w.last.Last(ctx, t.cmd.Session)
	if err == nil {
		err = t.checkFenced(last.Epoch, last.Seq)
	}
	if !errors.Is(err, chunk.ErrFenced) {
		return false // also if the log cannot be read: the next tick tries again
	}
	t.log.WarnContext(ctx, "run taken over by another worker", "error", err)
	_ = t.recordWriteErr(err) // conclude returns it
	t.cancel(halt, err)
	return true
}

// readStop reads the stop request of the run from the inbox.
func (t *Turn) readStop(ctx context.Context) error {
	stop, wanted, err := t.w.inbox.StopRequest(ctx, t.cmd.Session, t.cmd.RunID)
	if err != nil || !wanted {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop = stop
	return nil
}

// applyStop cancels the agent and its running step, which may have a context of its own.
func (t *Turn) applyStop(halt context.CancelCauseFunc) {
	switch t.stopped() {
	case control.StopAbort:
		t.cancel(halt, ErrAborted)
	case control.StopInterrupt:
		t.cancel(halt, ErrInterrupted)
	}
}

// cancel ends the contexts of the agent and of its running step.
func (t *Turn) cancel(halt context.CancelCauseFunc, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	halt(cause)
	if t.cancelStep != nil {
		t.cancelStep(cause)
	}
}

// checkStop ends the turn between two steps if a stop was requested.
func (t *Turn) checkStop(ctx context.Context) error {
	if err := t.readStop(ctx); err != nil {
		return t.recordWriteErr(err)
	}
	switch t.stopped() {
	case control.StopAbort:
		return t.finishTurn(ErrAborted)
	case control.StopInterrupt:
		return t.finishTurn(ErrInterrupted)
	}
	return nil
}

func (t *Turn) stopped() control.StopKind { return t.stopRequest().Kind }

// stopRequest returns the stop request that was read last, the zero Stop if there is none.
func (t *Turn) stopRequest() control.Stop {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stop
}

// commitInterrupted commits the output of a step that was interrupted.
func (t *Turn) commitInterrupted(s *Step) error {
	if s.writeErr != nil && t.lastWriteErr() == nil {
		// A chunk that was not queued was not visible to any reader.
		if _, err := t.run.Flush(t.writeCtx); err != nil {
			t.log.WarnContext(t.writeCtx, "end of interrupted step not stored", "error", err)
		}
	}
	if err := t.completeOpenCalls(t.writeCtx, s.number, CodeAborted, interruptedText); err != nil {
		return err
	}
	s.mu.Lock() // an abandoned agent may still call the step
	s.finish, s.final = "other", false
	for _, c := range s.calls {
		c.callState = done
	}
	s.mu.Unlock()
	return t.writeStepEnd(s)
}

// completeOpenCalls writes the same error as the outcome of every open call, at a step.
func (t *Turn) completeOpenCalls(ctx context.Context, step int64, code, text string) error {
	if err := t.refresh(ctx); err != nil {
		return err
	}
	calls := t.snap.OpenCalls()
	for _, c := range calls {
		if err := t.completeCall(ctx, step, c, failedAnswer(code, text)); err != nil {
			return err
		}
	}
	if len(calls) == 0 {
		return nil
	}
	return t.refresh(ctx)
}

// interrupt ends the run and keeps its output.
func (t *Turn) interrupt(ctx context.Context) error {
	if s := t.failedStep; s != nil { // the agent was abandoned in it, or returned before a retry
		if err := t.commitInterrupted(s); err != nil {
			return err
		}
		t.failedStep = nil
	}
	if err := t.completeOpenCalls(ctx, t.step, CodeAborted, interruptedText); err != nil {
		return err
	}
	if err := t.storeParams(ctx, suspendedStep, nil); err != nil {
		return err
	}
	b := chunk.RunInterrupted{RunID: t.cmd.RunID, CheckpointID: t.snap.CheckpointID}
	if reason := t.stopRequest().Reason; reason != "" {
		b.Reason = &reason
	}
	if err := t.emit(ctx, t.step, b, control.ByMember(t.stopRequest().By)...); err != nil {
		return err
	}
	t.trace.outcome = runInterrupted
	return t.recordWriteErr(t.run.End(ctx, nil))
}

// abortError returns the error of an aborted run.
func abortError(reason string) *Error {
	text := "run aborted"
	if reason != "" {
		text += ": " + reason
	}
	return &Error{Message: text, Code: CodeAborted}
}

// fail fails the run. Its open calls get an outcome first, because models reject a history with a call that
// has none.
func (t *Turn) fail(ctx context.Context, err error) error {
	step := t.step
	if t.failedStep != nil {
		step = t.failedStep.number
	}
	d := detail(err, "internal error")
	code := *d.Code
	if code != CodeAborted {
		t.log.ErrorContext(ctx, "run failed", "error", err)
	}
	if err := t.completeOpenCalls(ctx, step, CodeAborted, "run ended before the call"); err != nil && !isRejected(err) {
		return err
	}
	t.trace.outcome = runFailed
	tracing.Fail(t.trace.Span, code)
	return t.recordWriteErr(t.run.Fail(ctx, d.Message, &d))
}
