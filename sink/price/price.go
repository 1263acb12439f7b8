// Package price computes what the tokens of a model cost by a list of prices.
//
// Two forms of lists are read. The one of Tailrace has prices for a million tokens:
//
//	{"prices": {"currency": "USD", "models": [
//		{"match": "gpt-5*", "provider": "openai", "from": "2026-08-01", "input": 1.25, "output": 10, "cached": 0.125, "written": 0}
//	]}}
//
// The other one is LiteLLM's model_prices_and_context_window.json, an object of models with prices for one token in US dollars. No prices are part of Tailrace.
package price

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"path"
	"time"

	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

// List is a list of prices. It does not change.
type List struct {
	currency string
	models   []model
}

// model has the prices of the models whose names match.
type model struct {
	match, provider                string
	from                           time.Time // the price applies from then on
	input, output, cached, written *big.Rat  // for one token; nil: as input
}

// entry is a model in the form of Tailrace.
type entry struct {
	Match    string       `json:"match"`
	Provider string       `json:"provider"`
	From     string       `json:"from"` // a day
	Input    json.Number  `json:"input"`
	Output   json.Number  `json:"output"`
	Cached   *json.Number `json:"cached"`
	Written  *json.Number `json:"written"`
}

// Read reads a list in either form. The error names the wrong entry.
func Read(data []byte) (*List, error) {
	var file struct {
		Prices *struct {
			Currency string  `json:"currency"`
			Models   []entry `json:"models"`
		} `json:"prices"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	if file.Prices == nil {
		return readLiteLLM(data)
	}
	l := &List{currency: file.Prices.Currency}
	if l.currency == "" {
		l.currency = "USD"
	}
	for i, e := range file.Prices.Models {
		m, err := e.model()
		if err != nil {
			return nil, fmt.Errorf("prices of model %d, %q: %w", i, e.Match, err)
		}
		l.models = append(l.models, m)
	}
	return l, nil
}

func (e entry) model() (m model, err error) {
	if _, err := path.Match(e.Match, ""); err != nil || e.Match == "" {
		return m, errors.New("match is not a name or a pattern with * and ?")
	}
	m = model{match: e.Match, provider: e.Provider}
	if e.From != "" {
		if m.from, err = time.Parse(time.DateOnly, e.From); err != nil {
			return m, fmt.Errorf("from is %q, want a day such as 2026-08-01", e.From)
		}
	}
	million := big.NewRat(1, 1_000_000)
	for _, p := range []struct {
		to   **big.Rat
		from *json.Number
	}{{&m.input, &e.Input}, {&m.output, &e.Output}, {&m.cached, e.Cached}, {&m.written, e.Written}} {
		if p.from == nil {
			continue
		}
		if *p.to, err = amount(*p.from); err != nil {
			return m, err
		}
		(*p.to).Mul(*p.to, million)
	}
	return m, nil
}

// amount reads a price. A long exponent would take much memory.
func amount(n json.Number) (*big.Rat, error) {
	const longest = 24
	r, ok := new(big.Rat), false
	if f, err := n.Float64(); err == nil && f >= 0 && f < 1e9 && len(n) <= longest {
		r, ok = r.SetString(n.String())
	}
	if !ok {
		return nil, fmt.Errorf("a price is %.40q, want a number of 0 or more", n)
	}
	return r, nil
}

// Cost returns the cost of a step and its currency, and false for a model without a price. The entry with the longest pattern that matches applies; of several, the latest
// one that had begun when the step ended.
func (l *List) Cost(of observe.Priced) (row.Money, string, bool) {
	var best *model
	for i := range l.models {
		m := &l.models[i]
		if ok, err := path.Match(m.match, of.Model); err != nil || !ok || m.provider != "" && m.provider != of.Provider || of.At.Before(m.from) {
			continue
		}
		if best == nil || len(m.match) > len(best.match) || len(m.match) == len(best.match) && m.from.After(best.from) {
			best = m
		}
	}
	if best == nil || best.input == nil || best.output == nil {
		return 0, "", false
	}
	cached, written := min(of.Cached, of.Input), min(of.Written, max(0, of.Input-of.Cached))
	sum := new(big.Rat)
	add := func(tokens int64, price *big.Rat) {
		if price == nil {
			price = best.input
		}
		sum.Add(sum, new(big.Rat).Mul(new(big.Rat).SetInt64(tokens), price))
	}
	add(of.Input-cached-written, best.input)
	add(cached, best.cached)
	add(written, best.written)
	add(of.Output, best.output)
	sum.Mul(sum, big.NewRat(1_000_000_000, 1))
	units := new(big.Int).Quo(sum.Num(), sum.Denom())
	if !units.IsInt64() {
		return 0, "", false
	}
	return row.Money(units.Int64()), l.currency, true
}
