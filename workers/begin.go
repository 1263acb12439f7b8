package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

const (
	modeExecute  = "execute"
	modeTakeover = "takeover"
	modeContinue = "continue"
	modeMessage  = "with_message"

	// modeConclude opens a run that waits in order to end it. It says so in the
	// log, because the worker that does it may die, and its command is of another
	// run: the next worker must not take the run for one that somebody is at work on.
	modeConclude = "conclude"
)

// begin starts the run of a command that nobody has begun.
func (j *job) begin(ctx context.Context, snap fold.Snapshot) error {
	c := j.cmd
	concluding := snap.Run.Status == fold.RunRunning && snap.Run.Mode == modeConclude && opensTurn(c)
	if snap.Run.Status == fold.RunRunning && snap.Run.ID != "" && !concluding {
		return fmt.Errorf("%w: %s", errBusy, snap.Run.ID)
	}
	started := chunk.RunStarted{RunID: c.RunID, Mode: modeExecute, Input: c.Input}
	if c.Parent != nil {
		started.Parent = &chunk.Parent{SessionID: c.Parent.Session, CallID: c.Parent.CallID}
	}
	if c.Kind == commands.Resume && !concluding {
		stale, err := j.stale(ctx, snap)
		if err != nil {
			return err
		}
		if stale {
			return j.nothing()
		}
		started.Mode, started.CheckpointID, started.Parent = modeOf(c), snap.CheckpointID, snap.Run.Parent
	}
	if concluding || opensTurn(c) && snap.Status == fold.Paused && len(snap.Unsettled()) > 0 {
		// What is said next is said after the outcomes of what was asked before.
		if err := j.conclude(ctx, snap); err != nil {
			return err
		}
		return errAgain
	}
	started.Input = replacing(snap, c, started.Input)
	t, err := j.start(ctx, snap, started)
	if err != nil {
		return err
	}
	defer t.close()
	if c.Kind == commands.Resume {
		before := snap
		if !opensTurn(c) {
			t.step = before.Run.Step
		}
		if err := t.noteResumed(ctx, before); err != nil {
			return err
		}
		if err := t.recallParams(ctx, before); err != nil {
			return err
		}
		if err := t.hear(ctx, c.Resumes); err != nil {
			return err
		}
	}
	return t.perform(ctx, j.agent)
}

func opensTurn(c commands.Command) bool {
	return c.Kind == commands.Execute || len(c.Input) > 0
}

func modeOf(c commands.Command) string {
	switch {
	case c.Mode != "" && c.Mode != modeExecute && c.Mode != modeTakeover:
		return c.Mode
	case len(c.Input) > 0:
		return modeMessage
	}
	return modeContinue
}

// stale reports a Resume that has nothing to resume: the session has gone on, or
// somebody was too early. What a person says is answered in any case.
func (j *job) stale(ctx context.Context, snap fold.Snapshot) (bool, error) {
	c := j.cmd
	switch {
	case opensTurn(c):
		return false, nil // what has no answer is abandoned
	case snap.Run.ID != c.Resumes:
	case snap.Run.Status == fold.RunInterrupted:
		return false, nil
	case snap.Run.Status == fold.RunSuspended:
		ready, err := j.w.answered(ctx, snap, c.Resumes)
		return !ready, err
	}
	j.w.cfg.Log.InfoContext(ctx, "a run is not resumed: the session has gone on",
		"session", c.Session.String(), "run", c.Resumes, "latest", snap.Run.ID, "status", string(snap.Run.Status))
	return true, nil
}

// nothing is the end of a command that found nothing to do. Who asked for another
// one while it was there may have left that to it:
//  1. a Resume came too early: we read the answers, and one is missing,
//  2. it is stored, and who stored it asks for the Resume: that is there already,
//  3. ours is acknowledged, and nobody resumes the run.
//
// So we look once more when it is gone. From then on who asks for it gets it.
func (j *job) nothing() error {
	return commands.Done{After: func(ctx context.Context) error {
		snap, err := j.w.look(ctx, j.cmd.Session)
		if err != nil || standing(snap, snap.Run.ID) != atPause {
			return err
		}
		return j.w.wake(ctx, snap, j.cmd.AgentType)
	}}
}

// replacing is the input of a turn that takes the place of earlier messages.
// Asked for without input, it answers once more what the replaced answer did.
func replacing(snap fold.Snapshot, c commands.Command, input []chunk.InputMessage) []chunk.InputMessage {
	first, ok := fold.MessageIndex(c.Replaces)
	if !ok || c.Replaces == "" {
		return input
	}
	if len(input) == 0 {
		for _, said := range slices.Backward(snap.Inputs()) {
			if said.Index == first-1 {
				first--
				input = slices.Insert(input, 0, said.Message)
			}
		}
	}
	if len(input) == 0 || slices.ContainsFunc(input[0].Extra, func(m chunk.Member) bool { return m.Name == fold.Replaces }) {
		return input
	}
	input = slices.Clone(input)
	input[0].Extra = append(slices.Clone(input[0].Extra), chunk.Member{Name: fold.Replaces, Value: chunk.Value(fmt.Sprintf("%q", fold.MessageID(first)))})
	return input
}

// start opens the run behind what snap has seen.
func (j *job) start(ctx context.Context, snap fold.Snapshot, started chunk.RunStarted) (*Turn, error) {
	c := j.cmd
	opts := []producers.StartOption{producers.AgentType(c.AgentType), producers.Behind(snap.Position)}
	if started.Mode == modeConclude {
		opts = append(opts, producers.TakeOver())
	}
	run, err := j.w.producer.Start(ctx, c.Session, started, opts...)
	if err != nil {
		return nil, err
	}
	t := &Turn{
		w: j.w, cmd: c, run: run, own: ctx, serving: j.serving, params: c.Params, snap: snap, ids: map[string]bool{},
		log: j.w.cfg.Log.With("session", c.Session.String(), "run", started.RunID, "epoch", uint64(run.Epoch())),
	}
	t.cmd.RunID = started.RunID
	if err := t.refresh(ctx); err != nil {
		t.close()
		return nil, err
	}
	if t.floor = t.snap.Run.Started; t.floor == 0 {
		t.floor = run.Position().Seq // without a floor a clean-up would reach into earlier turns
	}
	return t, nil
}

// close lets go of the writer. What waits in it is of no interest: the log decides.
func (t *Turn) close() { _ = t.run.Close() }

// noteResumed says that the run goes on, and from where.
func (t *Turn) noteResumed(ctx context.Context, before fold.Snapshot) error {
	return t.say(ctx, t.step, chunk.RunResumed{
		RunID: before.Run.ID, FromCheckpointID: before.CheckpointID, FromStepCount: t.step, Mode: modeOf(t.cmd),
	})
}

// takeOver goes on with a run whose worker is dead, or is thought to be.
func (j *job) takeOver(ctx context.Context, snap fold.Snapshot) error {
	started := chunk.RunStarted{RunID: j.cmd.RunID, Mode: modeTakeover, CheckpointID: snap.CheckpointID, Parent: snap.Run.Parent}
	t, err := j.start(ctx, snap, started)
	if err != nil {
		return err
	}
	defer t.close()
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
	t.log.InfoContext(ctx, "a run was taken over", "step", t.step)
	if j.cmd.Kind == commands.Resume {
		if err := t.goOn(ctx, done); err != nil {
			return err
		}
	}
	return t.perform(ctx, j.agent)
}

// goOn does what is left of the beginning of a resumed run.
func (t *Turn) goOn(ctx context.Context, done progress) error {
	if !done.resumed {
		before := t.snap
		before.Run.ID = t.cmd.Resumes
		if err := t.noteResumed(ctx, before); err != nil {
			return err
		}
	}
	if t.params.IsNull() {
		t.params = done.params
	}
	return t.hear(ctx, t.cmd.Resumes)
}

// perform brings a run that has begun to its end, or to where it waits.
func (t *Turn) perform(ctx context.Context, agent Agent) error {
	work, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	unwatch, err := t.watch(ctx, abort)
	if err != nil {
		return err
	}
	err = t.await(work, agent)
	unwatch()
	return t.conclude(ctx, err)
}

// answer calls the agent, unless there is nothing left for it to do.
func (t *Turn) answer(ctx context.Context, agent Agent) (err error) {
	switch {
	case len(waiting(t.snap, t.cmd.RunID)) > 0:
		// The worker before died between the step and the pause.
		return t.over(ErrSuspended)
	case t.final:
		return nil
	}
	if err := t.heed(t.own); err != nil {
		return err
	}
	t.heeded = true
	defer func() {
		if p := recover(); p != nil {
			t.log.ErrorContext(ctx, "an agent panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	t.exit()
	return agent.Answer(ctx, t)
}

// conclude says what became of the run after its agent returned err.
func (t *Turn) conclude(ctx context.Context, err error) error {
	if broken := t.unwritable(); broken != nil {
		return broken
	}
	switch {
	case ctx.Err() != nil, errors.Is(t.outcome, ErrStopping):
		return fmt.Errorf("run %s: %w", t.cmd.RunID, ErrStopping)
	case errors.Is(t.outcome, ErrAborted), t.stopped() == inbox.Abort:
		err = t.abort(ctx, t.reason())
	case errors.Is(t.outcome, ErrInterrupted):
		err = t.interrupt(ctx)
	case errors.Is(t.outcome, ErrSuspended):
		return t.suspend(ctx)
	case err == nil || t.final:
		err = t.end(ctx)
	default:
		err = t.fail(ctx, err)
	}
	if err != nil {
		return err
	}
	if t.snap.Run.Parent == nil {
		return nil // nobody is to be told
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	return t.w.ended(ctx, t.snap, t.cmd.RunID)
}

// end ends the run well.
func (t *Turn) end(ctx context.Context) error {
	if t.undone != nil {
		// The agent has passed over the failure of its last step: what that said
		// does not count.
		if err := t.takeBack(); err != nil {
			return err
		}
	}
	for _, c := range t.snap.Unsettled() {
		if c.Granted {
			return t.fail(ctx, fmt.Errorf("call %q was allowed, and the agent ended without running it", c.ID))
		}
	}
	output := t.snap.Run.Output
	if len(output) == 0 {
		output = t.output
	}
	return t.breaks(t.run.End(ctx, output))
}
