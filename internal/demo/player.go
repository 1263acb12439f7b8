package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/producers"
)

const (
	modeExecute  = "execute"
	modeTakeover = "takeover"
)

// opener starts the run of an agent: in a session of its own, or as a child.
type opener func(ctx context.Context, run chunk.RunStarted) (*producers.Run, error)

// player plays one agent in one session.
type player struct {
	WorkerConfig

	agent  script.Agent
	input  []chunk.InputMessage
	run    *producers.Run // nil until the run has begun
	done   progress       // how far the run is
	stop   *wish
	open   opened // calls of the step that is being played
	paused bool   // the stream is, by the script

	calling sync.Mutex // held while records of a sub-agent's call are written that belong together
}

// perform brings the run to its end, from wherever it is, with play as what
// happens in it. A run that is finished stays as it is.
func (p *player) perform(ctx context.Context, open opener, play func(context.Context) error) (err error) {
	if p.done, err = readProgress(ctx, p.Log, p.agent.Session, p.agent.RunID); err != nil {
		return err
	}
	switch {
	case p.done.finished:
		return nil
	case p.done.other != "":
		return fmt.Errorf("%w: %s", errBusy, p.done.other)
	}
	if err := p.begin(ctx, open); err != nil {
		return err
	}
	defer func() { _ = p.run.Close() }() // what waits in it is of no interest: the log decides
	if p.done.finished {
		return p.run.End(ctx, p.agent.Output)
	}
	return play(ctx)
}

// begin starts the run, or takes it over and removes what was not committed.
func (p *player) begin(ctx context.Context, open opener) (err error) {
	started := chunk.RunStarted{RunID: p.agent.RunID, Mode: modeExecute, Input: p.input}
	if p.done.begun != 0 {
		started.Mode = modeTakeover
		if p.done.step > 0 {
			started.CheckpointID = new(p.agent.CheckpointID(p.done.step))
		}
	}
	seen := p.done.last
	if p.run, err = open(ctx, started); err != nil {
		return err
	}
	if err := p.settle(ctx, seen, started.Mode); err != nil {
		_ = p.run.Close() // the error that counts is the first
		return err
	}
	return nil
}

// settle makes what was read certain. From the run_started on nobody else writes
// in this session, but somebody may have between our look and it: a worker
// that was thought dead, or one that got the same command. Without this:
//  1. we look, and step 3 is the last,
//  2. the other one commits step 4,
//  3. we take over, and play step 4 again behind it.
//
// The ordinal of our own run_started tells whether that happened.
func (p *player) settle(ctx context.Context, seen chunk.Position, mode string) (err error) {
	at := p.run.Position()
	if at.Ordinal != seen.Ordinal+1 {
		finished, err := p.lookAgain(ctx, at)
		if err != nil || finished {
			return err
		}
	} else if mode == modeExecute {
		p.done.begun, p.done.committed = at.Seq, at.Seq
		p.done.messages += len(p.input)
	}
	p.run.SetStep(int64(p.done.step))
	if p.done.begun == at.Seq {
		return nil // nobody was here before us
	}
	return p.cleanUp(ctx)
}

// lookAgain reads the session up to our own run_started, which re-opened it if
// the run was finished in the meantime.
func (p *player) lookAgain(ctx context.Context, at chunk.Position) (finished bool, err error) {
	before := beforeRecord{Log: p.Log, seq: at.Seq}
	done, err := readProgress(ctx, before, p.agent.Session, p.agent.RunID)
	if err != nil {
		return false, err
	}
	if done.begun == 0 { // somebody else's run came and went
		done.begun, done.committed = at.Seq, at.Seq
		done.messages += len(p.input)
	}
	p.done = done
	return done.finished, nil
}

// cleanUp removes what came after the last committed step. Readers are told to
// load a snapshot if there is a checkpoint that it would show (helix.md, EO-7).
func (p *player) cleanUp(ctx context.Context) error {
	removed, err := p.run.CleanupToStep(ctx, int64(p.done.step), p.done.begun)
	if err != nil {
		return err
	}
	p.Logger.InfoContext(ctx, "a run was taken over", "session", p.agent.Session.String(), "run", p.agent.RunID,
		"epoch", uint64(p.run.Epoch()), "step", p.done.step, "removed", removed)
	if removed == 0 || p.done.step == 0 {
		return nil
	}
	return p.run.Say(ctx, p.resync("crash_recovery"))
}

// resync names the checkpoint that the run stands on.
func (p *player) resync(reason string) chunk.StreamResync {
	return chunk.StreamResync{
		CheckpointID: p.agent.CheckpointID(p.done.step), StepCount: int64(p.done.step),
		MessageCount: int64(p.done.messages), FromSequence: int64(p.done.committed), Reason: reason,
	}
}

// play plays the steps that are not committed yet, and ends the run.
func (p *player) play(ctx context.Context) error {
	for p.done.step < len(p.agent.Steps) {
		err := p.step(ctx, p.done.step+1)
		if errors.Is(err, errStopped) {
			err = cmp.Or(p.halt(ctx), errStopped)
		}
		if err != nil {
			return err
		}
	}
	return p.run.End(ctx, p.agent.Output)
}

// step plays one step and commits it: when it returns, the log has it.
func (p *player) step(ctx context.Context, n int) error {
	step, id := p.agent.Steps[n-1], p.agent.StepID(n)
	p.open = nil
	p.run.SetStep(int64(n))
	if err := p.run.Say(ctx, chunk.StepStart{StepID: &id}); err != nil {
		return err
	}
	for _, act := range step.Acts {
		if err := p.act(ctx, act); err != nil {
			return err
		}
	}
	return p.commit(ctx, n, chunk.StepEnd{StepID: &id, Usage: &step.Usage, FinishReason: &step.FinishReason})
}

// commit ends step n: when it returns, the log has it.
func (p *player) commit(ctx context.Context, n int, end chunk.StepEnd) error {
	checkpoint := p.agent.CheckpointID(n)
	for _, body := range []chunk.Body{
		end,
		chunk.CheckpointCreated{RunID: p.agent.RunID, CheckpointID: checkpoint, StepCount: int64(n)},
		chunk.StepCommitted{RunID: p.agent.RunID, StepID: p.agent.StepID(n), CheckpointID: checkpoint},
	} {
		if err := p.run.Say(ctx, body); err != nil {
			return err
		}
	}
	at, err := p.run.Flush(ctx)
	if err != nil {
		return err
	}
	p.done.step, p.done.committed = n, at.Seq
	p.done.messages++
	return nil
}

func (p *player) act(ctx context.Context, act script.Act) error {
	if err := p.rest(ctx, act.After); err != nil {
		return err
	}
	switch {
	case act.Ask != nil:
		return p.ask(ctx, act.Ask)
	case act.Pause != "":
		p.paused = true
		return p.run.Pause(ctx, act.Pause)
	case act.Activate:
		p.paused = false
		return p.run.Activate(ctx)
	}
	body := act.Say
	p.open.note(body)
	if resync, ok := body.(chunk.StreamResync); ok {
		body = p.resync(resync.Reason)
	}
	return p.run.Say(ctx, body)
}

// ask runs sub-agents, all at the same time, and returns when the last has ended.
func (p *player) ask(ctx context.Context, calls []script.Call) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, call := range calls {
		group.Go(func() error { return p.call(ctx, call) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if p.stop.wanted().Kind != "" {
		return errStopped
	}
	return nil
}

// call runs one sub-agent and writes what the parent's session says of it.
func (p *player) call(ctx context.Context, call script.Call) error {
	start := chunk.SubagentStart{SubAgentType: call.Agent.Type, SubSessionID: call.Agent.Session.ID, CallID: call.ID}
	child := &player{WorkerConfig: p.WorkerConfig, agent: call.Agent, stop: p.stop}
	announced := false
	open := func(ctx context.Context, run chunk.RunStarted) (*producers.Run, error) {
		p.calling.Lock()
		defer p.calling.Unlock()
		announced = true
		return p.run.Child(ctx, start, run)
	}
	err := child.perform(ctx, open, child.play)
	stopped := errors.Is(err, errStopped)
	if err != nil && !stopped {
		return fmt.Errorf("sub-agent %s: %w", call.Agent.Type, err)
	}
	p.calling.Lock()
	defer p.calling.Unlock()
	if !announced { // it had finished before this step was played again
		if err := p.run.Say(ctx, start); err != nil {
			return err
		}
	}
	result, outcome := call.Agent.Output, chunk.Body(chunk.ToolEnd{ToolCallID: call.ID, ToolName: call.ToolName(), Result: call.Agent.Output, ProviderExecuted: new(true)})
	if stopped {
		result = chunk.Value(`{"error":{"message":"the run was stopped","code":"aborted"}}`)
		outcome = p.abandoned(chunk.ToolStart{ToolCallID: call.ID, ToolName: call.ToolName(), Arguments: chunk.Value("{}")})
	}
	if err := p.run.Say(ctx, chunk.SubagentEnd{
		SubAgentType: start.SubAgentType, SubSessionID: start.SubSessionID, CallID: call.ID, Result: result,
	}); err != nil {
		return err
	}
	p.open.note(outcome)
	return p.run.Say(ctx, outcome)
}
