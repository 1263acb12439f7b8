package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/tracing"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

const (
	modeExecute  = "execute"
	modeTakeover = "takeover"
	modeContinue = "continue"
	modeMessage  = "with_message"

	// modeConclude starts a suspended run in order to end it. The mode is stored because the worker may
	// crash, and its command belongs to another run: the next worker must not treat this run as active.
	modeConclude = "conclude"
)

// startOrResume starts the run of a command that has not been started.
func (j *commandJob) startOrResume(ctx context.Context, snap fold.Snapshot) error {
	c := j.cmd
	concluding := snap.Run.Status == fold.RunRunning && snap.Run.Mode == modeConclude && opensTurn(c)
	if snap.Run.Status == fold.RunRunning && snap.Run.ID != "" && !concluding {
		return fmt.Errorf("%w: %s", errBusy, snap.Run.ID)
	}
	started := chunk.RunStarted{RunID: c.RunID, Mode: modeExecute, Input: c.Input, By: c.By}
	if c.Parent != nil {
		started.Parent = &chunk.Parent{SessionID: c.Parent.Session, CallID: c.Parent.CallID}
	}
	if c.Kind == control.Resume && !concluding {
		stale, err := j.isObsolete(ctx, snap)
		if err != nil {
			return err
		}
		if stale {
			return j.completeEmpty(ctx, snap)
		}
		started.Mode, started.CheckpointID, started.Parent = modeOf(c), snap.CheckpointID, snap.Run.Parent
	}
	if concluding || opensTurn(c) && snap.Status == fold.Paused && len(snap.OpenCalls()) > 0 {
		// The outcomes of open calls must precede the next input.
		if err := j.conclude(ctx, snap); err != nil {
			return err
		}
		return errRetry
	}
	var rejected error
	if started.Input, rejected = j.w.withUploads(ctx, snap, replacementInput(snap, c, started.Input)); rejected != nil && !isRejected(rejected) {
		return rejected
	}
	t, err := j.start(ctx, snap, started)
	if isRejected(err) {
		started.Input, rejected = nil, err // published by another program, without the check of the edge
		t, err = j.start(ctx, snap, started)
	}
	if errors.Is(err, producers.ErrSessionLimit) { // not even the start of a run fits: no worker can do more
		j.w.cfg.Log.WarnContext(ctx, "run not started", "session", c.Session.String(), "error", err)
		return j.completeEmpty(ctx, snap)
	}
	if err != nil {
		return err
	}
	defer t.close()
	if rejected == nil && c.Kind == control.Resume {
		rejected = t.openResumed(ctx, snap)
	}
	if rejected != nil {
		return t.failRejected(ctx, rejected)
	}
	return t.runAgent(ctx, j.agent)
}

// openResumed writes the first records of a resumed run. before is the snapshot of the run that it continues.
func (t *Turn) openResumed(ctx context.Context, before fold.Snapshot) error {
	if !opensTurn(t.cmd) {
		t.step = before.Run.Step
	}
	if err := t.emitResumed(ctx, before); err != nil {
		return err
	}
	if err := t.loadParams(ctx, before.Run.StartSeq); err != nil {
		return err
	}
	return t.writeAnswers(ctx, t.cmd.Resumes)
}

func opensTurn(c control.Command) bool {
	return c.Kind == control.Execute || len(c.Input) > 0
}

func modeOf(c control.Command) string {
	switch {
	case c.Mode != "" && c.Mode != modeExecute && c.Mode != modeTakeover:
		return c.Mode
	case len(c.Input) > 0:
		return modeMessage
	}
	return modeContinue
}

// isObsolete reports a Resume without a run to resume: the session has a newer run, or an answer is missing.
// A command with user input is never obsolete.
func (j *commandJob) isObsolete(ctx context.Context, snap fold.Snapshot) (bool, error) {
	c := j.cmd
	switch {
	case opensTurn(c):
		return false, nil // calls without an answer get CodeAbandoned
	case snap.Run.ID != c.Resumes:
	case snap.Run.Status == fold.RunInterrupted:
		return false, nil
	case snap.Run.Status == fold.RunSuspended:
		open, err := j.w.unanswered(ctx, snap)
		return len(open) > 0, err
	}
	j.w.cfg.Log.InfoContext(ctx, "resume skipped: run is not resumable",
		"session", c.Session.String(), "run", c.Resumes, "latest", snap.Run.ID, "status", string(snap.Run.Status))
	return true, nil
}

// completeEmpty completes a command that has nothing to do. Another client may have relied on that command:
//  1. A Resume is early: its worker reads the answers, and one is missing.
//  2. The answer is stored, and its client requests the Resume, which is on the queue already.
//  3. The worker acknowledges the early Resume, and the run is not resumed.
//
// The same holds for an abort of the suspended run, which its client or the worker of the parent stores in step 2.
//
// So the session is checked again after the acknowledgement. A later request is queued as a new command. It is also checked before: this worker may crash
// between the two, and the client may have relied on the command for all of the time that it waited to be redelivered.
//
// A Resume that is not early any more is not acknowledged either: the acknowledgement could reach the queue after another worker,
// to which it was redelivered, has begun to resume the run.
func (j *commandJob) completeEmpty(ctx context.Context, snap fold.Snapshot) error {
	if j.cmd.Kind == control.Resume && j.cmd.Resumes == snap.Run.ID && runPhase(snap, snap.Run.ID) == phaseSuspended {
		if open, err := j.w.unanswered(ctx, snap); len(open) == 0 || err != nil {
			return cmp.Or(err, errRetry)
		}
	}
	if err := j.w.continueSuspended(ctx, snap); err != nil {
		return err
	}
	return control.AfterAck{Func: func(ctx context.Context) error {
		snap, err := j.w.snapshot(ctx, j.cmd.Session)
		if err != nil {
			return err
		}
		return j.w.continueSuspended(ctx, snap)
	}}
}

// replacementInput returns the input of a turn that replaces earlier messages. Without new input it repeats
// the input of the replaced answer.
func replacementInput(snap fold.Snapshot, c control.Command, input []chunk.InputMessage) []chunk.InputMessage {
	first, ok := fold.MessageIndex(c.Replaces)
	if !ok || c.Replaces == "" {
		return input
	}
	if len(input) == 0 {
		for _, in := range slices.Backward(snap.Inputs()) {
			if in.Index == first-1 {
				first--
				input = slices.Insert(input, 0, in.Message)
			}
		}
	}
	if len(input) == 0 || slices.ContainsFunc(input[0].Extra, func(m chunk.Member) bool { return m.Name == fold.ReplacesMember }) {
		return input
	}
	input = slices.Clone(input)
	input[0].Extra = append(slices.Clone(input[0].Extra), chunk.Member{Name: fold.ReplacesMember, Value: chunk.Value(fmt.Sprintf("%q", fold.MessageID(first)))})
	return input
}

// start starts the run after the position of snap.
func (j *commandJob) start(ctx context.Context, snap fold.Snapshot, started chunk.RunStarted) (*Turn, error) {
	c := j.cmd
	ctx, span := j.startRun(ctx, &started)
	opts := []producers.StartOption{producers.AgentType(c.AgentType), producers.ExpectPosition(snap.Position), producers.TraceParent(tracing.Parent(ctx))}
	if started.Mode == modeConclude {
		opts = append(opts, producers.TakeOver())
	}
	if started.RunID == snap.Run.ID {
		opts = append(opts, producers.KeepInput())
	}
	run, err := j.w.producer.Start(ctx, c.Session, started, opts...)
	if err != nil {
		span.notStarted()
		return nil, err
	}
	t := &Turn{
		trace: span, w: j.w, cmd: c, run: run, writeCtx: ctx, serveCtx: j.serveCtx, params: c.Params, snap: snap, ids: map[string]bool{},
		log: j.w.cfg.Log.With("session", c.Session.String(), "run", started.RunID, "epoch", uint64(run.Epoch())),
	}
	t.cmd.RunID = started.RunID
	if err := t.refresh(ctx); err != nil {
		t.close()
		return nil, err
	}
	if t.cleanupMinSeq = t.snap.Run.StartSeq; t.cleanupMinSeq == 0 {
		t.cleanupMinSeq = run.Position().Seq // 0 would let a clean-up remove records of earlier turns
	}
	return t, nil
}

// close releases the writer. Queued chunks may be dropped, because the log decides about the run.
func (t *Turn) close() {
	_ = t.run.Close()
	t.endTrace()
}

// emitResumed writes run_resumed with the checkpoint to continue from.
func (t *Turn) emitResumed(ctx context.Context, before fold.Snapshot) error {
	return t.emit(ctx, t.step, chunk.RunResumed{
		RunID: before.Run.ID, FromCheckpointID: before.CheckpointID, FromStepCount: t.step, Mode: modeOf(t.cmd),
	})
}

// takeOver continues a run whose worker has crashed or does not respond.
func (j *commandJob) takeOver(ctx context.Context, snap fold.Snapshot) error {
	lost, err := j.lostWorkers(ctx, snap)
	if err != nil {
		return err
	}
	crashed := lost > max(0, j.w.cfg.MaxTakeovers)
	release := func() {}
	if lost > 0 && !crashed { // otherwise the agent is not called
		if release, err = j.awaitSuspect(lost > 1); err != nil {
			return err
		}
	}
	defer release()
	started := chunk.RunStarted{RunID: j.cmd.RunID, Mode: modeTakeover, CheckpointID: snap.CheckpointID, Parent: snap.Run.Parent}
	t, err := j.start(ctx, snap, started)
	if err != nil {
		return err
	}
	defer t.close()
	t.committed = release
	if lacksStart(snap) {
		t.cleanupMinSeq = 0 // the log has no record of an earlier run either
	}
	if err := t.recover(ctx); err != nil {
		return t.failRejected(ctx, err)
	}
	if crashed {
		return t.conclude(ctx, errRunCrashed(lost))
	}
	if lost > 1 {
		t.restartDelay = j.w.restart.Delay(lost - 1)
	}
	return t.runAgent(ctx, j.agent)
}

// recover returns to the last committed step of the run.
func (t *Turn) recover(ctx context.Context) error {
	done, err := t.progress(ctx)
	if err != nil {
		return err
	}
	t.step, t.final = done.step, done.final
	if done.final {
		t.output = done.output
	}
	if err := t.cleanUp(ctx, "crash_recovery"); err != nil {
		return err
	}
	t.log.InfoContext(ctx, "run taken over", "step", t.step)
	if t.cmd.Kind != control.Resume {
		return nil
	}
	return t.resumeRun(ctx, done)
}

// resumeRun completes the start of a resumed run, which the previous worker may have begun.
func (t *Turn) resumeRun(ctx context.Context, done progress) error {
	if !done.resumed {
		before := t.snap
		before.Run.ID = t.cmd.Resumes
		if err := t.emitResumed(ctx, before); err != nil {
			return err
		}
	}
	if t.params.IsNull() {
		t.params = done.params
	}
	for _, past := range t.snap.PastRuns {
		if past.ID != t.cmd.Resumes {
			continue
		}
		if err := t.loadParams(ctx, past.StartSeq); err != nil {
			return err
		}
	}
	return t.writeAnswers(ctx, t.cmd.Resumes)
}

// runAgent calls the agent of a started run, and ends or suspends the run.
func (t *Turn) runAgent(ctx context.Context, agent Agent) error {
	ctx = trace.ContextWithSpan(ctx, t.trace.Span)
	work, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	unwatch, err := t.watch(ctx, abort)
	if err != nil {
		return err
	}
	err = t.callOrAbandon(work, agent)
	unwatch()
	return t.conclude(ctx, err)
}

// callAgent calls the agent, unless the run is already suspended or final.
func (t *Turn) callAgent(ctx context.Context, agent Agent) (err error) {
	switch {
	case len(conversation.PendingCalls(t.snap, t.cmd.RunID)) > 0:
		// The previous worker crashed between the commit of the step and the pause.
		return t.finishTurn(ErrSuspended)
	case t.final:
		return nil
	}
	if err := t.checkStop(t.writeCtx); err != nil {
		return err
	}
	if err := t.delayRestart(ctx); err != nil {
		return err
	}
	t.stopChecked = true
	defer func() {
		if p := recover(); p != nil {
			t.log.ErrorContext(ctx, "agent panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	t.exitSDK()
	return agent.Answer(ctx, t)
}

// conclude ends or suspends the run after its agent has returned err.
func (t *Turn) conclude(ctx context.Context, err error) error {
	if err := t.lastWriteErr(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil, errors.Is(t.outcome, ErrStopping):
		t.leave(ctx)
		if err := t.lastWriteErr(); errors.Is(err, chunk.ErrFenced) {
			return err // the command stays with the worker that has the run
		}
		return fmt.Errorf("run %s: %w", t.cmd.RunID, ErrStopping)
	case errors.Is(t.outcome, ErrAborted), t.stopped() == control.StopAbort:
		err = t.fail(ctx, abortError(t.stopRequest().Reason))
	case errors.Is(t.outcome, ErrInterrupted):
		err = t.interrupt(ctx)
	case errors.Is(t.outcome, ErrSuspended):
		if err = t.suspend(ctx); err == nil {
			return nil
		}
	case err == nil || t.final:
		err = t.end(ctx)
	case t.stopped() == control.StopInterrupt: // between two steps, or the agent was abandoned
		err = t.interrupt(ctx)
	default:
		err = t.fail(ctx, err)
	}
	if err != nil {
		return t.failRejected(ctx, err)
	}
	return t.afterEnd(ctx)
}

// failRejected fails the run if err is that of a record that no worker can store, and otherwise returns err.
func (t *Turn) failRejected(ctx context.Context, err error) error {
	if !isRejected(err) {
		return err
	}
	if err := t.fail(ctx, err); err != nil {
		return err
	}
	return t.afterEnd(ctx)
}

// afterEnd answers the call of the parent, and starts a message that waits.
func (t *Turn) afterEnd(ctx context.Context) error {
	if t.snap.Run.Parent == nil {
		return t.w.startQueued(ctx, t.cmd.Session, func() (fold.Snapshot, error) {
			err := t.refresh(ctx)
			return t.snap, err
		})
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	return t.w.afterEnd(ctx, t.snap, t.cmd.RunID)
}

// end completes the run.
func (t *Turn) end(ctx context.Context) error {
	if t.failedStep != nil {
		// The agent ignored the error of its last step, so the output of that step is removed.
		if err := t.rollBackStep(); err != nil {
			return err
		}
	}
	for _, c := range t.snap.OpenCalls() {
		if c.Approved {
			return t.fail(ctx, fmt.Errorf("approved call %q not run", c.ID))
		}
	}
	output := t.snap.Run.Output
	if len(output) == 0 {
		output = t.output
	}
	t.trace.outcome = runCompleted
	return t.recordWriteErr(t.run.End(ctx, output))
}
