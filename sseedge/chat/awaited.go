package chat

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/internal/control"
)

var errWithdrawn = errors.New("message withdrawn")

var errRunNotStarted = errors.New("run not started: command removed")

// check checks that the run is still requested. It is called with each heartbeat: a command that is removed from the queue, because it is malformed or its session
// was deleted, notifies no response, which would wait for it indefinitely. waiting is the command, once, if it has waited for longer than Config.WaitNotice.
func (re *response) check(ctx context.Context) (waiting *control.Command, err error) {
	ctx, cancel := re.service.withTimeout(ctx)
	defer cancel()
	state, err := re.look(ctx)
	switch {
	case err != nil:
		re.service.shared.Log.DebugContext(ctx, "state of the chat not available", "session", re.of.session.String(), "error", err)
		return nil, nil //nolint:nilnil // nothing to report: keep the last known state
	case state.HasRun(re.plan.Run):
		return nil, nil //nolint:nilnil // nothing to report
	case state.Awaited() == re.plan.Run:
		return re.reportWait(ctx, state.Waiting()), nil
	case re.plan.Queued:
		return nil, re.checkQueued(ctx)
	}
	return nil, errRunNotStarted
}

// checkQueued checks that the message still waits, and starts what is next if no worker has done that at the end of the run before it.
func (re *response) checkQueued(ctx context.Context) error {
	switch waits, err := re.of.logic.ContinueQueue(ctx, re.of.session, re.agentType, re.plan.Run); {
	case err != nil:
		re.service.shared.Log.DebugContext(ctx, "messages that wait not available", "session", re.of.session.String(), "error", err)
	case !waits:
		return errWithdrawn
	}
	return nil
}

// reportWait reports once that a command waits for a worker, to the log and to the metrics, and returns the command then.
func (re *response) reportWait(ctx context.Context, c *control.Command) *control.Command {
	waited, limit := time.Since(c.Issued), re.service.cfg.WaitNotice
	if re.reported || limit < 0 || waited < limit {
		return nil
	}
	re.reported = true
	re.service.metrics.waited()
	re.service.shared.Log.WarnContext(ctx, "no worker has started the run", "session", c.Session.String(), "run", c.RunID, "agentType", c.AgentType, "waited", waited.Round(time.Second))
	return c
}
