package openai

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tailrace/tailrace/workers"
)

// errSpoken reports an attempt that failed after it had said something: the step
// is to be taken back, and done again.
var errSpoken = errors.New("an attempt failed after it had said something")

var errFiltered = errors.New("the content filter left nothing of the answer")

// attempts are those of one step.
type attempts struct {
	retry Retry
	made  int
	pause time.Duration // owed before the next one
}

// ask asks until there is an answer. The pause before a further attempt is made
// here, inside of a step, where people who stop the run are heard.
func (a *Agent) ask(ctx context.Context, s *workers.Step, q question, tries *attempts) (*speaker, ending, error) {
	for {
		if err := tries.wait(ctx); err != nil {
			return nil, ending{}, err
		}
		p := newSpeaker(s, a.browsers)
		end, f, err := a.attempt(ctx, q, p)
		if err != nil || f == nil {
			return p, end, err
		}
		more := tries.after(f)
		a.cfg.Log.WarnContext(ctx, "a model did not answer", "model", a.cfg.Model, "code", f.code, "attempt", tries.made, "again_in", tries.pause, "error", f.cause)
		switch {
		case !more:
			return nil, ending{}, f.told()
		case p.said:
			return nil, ending{}, errSpoken
		}
	}
}

// attempt asks once. The error is not the endpoint's.
func (a *Agent) attempt(ctx context.Context, q question, p *speaker) (ending, *failure, error) {
	ctx2, end := watched(ctx, a.cfg.Silence)
	defer end()
	answer, err := a.wire.ask(ctx2, q, p)
	switch {
	case p.err != nil:
		return ending{}, nil, p.err
	case ctx.Err() != nil:
		return ending{}, nil, context.Cause(ctx)
	case err != nil:
		return ending{}, a.classify(ctx2, err), nil
	}
	return answer, nil, nil
}

// after notes a failed attempt, and reports whether there is to be another one.
func (t *attempts) after(f *failure) bool {
	t.made++
	t.pause = 0
	if !f.retryable() || t.made >= t.retry.Attempts || f.after > t.retry.Asked {
		return false
	}
	pause := min(t.retry.Most, t.retry.First<<min(t.made-1, 16))
	pause -= time.Duration(rand.Int64N(int64(pause)/2 + 1))
	t.pause = max(pause, f.after)
	return true
}

// wait makes the pause that is owed.
func (t *attempts) wait(ctx context.Context) error {
	if t.pause <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(t.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		t.pause = 0
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
