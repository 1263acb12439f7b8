package httpagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/workers"
)

// Agent answers turns with an HTTP endpoint. It may be used by any number of runs concurrently, and keeps no state between two requests.
type Agent struct {
	cfg    Config
	client *http.Client
	large  largeEvents
}

var _ workers.Agent = (*Agent)(nil)

// New returns an Agent. It sends no request to the endpoint. The error names the field of cfg that is invalid.
func New(cfg Config) (*Agent, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("http agent: %w", err)
	}
	return &Agent{cfg: cfg, client: outgoing.Client(cfg.Client), large: make(largeEvents, 1)}, nil
}

// Answer posts the history and writes the response in steps.
func (a *Agent) Answer(ctx context.Context, t *workers.Turn) error {
	if a.cfg.OnCrash == Fail && t.TakenOver() {
		return failuref(CodeInterrupted, "the worker that had the run has died or shut down").asError()
	}
	var ans *answer
	defer func() {
		if ans != nil {
			ans.close()
		}
	}()
	life := ctx
	for {
		over := false
		err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			// The request is sent inside of a step, whose context ends with a stop request.
			if ans == nil {
				var err error
				if err = a.takeState(ctx, t, s); err != nil {
					return err
				}
				if ans, err = a.ask(life, ctx, t); err != nil {
					return a.report(ctx, t, err)
				}
			}
			stop := context.AfterFunc(ctx, func() { ans.cancel(context.Cause(ctx)) })
			defer stop()
			var err error
			over, err = newStepWriter(s, t.Session().ID, a.cfg).write(ctx, ans)
			return a.report(ctx, t, err)
		})
		switch {
		case errors.Is(err, errStepReset): // the next Step rolls it back
		case err != nil || over:
			return err
		}
	}
}

// report logs a failure of the endpoint and returns the error that fails the run.
func (a *Agent) report(ctx context.Context, t *workers.Turn, err error) error {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		return err
	}
	a.cfg.Log.WarnContext(ctx, "agent request failed", "session", t.Session().String(), "run", t.RunID(), "code", f.code, "error", f.cause)
	return f.asError()
}
