package chat

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
)

// awaitedRun is a run that a response waits for. It was requested, and its records may not have begun.
type awaitedRun struct {
	service   *Service
	session   chunk.Session
	agentType string
	id        string // "" if the response waits for none, or the run has begun
	reported  bool   // see reportWait

	queued bool                  // its message waits for the end of other runs
	logic  *conversation.Service // works for the client
}

func (s *Service) await(session chunk.Session, agentType, run string) awaitedRun {
	return awaitedRun{service: s, session: session, agentType: agentType, id: run}
}

var errWithdrawn = errors.New("message withdrawn")

var errRunNotStarted = errors.New("run not started: command removed")

// check checks that the run is still requested. It is called with each heartbeat: a command that is removed from the queue, because it is malformed or its session
// was deleted, notifies no response, which would wait for it indefinitely. waiting is the command, once, if it has waited for longer than Config.WaitNotice.
func (a *awaitedRun) check(ctx context.Context) (waiting *control.Command, err error) {
	if a.id == "" {
		return nil, nil //nolint:nilnil // nothing to report
	}
	ctx, cancel := a.service.withTimeout(ctx)
	defer cancel()
	state, err := a.service.logic.Load(ctx, a.session, a.agentType)
	switch {
	case err != nil:
		a.service.shared.Log.DebugContext(ctx, "state of the chat not available", "session", a.session.String(), "error", err)
		return nil, nil //nolint:nilnil // nothing to report: keep the last known state
	case state.HasRun(a.id):
		a.id = ""
		return nil, nil //nolint:nilnil // nothing to report
	case state.Awaited() == a.id:
		return a.reportWait(ctx, state.Waiting()), nil
	case a.queued:
		return nil, a.checkQueued(ctx)
	}
	return nil, errRunNotStarted
}

// checkQueued checks that the message still waits, and starts what is next if no worker has done that at the end of the run before it.
func (a *awaitedRun) checkQueued(ctx context.Context) error {
	switch waits, err := a.logic.ContinueQueue(ctx, a.session, a.agentType, a.id); {
	case err != nil:
		a.service.shared.Log.DebugContext(ctx, "messages that wait not available", "session", a.session.String(), "error", err)
	case !waits:
		return errWithdrawn
	}
	return nil
}

// reportWait reports once that a command waits for a worker, to the log and to the metrics, and returns the command then.
func (a *awaitedRun) reportWait(ctx context.Context, c *control.Command) *control.Command {
	waited, limit := time.Since(c.Issued), a.service.cfg.WaitNotice
	if a.reported || limit < 0 || waited < limit {
		return nil
	}
	a.reported = true
	a.service.metrics.waited()
	a.service.shared.Log.WarnContext(ctx, "no worker has started the run", "session", c.Session.String(), "run", c.RunID, "agentType", c.AgentType, "waited", waited.Round(time.Second))
	return c
}

// writeWait writes that a command waits for a worker: the page would show nothing for up to a day.
func (st *stream) writeWait(c *control.Command) error {
	var notice struct {
		Type string `json:"type"`
		Data struct {
			RunID   string `json:"runId"`
			Seconds int    `json:"seconds"`
		} `json:"data"`
		Transient bool `json:"transient"`
	}
	notice.Type, notice.Transient = "data-run-waiting", true
	notice.Data.Seconds = int(time.Since(c.Issued).Seconds())
	if !st.message.view.Hidden().RunIDs {
		notice.Data.RunID = c.RunID
	}
	data, err := json.Marshal(notice)
	if err != nil {
		return err
	}
	st.buffer = append(append(append(st.buffer, "data: "...), data...), "\n\n"...)
	return st.flush()
}
