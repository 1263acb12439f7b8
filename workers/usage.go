package workers

import (
	"context"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// call calls the function of a step and counts the tokens that the step has used. They are used whether or not the step is committed, so they are counted here: also if
// f fails or panics, and if another worker repeats the step.
func (s *Step) call(ctx context.Context, f func(ctx context.Context, s *Step) error) error {
	defer func() { s.turn.w.usage.Count(s.turn.cmd.Session.Tenant, s.tokens()) }()
	return f(ctx, s)
}

// tokens returns the input and output tokens of the step. Tokens that were read from a cache of the provider are part of its input tokens, and count like others.
func (s *Step) tokens() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.usage == nil {
		return 0
	}
	return tokens(s.usage.InputTokens) + tokens(s.usage.OutputTokens)
}

// maxStepTokens bounds a number of tokens of one step: that of a mistake does not stay for days, and a sum does not overflow.
const maxStepTokens = 1 << 40

// tokens returns a number of tokens without a fraction. An agent that reports a negative number gets none back.
func tokens(n chunk.Number) int64 {
	f, _ := n.Float64() // a number over a double is infinite
	return int64(max(0, min(f, maxStepTokens)))
}

// checkBudget returns an error if the tenant has used its tokens of today.
func (t *Turn) checkBudget(ctx context.Context) error {
	if t.w.cfg.TokensPerDay == nil {
		return nil
	}
	tenant := t.cmd.Session.Tenant
	limit := t.w.cfg.TokensPerDay(tenant)
	if limit <= 0 {
		return nil
	}
	if used := t.w.usage.Total(ctx, tenant); used >= limit {
		return &Error{
			Message: "the daily token budget is used up", Code: CodeTokenBudget, // not Retryable: another run of today would fail too
			Cause: fmt.Errorf("tenant %s has used %d of %d tokens today (UTC)", tenant, used, limit),
		}
	}
	return nil
}
