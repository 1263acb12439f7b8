package sinktest

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// Prices are those of models.
type Prices struct {
	Currency string
	Models   map[string]Price // by the name of the model
}

// Price has the prices of a model, in units of 0.000000001 for a token.
type Price struct {
	Provider                       string // "" is each one
	Input, Output, Cached, Written int64
}

// SomePrices are those of two of the three models that the logs have. The largest numbers of tokens cost more than stores accept.
var SomePrices = Prices{Currency: "USD", Models: map[string]Price{
	"m0": {Input: 20, Output: 80, Cached: 2, Written: 25}, "m1": {Provider: "openai", Input: 30, Output: 200, Cached: 0, Written: 30},
}}

// List is p as a file of prices, which are for a million tokens.
func (p Prices) List() string {
	var models []string
	for name, m := range p.Models {
		models = append(models, fmt.Sprintf(`{"match": %q, "provider": %q, "input": %de-3, "output": %de-3, "cached": %de-3, "written": %de-3}`, name, m.Provider, m.Input, m.Output, m.Cached, m.Written))
	}
	return fmt.Sprintf(`{"prices": {"currency": %q, "models": [%s]}}`, p.Currency, strings.Join(models, ", "))
}

// sums are the tokens and the cost of a step, or of the steps of a run.
type sums struct {
	tokens           [5]*int64
	cost             *int64
	currency, source string
	mixed            bool // of several currencies: there is no sum
}

// String is what UsageOf returns for the row.
func (s *sums) String() string {
	return fmt.Sprintf("%s %s %s %s %s %s %s %s", number(s.tokens[0]), number(s.tokens[1]), number(s.tokens[2]), number(s.tokens[3]), number(s.tokens[4]), money(s.cost), orNone(s.currency), orNone(s.source))
}

// UsageOf returns the tokens and the cost of a row: input, output, cached, written and reasoning tokens, cost, currency and its source. A null is -.
func UsageOf(o row.Observation) string {
	s := sums{
		tokens: [5]*int64{o.InputTokens, o.OutputTokens, o.CachedTokens, o.CacheWriteTokens, o.ReasoningTokens}, cost: (*int64)(o.Cost), currency: o.Currency, source: o.CostSource,
	}
	return s.String()
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func money(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%d.%09d", *n/1_000_000_000, *n%1_000_000_000)
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

const (
	mostTokens = 1<<53 - 1
	mostMoney  = 1_000_000_000*1_000_000_000 - 1
)

// addUsage sets the tokens and the cost of the open step, and adds them to those of the run.
func (r *reference) addUsage(b chunk.StepEnd) {
	if b.Usage == nil {
		return
	}
	u, s := *b.Usage, &r.step.sums
	for i, n := range []*chunk.Number{&u.InputTokens, &u.OutputTokens, u.CachedTokens, u.CacheWriteTokens, u.ReasoningTokens} {
		if n != nil {
			s.tokens[i] = new(tokensOf(*n))
		}
	}
	model, provider := r.run.model, r.run.provider
	if b.Model != nil {
		model = *b.Model
	}
	if b.Provider != nil {
		provider = *b.Provider
	}
	switch price, listed := r.prices.Models[model]; {
	case u.Cost != nil:
		s.cost, s.currency, s.source = new(unitsOf(*u.Cost)), "USD", "reported"
		if u.Currency != nil {
			s.currency = *u.Currency
		}
	case listed && (price.Provider == "" || price.Provider == provider):
		s.cost, s.currency, s.source = new(price.of(s.tokens)), r.prices.Currency, "list"
	}
	r.run.sums.add(*s)
}

// tokensOf returns a number of tokens: whole, not negative, and at most the largest one that every reader of JSON has exactly.
func tokensOf(n chunk.Number) int64 {
	f, _, err := big.ParseFloat(string(n), 10, 2000, big.ToZero)
	if err != nil || f.Sign() < 0 {
		return 0
	}
	if f.Cmp(big.NewFloat(mostTokens)) > 0 {
		return mostTokens
	}
	v, _ := f.Int64()
	return v
}

// unitsOf returns an amount, whose digits after the ninth are cut.
func unitsOf(amount string) int64 {
	v, ok := new(big.Rat).SetString(amount)
	if !ok {
		return 0
	}
	v.Mul(v, big.NewRat(1_000_000_000, 1))
	return new(big.Int).Quo(v.Num(), v.Denom()).Int64()
}

// of returns the cost of tokens, at most the largest amount that stores accept. Those of a cache are part of the input.
func (p Price) of(tokens [5]*int64) int64 {
	value := func(i int) int64 {
		if tokens[i] == nil {
			return 0
		}
		return *tokens[i]
	}
	input, output := value(0), value(1)
	cached := min(value(2), input)
	written := min(value(3), input-cached)
	sum := new(big.Int)
	for _, part := range [][2]int64{{input - cached - written, p.Input}, {cached, p.Cached}, {written, p.Written}, {output, p.Output}} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	if sum.Cmp(big.NewInt(mostMoney)) > 0 {
		return mostMoney
	}
	return sum.Int64()
}

// add adds a step. Unknown values do not count; costs of several currencies have no sum, and a sum of several sources has no source.
func (s *sums) add(step sums) {
	for i, n := range step.tokens {
		switch {
		case n == nil:
		case s.tokens[i] == nil:
			s.tokens[i] = n
		default:
			s.tokens[i] = new(min(*s.tokens[i]+*n, mostTokens))
		}
	}
	switch {
	case step.cost == nil || s.mixed:
	case s.cost == nil:
		s.cost, s.currency, s.source = step.cost, step.currency, step.source
	case s.currency != step.currency:
		s.cost, s.currency, s.source, s.mixed = nil, "", "", true
	default:
		s.cost = new(min(*s.cost+*step.cost, mostMoney))
		if s.source != step.source {
			s.source = ""
		}
	}
}
