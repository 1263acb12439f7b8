package workers

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/inbox"
)

// stopPoll is how often a step that is under way looks whether it is to stop.
// Hints come at once; one may be lost.
const stopPoll = 5 * time.Second

// watch listens for people who want the run to stop, until the function that it
// returns is called. abort ends the agent.
func (t *Turn) watch(ctx context.Context, abort context.CancelCauseFunc) (func(), error) {
	hints, unsubscribe, err := t.w.inbox.Watch(t.cmd.Session, t.cmd.RunID)
	if err != nil {
		return nil, err
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(stopPoll)
		defer tick.Stop()
		for {
			select {
			case <-hints:
			case <-tick.C:
			case <-done:
				return
			}
			if err := t.look(ctx); err != nil {
				t.log.WarnContext(ctx, "the inbox cannot be read; the run goes on", "error", err)
				continue
			}
			t.obey(abort)
		}
	}()
	return func() {
		unsubscribe()
		close(done)
		<-ended
	}, nil
}

// look reads from the inbox whether the run is to stop.
func (t *Turn) look(ctx context.Context) error {
	stop, wanted, err := t.w.inbox.Stopped(ctx, t.cmd.Session, t.cmd.RunID)
	if err != nil || !wanted {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop = stop
	return nil
}

// obey ends what is under way.
func (t *Turn) obey(abort context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.stop.Kind {
	case inbox.Abort:
		abort(ErrAborted)
	case inbox.Interrupt:
		if t.halt != nil {
			t.halt(ErrInterrupted)
		}
	}
}

// heed is where a run stops between two steps.
func (t *Turn) heed(ctx context.Context) error {
	if err := t.look(ctx); err != nil {
		return t.breaks(err)
	}
	switch t.stopped() {
	case inbox.Abort:
		return t.over(ErrAborted)
	case inbox.Interrupt:
		return t.over(ErrInterrupted)
	}
	return nil
}

func (t *Turn) stopped() inbox.StopKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stop.Kind
}

// cut commits what a step has said that was stopped in the middle.
func (t *Turn) cut(s *Step) error {
	if s.spoilt != nil && t.unwritable() == nil {
		// What was being queued is lost, and was not seen.
		if _, err := t.run.Flush(t.own); err != nil {
			t.log.WarnContext(t.own, "the end of an interrupted step is lost", "error", err)
		}
	}
	if err := t.settleAll(t.own, s.number, CodeAborted, "the run was interrupted"); err != nil {
		return err
	}
	s.finish, s.final = "other", false
	for _, c := range s.calls {
		c.stage = settled
	}
	return t.seal(s)
}

// settleAll gives every call that waits for an outcome the same error, at a step.
func (t *Turn) settleAll(ctx context.Context, step int64, code, text string) error {
	if err := t.refresh(ctx); err != nil {
		return err
	}
	calls := t.snap.Unsettled()
	for _, c := range calls {
		if err := t.settleOne(ctx, step, c, outcomeError(code, text)); err != nil {
			return err
		}
	}
	if len(calls) == 0 {
		return nil
	}
	return t.refresh(ctx)
}

// interrupt ends the run softly, as it stands.
func (t *Turn) interrupt(ctx context.Context) error {
	if err := t.settleAll(ctx, t.step, CodeAborted, "the run was interrupted"); err != nil {
		return err
	}
	if err := t.keepParams(ctx, suspendedStep, nil); err != nil {
		return err
	}
	b := chunk.RunInterrupted{RunID: t.cmd.RunID, CheckpointID: t.snap.CheckpointID}
	if reason := t.reason(); reason != "" {
		b.Reason = &reason
	}
	if err := t.say(ctx, t.step, b); err != nil {
		return err
	}
	return t.breaks(t.run.End(ctx, nil))
}

// abort fails the run for good. What it has said stays.
func (t *Turn) abort(ctx context.Context, reason string) error {
	text := "the run was aborted"
	if reason != "" {
		text += ": " + reason
	}
	return t.fail(ctx, &Error{Message: text, Code: CodeAborted})
}

func (t *Turn) reason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stop.Reason
}

// fail ends the run badly. Its calls that nobody will answer any more get an
// outcome first: a model that reads the history later takes no call without one.
func (t *Turn) fail(ctx context.Context, err error) error {
	step := t.step
	if t.undone != nil {
		step = t.undone.number
	}
	d := detail(err, "something went wrong while the answer was made")
	code := *d.Code
	if code != CodeAborted {
		t.log.ErrorContext(ctx, "a run failed", "error", err)
	}
	if err := t.settleAll(ctx, step, CodeAborted, "the run ended before the call did"); err != nil {
		return err
	}
	return t.breaks(t.run.Fail(ctx, d.Message, &d))
}
