package demo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
)

// Stops is where people say that a run is to stop. *inbox.Box fits.
type Stops interface {
	Stopped(ctx context.Context, s chunk.Session, run string) (inbox.Stop, bool, error)
	Watch(s chunk.Session, run string) (hints <-chan struct{}, stop func(), err error)
}

// stopPoll is how often a run looks whether it is to stop. Hints come at once; one
// may be lost.
const stopPoll = 5 * time.Second

// errStopped ends what an agent is at because somebody wants the run to stop.
var errStopped = errors.New("somebody wants the run to stop")

// wish is a context that ends when somebody wants a run to stop, and how.
type wish struct {
	context.Context //nolint:containedctx // it is one, with a word more

	mu   sync.Mutex // guards stop
	stop inbox.Stop
}

// heed listens for those who want the run of a command to stop, until the function
// that it returns is called.
func (w *Worker) heed(ctx context.Context, c commands.Command) (*wish, func(), error) {
	hints, unsubscribe, err := w.cfg.Inbox.Watch(c.Session, c.RunID)
	if err != nil {
		return nil, nil, err
	}
	ended, end := context.WithCancel(ctx)
	asked := &wish{Context: ended}
	var listening sync.WaitGroup
	listening.Go(func() {
		tick := time.NewTicker(stopPoll)
		defer tick.Stop()
		for {
			stop, wanted, err := w.cfg.Inbox.Stopped(ended, c.Session, c.RunID)
			switch {
			case ended.Err() != nil:
				return
			case err != nil:
				w.cfg.Logger.WarnContext(ctx, "the inbox cannot be read; the run goes on", "session", c.Session.String(), "error", err)
			case wanted:
				asked.mu.Lock()
				asked.stop = stop
				asked.mu.Unlock()
				end()
				return
			}
			select {
			case <-hints:
			case <-tick.C:
			case <-ended.Done():
				return
			}
		}
	})
	return asked, func() {
		unsubscribe()
		end()
		listening.Wait()
	}, nil
}

// wanted is what people want, zero while nothing.
func (s *wish) wanted() inbox.Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop
}

// rest is a pause of the agent. It ends when the run is to stop.
func (p *player) rest(ctx context.Context, d time.Duration) error {
	resting, wake := context.WithCancel(ctx)
	defer wake()
	defer context.AfterFunc(p.stop, wake)()
	err := p.Pace(resting, d)
	if ctx.Err() == nil && p.stop.wanted().Kind != "" {
		return errStopped
	}
	return err
}

// opened are the calls of a step that have no outcome yet.
type opened []chunk.ToolStart

func (o *opened) note(body chunk.Body) {
	switch b := body.(type) {
	case chunk.ToolStart:
		o.add(b)
	case chunk.ToolArgStreamStart:
		o.add(chunk.ToolStart{ToolCallID: b.ToolCallID, ToolName: b.ToolName})
	case chunk.ToolEnd:
		o.remove(b.ToolCallID)
	case chunk.ToolInputError:
		o.remove(b.ToolCallID)
	case chunk.ToolOutputError:
		o.remove(b.ToolCallID)
	}
}

func (o *opened) remove(id string) {
	*o = slices.DeleteFunc(*o, func(c chunk.ToolStart) bool { return c.ToolCallID == id })
}

func (o *opened) add(c chunk.ToolStart) {
	at := slices.IndexFunc(*o, func(earlier chunk.ToolStart) bool { return earlier.ToolCallID == c.ToolCallID })
	if at >= 0 {
		(*o)[at] = c
		return
	}
	*o = append(*o, c)
}

// halt ends a run in the middle of a step, which stays: people saw it. A soft stop
// of the agent that people talk to is an interruption; anything else is a failure.
func (p *player) halt(ctx context.Context) error {
	stop := p.stop.wanted()
	if p.paused {
		if err := p.run.Activate(ctx); err != nil {
			return err
		}
	}
	for _, c := range slices.Clone(p.open) {
		if err := p.run.Say(ctx, p.abandoned(c)); err != nil {
			return err
		}
	}
	n := p.done.step + 1
	if err := p.commit(ctx, n, chunk.StepEnd{StepID: new(p.agent.StepID(n)), FinishReason: new("other")}); err != nil {
		return err
	}
	if stop.Kind == inbox.Interrupt && p.agent.Session.IsRoot() {
		over := chunk.RunInterrupted{RunID: p.agent.RunID, CheckpointID: new(p.agent.CheckpointID(n))}
		if stop.Reason != "" {
			over.Reason = &stop.Reason
		}
		if err := p.run.Say(ctx, over); err != nil {
			return err
		}
		return p.run.End(ctx, nil)
	}
	why := "the run was stopped"
	return p.run.Fail(ctx, why, &chunk.ErrorDetail{Message: cmp.Or(stop.Reason, why), Code: new(codeAborted)})
}

const codeAborted = "aborted"

// abandoned is the outcome of a call that the run did not wait for.
func (p *player) abandoned(c chunk.ToolStart) chunk.Body {
	why := "the run was stopped before the call had ended"
	if c.Arguments == nil { // they never came whole
		return chunk.ToolInputError{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Error: why}
	}
	return chunk.ToolEnd{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Error: &why, ErrorCode: new(codeAborted), ProviderExecuted: new(true)}
}
