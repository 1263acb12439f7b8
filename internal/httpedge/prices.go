package httpedge

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// Prices is a list of prices of models, by which the costs in lists of sessions are computed, in the form of docs/guides/analytics.md. The zero Prices has none.
type Prices struct {
	Currency string  `json:"currency"` // "" is USD
	Models   []Price `json:"models"`
}

// Price is the price of a million tokens of the models whose names match a pattern of path.Match.
type Price struct {
	Match    string   `json:"match"`
	Provider string   `json:"provider"` // "" for any
	From     string   `json:"from"`     // the day from which on it applies, "" for all
	Input    *float64 `json:"input"`
	Output   *float64 `json:"output"`
	Cached   *float64 `json:"cached"`  // nil is Input
	Written  *float64 `json:"written"` // nil is Input
}

// Validate reports what is wrong with p.
func (p Prices) Validate() error {
	for i, m := range p.Models {
		_, err := path.Match(m.Match, "")
		if _, dayErr := time.Parse(time.DateOnly, cmp.Or(m.From, "2026-01-01")); err == nil {
			err = dayErr
		}
		for _, price := range []*float64{m.Input, m.Output, m.Cached, m.Written} {
			if price != nil && (*price < 0 || *price >= 1e6) {
				err = fmt.Errorf("%g is not a price of a million tokens", *price)
			}
		}
		if m.Match == "" || m.Input == nil || m.Output == nil {
			err = errors.New("want match, input and output")
		}
		if err != nil {
			return fmt.Errorf("prices of model %d, %q: %w", i, m.Match, err)
		}
	}
	return nil
}

// of returns the price of a model at a time: the one with the longest pattern, and of those the latest, nil for none.
func (p Prices) of(m fold.ModelUsage, at time.Time) (best *Price) {
	day := at.UTC().Format(time.DateOnly)
	for i := range p.Models {
		e := &p.Models[i]
		ok, err := path.Match(e.Match, m.Model)
		if err != nil || !ok || m.Model == "" || e.Provider != "" && e.Provider != m.Provider || e.From > day {
			continue
		}
		if best == nil || len(e.Match) > len(best.Match) || len(e.Match) == len(best.Match) && e.From > best.From {
			best = e
		}
	}
	return best
}

// cost returns what tokens cost, in billionths of the currency.
func (p *Price) cost(u fold.Usage) float64 {
	cached := min(u.Cached, u.Input)
	written := min(u.CacheWrite, u.Input-cached)
	return 1000 * (float64(u.Input-cached-written)**p.Input + float64(cached)**cmp.Or(p.Cached, p.Input) + float64(written)**cmp.Or(p.Written, p.Input) +
		float64(u.Output)**p.Output)
}

// cost has the members of a cost in a row.
type cost struct {
	Cost        string `json:"cost,omitempty"` // a decimal; "" if nothing has a known cost
	Currency    string `json:"currency,omitempty"`
	CostAtLeast bool   `json:"costAtLeast,omitempty"` // the cost of a part is not known, or in another currency
}

// bill sums the usage of sessions.
type bill struct {
	prices Prices
	models map[modelName]modelUsage
	sums   map[string]float64 // billionths, by currency
	lacks  bool               // the cost of a part is not known
}

type modelName struct{ model, provider string }

// maxBillModels bounds the models that are counted apart.
const maxBillModels = 1000

func newBill(p Prices) *bill {
	p.Currency = cmp.Or(p.Currency, "USD")
	return &bill{prices: p, models: make(map[modelName]modelUsage), sums: make(map[string]float64)}
}

func (b *bill) add(l projector.SessionInfo) {
	for _, m := range l.Summary.Models {
		name := modelName{m.Model, m.Provider}
		of, known := b.models[name]
		if !known && len(b.models) == maxBillModels {
			name = modelName{}
			of = b.models[name]
		}
		b.models[name] = modelUsage{name.model, name.provider, of.Input + m.Input, of.Output + m.Output, of.Cached + m.Cached, of.Written + m.CacheWrite}
		switch price := b.prices.of(m, l.SavedAt); {
		case m.Currency != "":
			b.sums[m.Currency] += float64(m.Cost)
		case price != nil:
			b.sums[b.prices.Currency] += price.cost(m.Usage)
		default:
			b.lacks = true
		}
	}
}

// maxListed bounds the lists of a page by models, agents and errors.
const maxListed = 50

// usage returns the models with most tokens first, that without a name last.
func (b *bill) usage() []modelUsage {
	list := make([]modelUsage, 0, len(b.models))
	var rest modelUsage
	for name, u := range b.models {
		if name != (modelName{}) {
			list = append(list, u)
		} else {
			rest = u
		}
	}
	slices.SortFunc(list, func(x, y modelUsage) int {
		return cmp.Or(cmp.Compare(y.Input+y.Output, x.Input+x.Output), cmp.Compare(x.Model, y.Model), cmp.Compare(x.Provider, y.Provider))
	})
	for _, u := range list[min(len(list), maxListed):] {
		rest = modelUsage{"", "", rest.Input + u.Input, rest.Output + u.Output, rest.Cached + u.Cached, rest.Written + u.Written}
	}
	if list = list[:min(len(list), maxListed)]; rest != (modelUsage{}) {
		list = append(list, rest)
	}
	return list
}

// cost returns the cost in the currency of the prices, or if nothing has one, in the first other one.
func (b *bill) cost() cost {
	currency := b.prices.Currency
	if _, ok := b.sums[currency]; !ok {
		for other := range b.sums {
			if currency == b.prices.Currency || other < currency {
				currency = other
			}
		}
	}
	sum, ok := b.sums[currency]
	if !ok {
		return cost{}
	}
	text := strings.TrimRight(strconv.FormatFloat(sum/1e9, 'f', 6, 64), "0")
	return cost{Cost: strings.TrimSuffix(text, "."), Currency: currency, CostAtLeast: b.lacks || len(b.sums) > 1}
}
