package observe

import (
	"math"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

const (
	maxTokens = 1<<53 - 1 // the largest integer that JavaScript represents exactly

	// The values of Observation.CostSource.
	costReported = "reported"
	costOfList   = "list"
)

// usage are the tokens and the cost of a step, or of the steps of a run; nil is unknown.
type usage struct {
	input, output, cached, written, reasoning *int64
	cost                                      *row.Money
	currency, source                          string
}

// usageOf returns the tokens and the cost of a step that ends. A cost that the provider has reported wins over that of the list.
func (s *session) usageOf(o *row.Observation, u chunk.Usage) usage {
	out := usage{
		input: tokens(&u.InputTokens), output: tokens(&u.OutputTokens), cached: tokens(u.CachedTokens), written: tokens(u.CacheWriteTokens),
		reasoning: tokens(u.ReasoningTokens),
	}
	if u.Cost != nil {
		if m, ok := row.ParseMoney(*u.Cost); ok {
			out.cost, out.currency, out.source = &m, "USD", costReported
			if u.Currency != nil {
				out.currency = textOf(u.Currency)
			}
			return out
		}
	}
	if price := s.f.cfg.Price; price != nil && o.Model != "" {
		m, currency, ok := price(Priced{
			Model: o.Model, Provider: o.Provider, At: s.e.at, Input: *out.input, Output: *out.output, Cached: orZero(out.cached), Written: orZero(out.written),
		})
		if ok {
			out.cost, out.currency, out.source = new(min(m, row.MaxMoney)), currency, costOfList
		}
	}
	return out
}

func (u *usage) set(o *row.Observation) {
	o.InputTokens, o.OutputTokens, o.CachedTokens, o.CacheWriteTokens, o.ReasoningTokens = u.input, u.output, u.cached, u.written, u.reasoning
	o.Cost, o.Currency, o.CostSource = u.cost, u.currency, u.source
}

// tokens returns a number of tokens: not negative, without a fraction, at most maxTokens; nil for none.
func tokens(n *chunk.Number) *int64 {
	if n == nil {
		return nil
	}
	v, err := strconv.ParseFloat(string(*n), 64)
	if err != nil && !math.IsInf(v, 0) || math.IsNaN(v) {
		v = 0
	}
	return new(int64(min(max(v, 0), maxTokens)))
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// add adds the usage of a step to the sums of its run. Amounts of several currencies have no sum; a sum of several sources has no source.
func (r *runState) add(u *usage) {
	sum := &r.sums
	first := sum.cost == nil
	sum.input, sum.output = plus(sum.input, u.input, maxTokens), plus(sum.output, u.output, maxTokens)
	sum.cached, sum.written = plus(sum.cached, u.cached, maxTokens), plus(sum.written, u.written, maxTokens)
	sum.reasoning = plus(sum.reasoning, u.reasoning, maxTokens)
	switch {
	case u.cost == nil || r.mixed:
		return
	case first:
		sum.currency, sum.source = u.currency, u.source
	case sum.currency != u.currency:
		r.mixed = true
		sum.cost, sum.currency, sum.source = nil, "", ""
		return
	case sum.source != u.source:
		sum.source = ""
	}
	sum.cost = plus(sum.cost, u.cost, row.MaxMoney)
}

// plus returns the sum of two numbers, nil if both are nil, and at most most. It changes neither: rows share them.
func plus[N ~int64](a, b *N, most N) *N {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	return new(min(*a+*b, most))
}

// setSums sets what the steps and calls of a run add up to.
func (it *item) setSums() {
	r, o := it.run, it.row
	r.sums.set(o)
	o.Steps, o.ToolCalls, o.FailedToolCalls = new(r.steps), new(r.calls), new(r.failedCalls)
}
