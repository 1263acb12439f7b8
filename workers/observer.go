package workers

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// Observer receives the commands that Run handles, for metrics. Calls may overlap and must not block.
type Observer interface {
	// CommandStarted is called when a worker begins to handle a command, also at each repetition. waited is the time since it was
	// requested, or since its deadline; clocks of different computers are compared.
	CommandStarted(agentType string, waited time.Duration)

	// CommandEnded is called when the worker has finished or left the command.
	CommandEnded(agentType string, result CommandResult, took time.Duration)
}

// CommandResult is the result of a command that a worker has handled.
type CommandResult string

// The results of commands.
const (
	CommandDone     CommandResult = "done"     // it is acknowledged; its run may have failed
	CommandFailed   CommandResult = "failed"   // it is repeated after a delay, in any worker
	CommandFenced   CommandResult = "fenced"   // another worker has taken the run over
	CommandReturned CommandResult = "returned" // this worker shuts down, and another one continues
)

// handleObserved is Handle for Run with an Observer.
func (w *Workers) handleObserved(ctx context.Context, c control.Command) error {
	requested, start := c.Issued, time.Now()
	if c.Kind == control.Expire {
		requested = c.Deadline
	}
	w.cfg.Observe.CommandStarted(c.AgentType, max(0, start.Sub(requested)))
	err := w.handle(ctx, c)
	w.cfg.Observe.CommandEnded(c.AgentType, resultOf(ctx, err), time.Since(start))
	return err
}

// resultOf returns the result of a command whose handler has returned err, as jscontrol.Handler defines it.
func resultOf(ctx context.Context, err error) CommandResult {
	_, more := errors.AsType[control.AfterAck](err)
	switch {
	case err == nil || more:
		return CommandDone
	case errors.Is(err, chunk.ErrFenced):
		return CommandFenced
	case ctx.Err() != nil:
		return CommandReturned
	}
	return CommandFailed
}
