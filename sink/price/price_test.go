package price_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/price"
	"github.com/tailrace/tailrace/sink/row"
)

const list = `{"prices":{"currency":"EUR","models":[
	{"match":"gpt-5*","input":1.25,"output":10,"cached":0.125},
	{"match":"gpt-5-mini*","input":0.25,"output":2},
	{"match":"gpt-5*","from":"2026-08-01","input":2.5,"output":20,"cached":0.25,"written":3},
	{"match":"llama-?","provider":"local","input":0,"output":0}
]}}`

func TestCost(t *testing.T) {
	l, err := price.Read([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	before, after := time.Date(2026, 7, 31, 23, 59, 59, 0, time.UTC), time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		of   observe.Priced
		want row.Money
		ok   bool
	}{
		"before the new price":        {observe.Priced{Model: "gpt-5", At: before, Input: 1_000_000, Output: 100_000}, 2_250_000_000, true},
		"with the new price":          {observe.Priced{Model: "gpt-5", At: after, Input: 1_000_000, Output: 100_000}, 4_500_000_000, true},
		"cached tokens":               {observe.Priced{Model: "gpt-5", At: before, Input: 1_000_000, Cached: 400_000}, 800_000_000, true},
		"written tokens":              {observe.Priced{Model: "gpt-5", At: after, Input: 1_000_000, Cached: 400_000, Written: 100_000}, 1_650_000_000, true},
		"more cached than input":      {observe.Priced{Model: "gpt-5", At: before, Input: 10, Cached: 1000}, 1_250, true},
		"the longest pattern":         {observe.Priced{Model: "gpt-5-mini-2026", At: after, Input: 4, Output: 1}, 3_000, true},
		"one token":                   {observe.Priced{Model: "gpt-5", At: before, Input: 1}, 1_250, true},
		"a free model":                {observe.Priced{Model: "llama-4", Provider: "local", At: after, Input: 4}, 0, true},
		"a model of another provider": {observe.Priced{Model: "llama-4", Provider: "other", At: after}, 0, false},
		"an unknown model":            {observe.Priced{Model: "claude", At: after}, 0, false},
		"more than can be counted":    {observe.Priced{Model: "gpt-5", At: after, Input: 1 << 60, Output: 1 << 60}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, currency, ok := l.Cost(c.of)
			if got != c.want || ok != c.ok || ok && currency != "EUR" {
				t.Errorf("cost %d %s %v, want %d %v", got, currency, ok, c.want, c.ok)
			}
		})
	}
}

func TestLiteLLM(t *testing.T) {
	l, err := price.Read([]byte(`{
		"sample_spec": {"input_cost_per_token": "a text"},
		"gpt-4o": {"litellm_provider": "openai", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-06},
		"groq/llama[8b]": {"litellm_provider": "groq", "input_cost_per_token": 5e-08, "output_cost_per_token": 8e-08},
		"dall-e": {"litellm_provider": "openai", "input_cost_per_image": 1}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, ok := l.Cost(observe.Priced{Model: "gpt-4o", Provider: "azure", Input: 1000, Cached: 200, Output: 10}); !ok || got != 2_350_000 {
		t.Errorf("gpt-4o: %d %v", got, ok)
	}
	if got, _, ok := l.Cost(observe.Priced{Model: "llama[8b]", Provider: "groq", Input: 1}); !ok || got != 50 {
		t.Errorf("llama: %d %v", got, ok)
	}
	if _, _, ok := l.Cost(observe.Priced{Model: "dall-e", Provider: "openai"}); ok {
		t.Error("a price for images counts as one for tokens")
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "prices:", `{}`: "want a member prices", `{"prices":{"models":[{"match":""}]}}`: "match",
		`{"prices":{"models":[{"match":"[","input":1,"output":1}]}}`:                       "match",
		`{"prices":{"models":[{"match":"m","input":-1,"output":1}]}}`:                      "-1",
		`{"prices":{"models":[{"match":"m","input":1e999999999,"output":1}]}}`:             "1e999999999",
		`{"prices":{"models":[{"match":"m","input":1,"output":1,"from":"yesterday"}]}}`:    "yesterday",
		`{"prices":{"models":[{"match":"m","input":1,"output":1,"cached":1e-999999999}]}}`: "",
	} {
		if _, err := price.Read([]byte(text)); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}
