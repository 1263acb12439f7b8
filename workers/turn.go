package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// Turn is what an agent is given: what was said so far, and the means to say
// more. Step is called from one goroutine at a time; the other methods may be
// called from any, and tell what was committed last.
type Turn struct {
	w   *Workers
	cmd commands.Command
	run *producers.Run
	log *slog.Logger

	// own is the life of what the SDK writes: it goes on for Config.Grace after
	// the worker was told to stop. serving ends when it is told.
	own, serving context.Context //nolint:containedctx // the run's life, which no single call spans

	params  chunk.Value
	floor   chunk.Seq   // of clean-ups: the run's first run_started
	output  chunk.Value // what the dead worker's last step said; the fold forgets it with its run_started
	outcome error       // why there are no more steps, nil while there are
	undone  *Step       // a step that failed and was not taken back, nil for none
	heeded  bool        // the inbox was read a moment ago

	mu       sync.Mutex // guards everything below
	snap     fold.Snapshot
	messages []Message
	finished []Message               // of them, those that no record can change
	read     int                     // how many messages of the session are finished
	ids      map[string]bool         // of all calls
	broken   error                   // what made writing impossible: the command goes to another worker
	step     int64                   // last committed step of the turn
	final    bool                    // and nothing follows it
	stop     inbox.Stop              // what people want; zero while nothing
	halt     context.CancelCauseFunc // ends the step that is under way; nil between two
	current  *Step                   // the latest one
	theirs   bool                    // the agent's own code is at work, not ours
	left     bool                    // the agent was left behind, see await
}

// Session is the session that the run answers in.
func (t *Turn) Session() chunk.Session { return t.cmd.Session }

// RunID is the run's id. A run that goes on after a suspension has another one.
func (t *Turn) RunID() string { return t.cmd.RunID }

// AgentType is the name that the agent is served under.
func (t *Turn) AgentType() string { return t.cmd.AgentType }

// Params are what the run was asked for with; null when with nothing.
func (t *Turn) Params() chunk.Value { return t.params }

// Input is what the turn answers: the messages of people that opened it.
func (t *Turn) Input() []chunk.InputMessage {
	if len(t.cmd.Input) > 0 {
		return t.cmd.Input
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var in []chunk.InputMessage
	next := t.snap.TurnMessages()
	all := t.snap.Inputs()
	for _, said := range slices.Backward(all) {
		if said.Index == next-1 {
			next--
			in = slices.Insert(in, 0, said.Message)
		}
	}
	return in
}

// Messages are the history for a model, oldest first: the input included, and
// what the committed steps of this turn have said. They are not to be changed.
func (t *Turn) Messages() []Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.messages
}

// State is the session's custom state, {} before anybody set it.
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

// DecodeState reads the custom state into v, as encoding/json does.
func (t *Turn) DecodeState(v any) error { return json.Unmarshal(t.State(), v) }

// Steps is how many steps of the turn are committed. It counts on when the run
// goes on after a suspension or in another worker.
func (t *Turn) Steps() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.step)
}

// Parent is where a sub-agent was called from, nil for the agent of a root
// session.
func (t *Turn) Parent() *chunk.Parent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.snap.Run.Parent
}

// Step does one step and commits it. See the package for what f may do, what
// becomes of it when f fails, and which errors Step has of its own. The context
// that f is given ends with ctx, and when somebody stops the run.
func (t *Turn) Step(ctx context.Context, f func(ctx context.Context, s *Step) error) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.exit()
	if err := t.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := t.open(cancel)
	t.exit()
	err := f(ctx, s)
	if left := t.enter(); left != nil {
		return left
	}
	return t.finish(s, err)
}

// finish is the end of a step whose function has returned err.
func (t *Turn) finish(s *Step, err error) error {
	s.close()
	switch {
	case t.unwritable() != nil:
		return t.unwritable()
	case t.stopped() == inbox.Abort:
		t.undone = s
		return t.over(ErrAborted)
	case err != nil && t.stopped() == inbox.Interrupt:
		// What it has said so far is the answer: people saw it.
		if err := t.cut(s); err != nil {
			return err
		}
		return t.over(ErrInterrupted)
	case err != nil && t.own.Err() != nil:
		return t.over(ErrStopping)
	case err != nil:
		t.undone = s
		return err
	}
	return t.commit(s)
}

// ready is why there is no further step, nil when there is one.
func (t *Turn) ready(ctx context.Context) error {
	if t.outcome != nil {
		return t.outcome
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.serving.Err() != nil {
		return t.over(ErrStopping)
	}
	if t.final {
		return ErrFinal
	}
	if !t.heeded {
		if err := t.heed(t.own); err != nil {
			return err
		}
	}
	t.heeded = false
	if n := t.w.cfg.MaxSteps; t.step >= int64(n) {
		return &Error{Message: fmt.Sprintf("the agent has made %d steps and not come to an end", n), Code: CodeStepLimit}
	}
	return t.takeBack()
}

// over ends the turn: every further Step returns the same.
func (t *Turn) over(err error) error {
	if t.outcome == nil {
		t.outcome = err
	}
	return t.outcome
}

// takeBack removes what a failed step has said, before it is tried again.
func (t *Turn) takeBack() error {
	s := t.undone
	if s == nil {
		return nil
	}
	t.run.SetStep(t.step)
	err := t.say(t.own, t.step, chunk.StepDiscarded{RunID: t.cmd.RunID, StepID: s.id, Reason: "retry"})
	if err != nil {
		return err
	}
	if err := t.cleanUp(t.own, "retry"); err != nil {
		return err
	}
	t.undone = nil
	return t.refresh(t.own)
}

// cleanUp removes everything behind the last committed step. Readers are told to
// load a snapshot if there is a checkpoint that it would show (helix.md, EO-7).
func (t *Turn) cleanUp(ctx context.Context, reason string) error {
	removed, err := t.run.CleanupToStep(ctx, t.step, t.floor)
	if err != nil {
		return t.breaks(err)
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
	return t.say(ctx, t.step, chunk.StreamResync{
		CheckpointID: *t.snap.CheckpointID, StepCount: t.step, MessageCount: int64(t.snap.MessageCount()),
		FromSequence: int64(t.snap.Position.Seq), Reason: reason,
	})
}

// say writes a chunk of the SDK's own at a step.
func (t *Turn) say(ctx context.Context, step int64, body chunk.Body, extra ...chunk.Member) error {
	return t.breaks(t.run.Emit(ctx, chunk.Chunk{AgentType: t.cmd.AgentType, Step: step, Body: body, Extra: extra}))
}

// breaks remembers an error after which this worker cannot write the run.
func (t *Turn) breaks(err error) error {
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		t.broken = err
	}
	return err
}

func (t *Turn) unwritable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// refresh reads what this run has written since the last time. The log may be
// longer than that, see overtaken.
func (t *Turn) refresh(ctx context.Context) error {
	at, err := t.run.Flush(ctx)
	if err != nil {
		return t.breaks(err)
	}
	t.mu.Lock()
	snap := t.snap
	t.mu.Unlock()
	snap, again, err := t.w.catchUp(ctx, snap, at)
	if err == nil {
		err = t.overtaken(snap.Epoch, snap.Position.Seq)
	}
	if err != nil {
		return t.breaks(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(snap, again)
	return nil
}

// overtaken says that a record which was read is of a later writer. Without it:
//  1. a worker takes a run over, and sleeps before it reads how far the run came,
//  2. another one takes it over from that one, commits a step and pauses,
//  3. the first reads on, takes the step for what it finds, and calls the agent for
//     the next one, under the wrong run: what that does to the world, it does under
//     another idempotency key than the run that goes on after the pause.
func (t *Turn) overtaken(by chunk.Epoch, at chunk.Seq) error {
	if by <= t.run.Epoch() {
		return nil
	}
	return &producers.FencedError{Session: t.cmd.Session, Epoch: t.run.Epoch(), By: by, At: at}
}

// take makes snap what the turn tells. Finished messages are read once, unless
// the session was folded anew.
func (t *Turn) take(snap fold.Snapshot, anew bool) {
	t.snap = snap
	if anew || t.read > snap.FinishedCount() {
		t.read, t.finished, t.ids = 0, nil, make(map[string]bool)
	}
	list := messagesOf(snap.Transcript(t.read))
	n := 0 // of list are finished
	for n < len(list) && list[n].index < snap.FinishedCount() {
		n++
	}
	t.finished = append(t.finished, list[:n]...)
	t.read = snap.FinishedCount()
	// Who holds the list of before keeps it.
	t.messages = append(slices.Clone(t.finished), list[n:]...)
	for _, m := range list {
		for _, c := range m.Calls() {
			t.ids[c.ID] = true
		}
	}
}
