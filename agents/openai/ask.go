package openai

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/workers"
)

// errPartialOutput reports an attempt that failed after it had written output: the step must be rolled back
// and retried.
var errPartialOutput = errors.New("attempt failed after partial output")

var errFiltered = errors.New("content filter removed the whole response")

// attempts counts the attempts of one step.
type attempts struct {
	retry Retry
	count int
	delay time.Duration // before the next attempt
}

// ask repeats attempts until the model responds. It waits between attempts inside of the step, whose context
// ends with a stop request.
func (a *Agent) ask(ctx context.Context, s *workers.Step, q request, attempts *attempts) (*stepWriter, result, error) {
	for {
		if err := attempts.wait(ctx); err != nil {
			return nil, result{}, err
		}
		p := newStepWriter(s, a.runsInBrowser, a.endpoint)
		end, f, err := a.attempt(ctx, q, p)
		if err != nil || f == nil {
			return p, end, err
		}
		retry := attempts.after(f)
		a.cfg.Log.WarnContext(ctx, "model request failed", "model", a.cfg.Model, "code", f.code, "attempt", attempts.count, "delay", attempts.delay, "error", f.cause)
		switch {
		case !retry:
			return nil, result{}, f.asError()
		case p.emitted:
			return nil, result{}, errPartialOutput
		}
	}
}

// attempt sends one request. A *failure is the endpoint's; the error is any other.
func (a *Agent) attempt(ctx context.Context, q request, p *stepWriter) (result, *failure, error) {
	ctx2, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := outgoing.NewTimer(a.cfg.IdleTimeout, func() { cancel(errIdle) })
	defer idle.Stop()
	idle.Start()
	answer, err := a.send(ctx2, idle, q, p)
	switch {
	case p.err != nil:
		return result{}, nil, p.err
	case ctx.Err() != nil:
		return result{}, nil, context.Cause(ctx)
	case err != nil:
		return result{}, a.classify(ctx2, err), nil
	}
	return answer, nil, nil
}

// after counts a failed attempt and reports whether to retry.
func (t *attempts) after(f *failure) (retry bool) {
	t.count++
	t.delay = 0
	if f.retryable() {
		t.delay, retry = t.retry.Next(t.count, f.after)
	}
	return retry
}

// wait blocks for the delay before the next attempt.
func (t *attempts) wait(ctx context.Context) error {
	if wait.Sleep(ctx, t.delay) != nil {
		return context.Cause(ctx)
	}
	t.delay = 0
	return nil
}
