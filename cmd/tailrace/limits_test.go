package main

import (
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/httpkit"
)

func readLimits(t *testing.T, text string) (limitsFile, error) {
	t.Helper()
	return config{Limits: writeFile(t, "limits.json", text)}.readLimits()
}

// A tenant has its own limits, and the default of each that it does not have.
func TestLimitsFile(t *testing.T) {
	f, err := readLimits(t, `{"address": {"rate": "1/2", "streams": 30}, "session": {"streams": "unlimited", "chunks": 4000, "bytes": "5MiB"}, "default": {"rate": "200/400", "subjectRate": "20/60", "streams": 500, "runs": 50, "tokensPerDay": 1000000},
		"tenants": {"acme": {"rate": "0.5/3", "runs": 7, "tokensPerDay": 2000}, "globex": {}, "initech": {"rate": "unlimited"}},
		"prices": {"currency": "EUR", "models": [{"match": "m-*", "provider": "p", "from": "2026-08-01", "input": 1.25, "output": 10, "cached": 0.125, "written": 0}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	def := tenantLimits{Rate: httpkit.Rate{PerSecond: 200, Burst: 400}, SubjectRate: httpkit.Rate{PerSecond: 20, Burst: 60}, Streams: 500, Runs: 50, TokensPerDay: 1_000_000}
	acme := def
	acme.Rate, acme.Runs, acme.TokensPerDay = httpkit.Rate{PerSecond: 0.5, Burst: 3}, 7, 2000
	initech := def
	initech.Rate = httpkit.Unlimited
	for tenant, want := range map[string]tenantLimits{"acme": acme, "initech": initech, "globex": def, "other": def} {
		if got := f.of(tenant); got != want {
			t.Errorf("%s: %+v, want %+v", tenant, got, want)
		}
	}
	if p := f.Prices; p.Currency != "EUR" || len(p.Models) != 1 || *p.Models[0].Cached != 0.125 {
		t.Errorf("%+v", p)
	}
	streams := f.streams(config{MaxStreams: 9})
	if streams.PerTenant != 500 || streams.Tenants["acme"] != 500 || streams.Streams != 9 || streams.PerAddress != 30 || streams.PerSession != httpkit.Off {
		t.Errorf("%+v", streams)
	}
	rates := f.rates(config{Auth: "auth.json"})
	if rates.Tenant("acme") != (httpkit.Rate{PerSecond: 0.5, Burst: 3}) || rates.Subject("acme") != (httpkit.Rate{PerSecond: 20, Burst: 60}) || rates.Address != (httpkit.Rate{PerSecond: 1, Burst: 2}) {
		t.Errorf("%+v", rates)
	}
	if p := (config{limits: f}).producerConfig(); p.MaxSessionChunks != 4000 || p.MaxSessionBytes != 5<<20 {
		t.Errorf("a session has %d chunks and %d bytes", p.MaxSessionChunks, p.MaxSessionBytes)
	}
	if f.runs("acme") != 7 || f.runs("other") != 50 {
		t.Errorf("runs: %d and %d", f.runs("acme"), f.runs("other"))
	}
	if f.tokensPerDay("acme") != 2000 || f.tokensPerDay("other") != 1_000_000 {
		t.Errorf("tokens per day: %d and %d", f.tokensPerDay("acme"), f.tokensPerDay("other"))
	}
	if f.rates(config{}).Subject != nil {
		t.Error("without authenticators all clients are one subject, which has no rate")
	}
	if f, err := (config{}).readLimits(); err != nil || f.of("acme") != (tenantLimits{}) || f.streams(config{}).PerTenant != httpkit.Off {
		t.Errorf("without a file: %+v, %v", f, err)
	}
}

func TestLimitsFileRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"tenants": {"acme": {"rates": "1/1"}}}`:  "rates",
		`{"tenants": {"acme": {"rate": "fast"}}}`:  "rate",
		`{"tenants": {"acme": {"rate": "1"}}}`:     "rate",
		`{"tenants": {"acme": {"rate": "NaN/5"}}}`: "rate",
		`{"tenants": {"acme": {"rate": "Inf/5"}}}`: "rate",
		`{"tenants": {"acme": {"rate": "0/5"}}}`:   "rate",
		`{"tenants": {"acme": {"rate": "-1/5"}}}`:  "rate",
		`{"tenants": {"acme": {"rate": "5/0"}}}`:   "rate",
		`{"tenants": {"acme": {"runs": -1}}}`:      "tenant acme",
		`{"default": {"streams": -1}}`:             "default",
		`{"tenants": {"a.b": {}}}`:                 "a.b",
		`{"default": {"runs": 1}, "default": {}}`:  "default",
		`{"default": {"tokensPerDay": -1}}`:        "default",
		`{"default": {"tokensPerHour": 15}}`:       "tokensPerHour",
		`{"address": {"streams": 0}}`:              "want 1 or more, or \"unlimited\"",
		`{"session": {"streams": "many"}}`:         "session.streams",
		`{"session": {"chunks": 1.5}}`:             "want 1 or more",
		`{"session": {"bytes": 1000}}`:             "session.bytes",
		`{"address": {"runs": 1}}`:                 "runs",
		`{"prices": {"models": [{"match": "m"}]}}`: "want match, input and output",
		``: "EOF",
	} {
		if _, err := readLimits(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
	if _, err := (config{Limits: filepath.Join(t.TempDir(), "none")}).readLimits(); err == nil {
		t.Error("a file that does not exist")
	}
}

// Every route of the edge and of its surfaces has a rate, except for streams and public ones: the second request of a tenant is refused. Streams have places.
func TestRatesOfAllRoutes(t *testing.T) {
	t.Setenv("TAILRACE_LIMITS", writeFile(t, "limits.json", `{"default": {"rate": "0.0001/1"}}`))
	m := newMatrix(t)
	opens := []string{"/v1/events", "/v1/sessions/{id}/events", "/api/chat/{id}", "/api/chat/{id}/stream", "/agents/sse"}
	rated, streams := 0, 0
	for i, p := range m.edge.edge.Policies() {
		stream := p.Method == http.MethodGet && slices.Contains(opens, p.Path)
		if p.Rated == (stream || p.Public) {
			t.Errorf("%s %s has a rate: %t", p.Method, p.Path, p.Rated)
		}
		if p.Public {
			continue
		}
		grant := auth.Grant{Tenant: "t" + strconv.Itoa(i), Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}
		token := m.issuer.Token(grant, time.Hour, nil)
		first, second := m.send(t, p, "s1", token), m.send(t, p, "s1", token)
		if refused := second.status == http.StatusTooManyRequests; refused != p.Rated || first.status == http.StatusTooManyRequests {
			t.Errorf("%s %s: %d, then %d", p.Method, p.Path, first.status, second.status)
		}
		if p.Rated && !strings.Contains(second.header, "Retry-After") || p.Rated && !strings.Contains(second.body, "TOO_MANY_REQUESTS_OF_TENANT") {
			t.Errorf("%s %s: %s %s", p.Method, p.Path, second.header, second.body)
		}
		if p.Rated {
			rated++
		} else {
			streams++
		}
	}
	if rated < 20 || streams != len(opens) {
		t.Errorf("%d routes with a rate, %d streams", rated, streams)
	}
}
