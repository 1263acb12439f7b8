package chat

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tailrace/tailrace/internal/control"
)

var errRunNotStarted = errors.New("run not started: command removed")

// appendWaiting checks that the run is still requested, with each heartbeat until it begins: a command that is removed from the queue, because it is malformed or
// its session was deleted, notifies no response, which would wait for it indefinitely. What cannot be loaded is as it was.
func (re *response) appendWaiting(ctx context.Context, dst []byte) ([]byte, error) {
	ctx, cancel := re.service.withTimeout(ctx)
	defer cancel()
	state, err := re.look(ctx)
	switch {
	case err != nil || state.HasRun(re.plan.Run):
	case state.Awaited() == re.plan.Run:
		return re.appendNotice(ctx, dst, state.Waiting()), nil
	case !re.plan.Queued:
		return dst, errRunNotStarted
	default:
		// The message still waits, or was withdrawn. What is next is started if no worker has done that at the end of the run before it.
		var waits bool
		if waits, err = re.of.logic.ContinueQueue(ctx, re.of.session, re.agentType, re.plan.Run); err == nil && !waits {
			return append(dst, re.emptyTurn()...), io.EOF
		}
	}
	if err != nil {
		re.service.shared.Log.DebugContext(ctx, "state of the chat not available", "session", re.of.session.String(), "error", err)
	}
	return dst, nil
}

// appendNotice reports a command that has waited for longer than Config.WaitNotice: once, to the log, to the metrics and to a client of the AI SDK, whose page would
// show nothing for up to a day. AG-UI has no event that may precede the start of a run.
func (re *response) appendNotice(ctx context.Context, dst []byte, c *control.Command) []byte {
	waited, limit := time.Since(c.Issued), re.service.cfg.WaitNotice
	if re.reported || limit < 0 || waited < limit {
		return dst
	}
	re.reported = true
	re.service.metrics.waits.Inc()
	re.service.shared.Log.WarnContext(ctx, "no worker has started the run", "session", c.Session.String(), "run", c.RunID, "agentType", c.AgentType, "waited", waited.Round(time.Second))
	if re.of.isRun {
		return dst
	}
	var notice struct {
		Type string `json:"type"`
		Data struct {
			RunID   string `json:"runId"`
			Seconds int    `json:"seconds"`
		} `json:"data"`
		Transient bool `json:"transient"`
	}
	notice.Type, notice.Transient = "data-run-waiting", true
	notice.Data.Seconds = int(waited.Seconds())
	if !re.of.view.Hidden().RunIDs {
		notice.Data.RunID = c.RunID
	}
	return appendFrame(dst, notice)
}
