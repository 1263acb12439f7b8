package workers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// Turn gives an agent its input, the history and the state, and writes its steps. Step must be called from
// one goroutine at a time. The other methods may be called concurrently; they return the state after the last
// commit.
type Turn struct {
	w   *Workers
	cmd control.Command
	run *producers.Run
	log *slog.Logger

	trace runTrace

	// writeCtx bounds the SDK's own writes: it ends Config.ShutdownTimeout after the worker began to shut
	// down. serveCtx ends when the shutdown begins.
	writeCtx, serveCtx context.Context //nolint:containedctx // lifetime of the run, which spans many calls

	params        chunk.Value
	cleanupMinSeq chunk.Seq     // the run's first run_started
	output        chunk.Value   // output of the final step of a crashed worker; run_started clears it in the fold
	outcome       error         // reason why there are no more steps, nil while there are
	failedStep    *Step         // a failed step that is not rolled back, nil if none
	stopChecked   bool          // the inbox was read since the last step
	restartDelay  time.Duration // before the agent is called, see restartBackoff
	committed     func()        // called after each committed step, nil for a run that was not taken over

	mu          sync.Mutex // guards everything below
	snap        fold.Snapshot
	messages    []fold.Message
	finished    []fold.Message          // the messages that no later record can change
	read        int                     // number of finished messages
	ids         map[string]bool         // of all calls
	toolErrors  map[string]string       // texts that the log does not have, by call; see Call.Fail
	writeErr    error                   // permanent write error: the command moves to another worker
	step        int64                   // last committed step of the turn
	final       bool                    // the last committed step was marked final
	stop        control.Stop            // the stop request, zero if none
	cancelStep  context.CancelCauseFunc // cancels the running step; nil between steps
	current     *Step                   // the latest step
	inAgentCode bool                    // the agent's code is running, not the SDK's
	abandoned   bool                    // see callOrAbandon
}

// Session returns the session of the run.
func (t *Turn) Session() chunk.Session { return t.cmd.Session }

// RunID returns the id of the run. A run that resumes a suspended one has an id of its own.
func (t *Turn) RunID() string { return t.cmd.RunID }

// AgentType returns the type that the agent is served under.
func (t *Turn) AgentType() string { return t.cmd.AgentType }

// Params returns the parameters of the run's command, null if it has none.
func (t *Turn) Params() chunk.Value { return (&expander{Turn: t}).value(t.params) }

// Input returns the user messages that opened the turn.
func (t *Turn) Input() []chunk.InputMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.cmd.Input) > 0 {
		return (&expander{Turn: t}).input(t.cmd.Input)
	}
	var in []chunk.InputMessage
	next := t.snap.TurnMessages()
	all := t.snap.Inputs()
	for _, input := range slices.Backward(all) {
		if input.Index == next-1 {
			next--
			in = slices.Insert(in, 0, input.Message)
		}
	}
	return (&expander{Turn: t}).input(in)
}

// Replaces returns the user messages that the input of this turn replaces, oldest first, and the id of the message that answered them: the same
// messages if a user asks for another answer, their earlier version if the user has edited one. It returns none in other turns.
func (t *Turn) Replaces() (input []chunk.InputMessage, answer string) {
	next, ok := fold.MessageIndex(t.cmd.Replaces)
	if !ok {
		return nil, ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range t.snap.Inputs() {
		if in.Index == next {
			next++
			input = append(input, in.Message)
		}
	}
	return input, fold.MessageID(next)
}

// Messages returns the history for a model, oldest first, with the input and the committed steps of this
// turn. The caller must not modify it.
func (t *Turn) Messages() []fold.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.messages
}

// State returns the session's custom state, {} if it was never set.
func (t *Turn) State() chunk.Value {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state()
}

func (t *Turn) state() chunk.Value {
	if t.snap.State == nil {
		return chunk.Value(emptyState)
	}
	return t.snap.State
}

// Steps returns the number of committed steps of the turn, including those before a suspension or in another
// worker.
func (t *Turn) Steps() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.step)
}

// TakenOver reports whether another worker had this run and did not end it: it died, or shut down. What it wrote after
// the last committed step is removed.
func (t *Turn) TakenOver() bool { return t.committed != nil }

// Parent returns the call that started a sub-agent, nil in a root session.
func (t *Turn) Parent() *chunk.Parent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.snap.Run.Parent
}

// Origin returns the point of another session that the session continues, nil if it is not a fork. Calls of a fork have other idempotency keys than those of that
// session, so they act a second time.
func (t *Turn) Origin() *chunk.ForkOrigin {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.snap.Origin
}

// Step runs f and commits its output as one step. The package documentation describes what happens if f
// fails, and the errors of the SDK. The context of f ends with ctx and with a stop request.
func (t *Turn) Step(ctx context.Context, f func(ctx context.Context, s *Step) error) error {
	if err := t.enterSDK(); err != nil {
		return err
	}
	defer t.exitSDK()
	if err := t.checkReady(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := t.openStep(cancel)
	ctx = s.startTrace(ctx)
	t.exitSDK()
	err := s.call(ctx, f)
	if abandoned := t.enterSDK(); abandoned != nil {
		s.endTrace(abandoned)
		return abandoned
	}
	err = t.finish(s, err)
	s.endTrace(err)
	return err
}

// finish ends a step whose function has returned err.
func (t *Turn) finish(s *Step, err error) error {
	s.close()
	switch {
	case t.lastWriteErr() != nil:
		return t.lastWriteErr()
	case t.stopped() == control.StopAbort:
		t.failedStep = s
		return t.finishTurn(ErrAborted)
	case err != nil && t.stopped() == control.StopInterrupt:
		// Users have seen the output of the step, so it is committed.
		if err := t.commitInterrupted(s); err != nil {
			return err
		}
		return t.finishTurn(ErrInterrupted)
	case err != nil && t.writeCtx.Err() != nil:
		return t.finishTurn(ErrStopping)
	case err != nil:
		t.failedStep = s
		return err
	}
	return t.commit(s)
}

// checkReady returns the reason why there is no further step, nil if there may be one.
func (t *Turn) checkReady(ctx context.Context) error {
	if t.outcome != nil {
		return t.outcome
	}
	if err := ctx.Err(); err != nil && t.stopped() == "" {
		return err
	}
	if t.serveCtx.Err() != nil {
		return t.finishTurn(ErrStopping)
	}
	if t.final {
		return ErrFinal
	}
	if !t.stopChecked || t.stopped() != "" {
		if err := t.checkStop(t.writeCtx); err != nil {
			return err
		}
	}
	t.stopChecked = false
	if n := t.w.cfg.MaxSteps; n >= 0 && t.step >= int64(n) {
		return &Error{Message: fmt.Sprintf("step limit of %d exceeded", n), Code: CodeStepLimit}
	}
	if err := t.checkBudget(ctx); err != nil {
		return err
	}
	return t.rollBackStep()
}

// finishTurn ends the turn: every later Step returns the same error.
func (t *Turn) finishTurn(err error) error {
	if t.outcome == nil {
		t.outcome = err
	}
	return t.outcome
}

// rollBackStep removes the output of a failed step before its retry.
func (t *Turn) rollBackStep() error {
	s := t.failedStep
	if s == nil {
		return nil
	}
	t.run.SetStep(t.step)
	err := t.emit(t.writeCtx, t.step, chunk.StepDiscarded{RunID: t.cmd.RunID, StepID: s.id, Reason: "retry"})
	if err != nil {
		return err
	}
	if err := t.cleanUp(t.writeCtx, "retry"); err != nil {
		return err
	}
	t.failedStep = nil
	return t.refresh(t.writeCtx)
}

// cleanUp removes all records after the last committed step. Readers that have seen them get a stream_resync
// if there is a checkpoint (EO-7).
func (t *Turn) cleanUp(ctx context.Context, reason string) error {
	removed, err := t.run.CleanupToStep(ctx, t.step, t.cleanupMinSeq)
	if err != nil {
		return t.recordWriteErr(err)
	}
	if removed == 0 {
		return nil
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	if t.snap.CheckpointID == nil || t.step == 0 {
		return nil
	}
	return t.emit(ctx, t.step, chunk.StreamResync{
		CheckpointID: *t.snap.CheckpointID, StepCount: t.step, MessageCount: int64(t.snap.MessageCount()),
		FromSequence: int64(t.snap.Position.Seq), Reason: reason,
	})
}

// emit writes a chunk of the SDK at a step.
func (t *Turn) emit(ctx context.Context, step int64, body chunk.Body, extra ...chunk.Member) error {
	return t.recordWriteErr(t.run.Emit(ctx, chunk.Chunk{AgentType: t.cmd.AgentType, Step: step, Body: body, Extra: extra}))
}

// recordWriteErr records an error after which this worker cannot write to the run. A rejected record is none of them:
// the next worker would write the same one.
func (t *Turn) recordWriteErr(err error) error {
	if err == nil || isRejected(err) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writeErr == nil {
		t.writeErr = err
	}
	return err
}

func (t *Turn) lastWriteErr() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writeErr
}

// refresh applies the records that this run has written to the snapshot. The log may contain later records,
// see checkFenced.
func (t *Turn) refresh(ctx context.Context) error {
	at, err := t.run.Flush(ctx)
	if err != nil {
		return t.recordWriteErr(err)
	}
	t.mu.Lock()
	snap := t.snap
	t.mu.Unlock()
	snap, refolded, err := t.w.catchUp(ctx, snap, at)
	if err == nil {
		err = t.checkFenced(snap.Epoch, snap.Position.Seq)
	}
	if err != nil {
		return t.recordWriteErr(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setSnapshot(snap, refolded)
	return nil
}

// checkFenced returns a FencedError if a record of a later writer was read. Without it:
//  1. Worker A takes a run over and stalls before it reads the progress of the run.
//  2. Worker B takes the run over from A, commits a step and pauses.
//  3. A reads that step as its own progress and calls the agent for the next one, under the wrong run id: the
//     side effects have other idempotency keys than those of the run that resumes after the pause.
func (t *Turn) checkFenced(by chunk.Epoch, at chunk.Seq) error {
	if by <= t.run.Epoch() {
		return nil
	}
	return &producers.FencedError{Session: t.cmd.Session, Epoch: t.run.Epoch(), By: by, At: at}
}

// setSnapshot replaces the snapshot of the turn. Finished messages are read once, unless the session was
// folded again.
func (t *Turn) setSnapshot(snap fold.Snapshot, refolded bool) {
	t.snap = snap
	if refolded || t.read > snap.FinishedCount() {
		t.read, t.finished, t.ids = 0, nil, make(map[string]bool)
	}
	list := withoutBoundaries(snap.Messages(t.read))
	t.restoreToolErrors(list)
	(&expander{Turn: t}).messages(list)
	n := 0 // number of finished messages in list
	for n < len(list) && list[n].Index < snap.FinishedCount() {
		n++
	}
	t.finished = append(t.finished, list[:n]...)
	t.read = snap.FinishedCount()
	// The agent may still hold the previous list.
	t.messages = append(slices.Clone(t.finished), list[n:]...)
	for _, m := range list {
		for _, c := range m.Calls() {
			t.ids[c.ID] = true
		}
	}
}

// rememberToolError keeps the text of an error for the model.
func (t *Turn) rememberToolError(call, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.toolErrors == nil {
		t.toolErrors = make(map[string]string)
	}
	t.toolErrors[call] = text
}

// restoreToolErrors puts the texts that were remembered into messages of the snapshot.
func (t *Turn) restoreToolErrors(list []fold.Message) {
	if len(t.toolErrors) == 0 {
		return
	}
	for i := range list {
		for _, p := range list[i].Parts {
			if p.Call == nil || p.Call.State != fold.CallFailed {
				continue
			}
			if text, ok := t.toolErrors[p.Call.ID]; ok {
				p.Call.Error = text
			}
		}
	}
}
