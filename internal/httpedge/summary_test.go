package httpedge_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	audience "github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

// countedDirectory is a directory that counts its reads, and has the last query.
type countedDirectory struct {
	directory

	mu    sync.Mutex // requests of several clients read at once
	reads int
	query projector.SessionQuery
}

func (d *countedDirectory) Sessions(ctx context.Context, tenant string, q projector.SessionQuery) (projector.SessionPage, error) {
	d.mu.Lock()
	d.reads++
	d.query = q
	d.mu.Unlock()
	page, err := d.directory.Sessions(ctx, tenant, q)
	page.Scanned, page.Through = len(d.directory), time.UnixMilli(2500)
	if page.Next == "" {
		page.Through = time.Time{}
	}
	return page, err
}

func failedSessions() *countedDirectory {
	d := someSessions()
	model := func(name string, u fold.Usage) fold.ModelUsage {
		return fold.ModelUsage{Model: name, Provider: "p", Usage: u}
	}
	reported := model("other", fold.Usage{Input: 50})
	reported.Currency, reported.Cost = "USD", 40_000_000
	failure := func(n int) *fold.LatestError {
		return &fold.LatestError{Code: "tool_failed", Tool: "get_order", Text: fmt.Sprintf(`no answer from "o%d" after %d ms`, n, n), At: int64(n)}
	}
	d[0].Summary = fold.Summary{Title: "Where is it?", Runs: 2, Messages: 5, FailedCalls: 1, Error: failure(900), Approvals: 1, Models: []fold.ModelUsage{
		model("m-1", fold.Usage{Input: 1_000_000, Output: 100_000, Cached: 500_000, CacheWrite: 100_000}), reported,
	}}
	d[1].Summary = fold.Summary{Error: failure(100), Models: []fold.ModelUsage{model("m-2", fold.Usage{Output: 3})}}
	d[2].Summary = fold.Summary{Error: &fold.LatestError{Code: "network", Text: "gone"}}
	return &countedDirectory{directory: d}
}

func prices() httpedge.Prices {
	return httpedge.Prices{Models: []httpedge.Price{
		{Match: "m*", Input: new(100.0), Output: new(100.0)},
		{Match: "m-1", Input: new(1.0), Output: new(10.0), Cached: new(0.1), Written: new(2.0)},
		{Match: "m-1", Provider: "elsewhere", Input: new(100.0), Output: new(100.0)},
		{Match: "m-1", From: "2100-01-01", Input: new(100.0), Output: new(100.0)},
	}}
}

// A row has the summary of its session, its cost by the prices, or what records report.
func TestListedSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := failedSessions()
		w := newEnv(t, envConfig{edge: httpedge.Config{Views: mustViews(audience.Config{Views: theAudiences}), Sessions: d, Prices: prices()}})
		group := d.directory[0].Summary.Error.Group()
		// 400,000 tokens of input at 1, 500,000 cached at 0.1, 100,000 written at 2, 100,000 of output at 10, and 0.04 reported
		want := `"title":"Where is it?","runs":2,"messages":5,"usage":[{"model":"m-1","provider":"p","input":1000000,"output":100000,"cached":500000,"written":100000},` +
			`{"model":"other","provider":"p","input":50,"output":0,"cached":0,"written":0}],"failedCalls":1,` +
			`"error":{"code":"tool_failed","text":"no answer from \"o900\" after 900 ms","tool":"get_order","group":"` + group + `","time":900},` +
			`"waits":{"approvals":1,"clientTools":0}}`
		body := w.record(http.MethodGet, "/v1/sessions?limit=2", nil).Body.String()
		if !strings.Contains(body, want) || !strings.Contains(body, `[{"cost":"1.69","currency":"USD","session"`) || !strings.Contains(body, `{"cost":"0.0003","currency":"USD","session"`) || !strings.HasSuffix(body, `"before":"2","scanned":3,"through":2500}`) {
			t.Errorf("%s\nwant %s", body, want)
		}
		body = w.record(http.MethodGet, "/v1/sessions?limit=1&view=public", nil).Body.String()
		for _, hidden := range []string{"usage", "cost", "currency", "messages", "costAtLeast"} {
			if strings.Contains(body, `"`+hidden+`"`) {
				t.Errorf("the view public shows %s: %s", hidden, body)
			}
		}
		if !strings.Contains(body, `"title":"Where is it?"`) {
			t.Errorf("the view public hides the title: %s", body)
		}
	})
}

// The parameters of the list are those of the query of the store, and a filter that compares what a view hides is refused.
func TestFilterParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := failedSessions()
		w := newEnv(t, envConfig{edge: httpedge.Config{Views: mustViews(audience.Config{Views: theAudiences}), Sessions: d}})
		since, until := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
		w.record(http.MethodGet, "/v1/sessions?owner=ann&since=2026-11-29T01:00:00%2B01:00&until=2026-11-30T00:00:00Z&error=5c1f&model=m-1&waiting=1&q=parcel&in=title", nil)
		q := d.query
		if q.Owner != "ann" || !q.Since.Equal(since) || !q.Until.Equal(until) || q.ErrorGroup != "5c1f" || q.Model != "m-1" || !q.Waiting || q.Text != "parcel" || !q.TitleOnly {
			t.Errorf("%+v", q)
		}
		for _, bad := range []string{
			"since=yesterday", "until=1", "waiting=2", "in=text", "q=" + strings.Repeat("x", 401), "owner=" + strings.Repeat("x", 257), "q=a&q=b",
			"view=words&q=x", "view=words&q=x&in=title", "view=words&error=x", "view=words&waiting=1", "view=words&model=x", "view=public&model=m-1", "model=" + strings.Repeat("x", 401), "view=words&owner=x", "view=words&agentType=x",
		} {
			if rec := w.record(http.MethodGet, "/v1/sessions?"+bad, nil); rec.Code != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, rec.Code, rec.Body)
			}
		}
		for _, good := range []string{"view=staff&q=x", "view=staff&error=x&waiting=1&owner=x&model=x", "view=public&q=x&in=title", "view=masked&q=x"} {
			if rec := w.record(http.MethodGet, "/v1/sessions?"+good, nil); rec.Code != http.StatusOK {
				t.Errorf("%s: %d %s", good, rec.Code, rec.Body)
			}
		}
	})
}

// A summary has the totals and the errors by group. It serves the same clients for some time, and has what a view shows.
func TestSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := failedSessions()
		w := newEnv(t, envConfig{edge: httpedge.Config{Views: mustViews(audience.Config{Views: theAudiences}), Sessions: d, Prices: prices()}})
		get := func(query string) string {
			return w.record(http.MethodGet, "/v1/sessions/summary"+query, nil).Body.String()
		}
		orders, gone := d.directory[0].Summary.Error, d.directory[2].Summary.Error
		want := `{"cost":"1.6903","currency":"USD","sessions":3,"complete":true,"byStatus":{"active":2,"ended":1},"waiting":1,"byAgent":[{"agentType":"coder","sessions":2},{"agentType":"writer","sessions":1}],` +
			`"usage":[{"model":"m-1","provider":"p","input":1000000,"output":100000,"cached":500000,"written":100000},{"model":"other","provider":"p","input":50,"output":0,"cached":0,"written":0},` +
			`{"model":"m-2","provider":"p","input":0,"output":3,"cached":0,"written":0}],` +
			`"errors":[{"group":"` + orders.Group() + `","code":"tool_failed","tool":"get_order","text":"no answer from \u003cword\u003e after \u003cn\u003e ms","count":2,"first":100,"last":900,"latest":["a","b"]},` +
			`{"group":"` + gone.Group() + `","code":"network","text":"gone","count":1,"latest":["c"]}]}`
		if got := get(""); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if d.query.Limit != projector.MaxScan {
			t.Errorf("%+v", d.query)
		}
		get("")
		if d.reads != 1 {
			t.Errorf("%d reads in ten seconds, want 1", d.reads)
		}
		if get("?agentType=coder"); d.reads != 2 {
			t.Errorf("%d reads, want another one for another query", d.reads)
		}
		if got := get("?view=words"); got != `{"sessions":3,"complete":true,"byStatus":{"active":2,"ended":1}}` {
			t.Errorf("the view shows %s", got)
		}
		<-time.After(11 * time.Second)
		d.directory = append(d.directory, projector.SessionInfo{Session: chunk.RootSession("default", "d"), Status: fold.Failed})
		if got := get(""); !strings.Contains(got, `"sessions":4`) {
			t.Errorf("after ten seconds the summary is %s", got)
		}
		for _, bad := range []string{"?since=x", "?view=words&owner=x"} {
			if rec := w.record(http.MethodGet, "/v1/sessions/summary"+bad, nil); rec.Code != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, rec.Code, rec.Body)
			}
		}
	})
}

// Prices that cannot be meant are refused.
func TestPrices(t *testing.T) {
	for _, p := range []httpedge.Price{
		{Input: new(1.0), Output: new(1.0)}, {Match: "[", Input: new(1.0), Output: new(1.0)}, {Match: "m", Input: new(1.0)},
		{Match: "m", Input: new(-1.0), Output: new(1.0)}, {Match: "m", Input: new(1.0), Output: new(1e7)}, {Match: "m", From: "soon", Input: new(1.0), Output: new(1.0)},
	} {
		if (httpedge.Prices{Models: []httpedge.Price{p}}).Validate() == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}

// A summary that an edge keeps for one client is not that of a client of another tenant, or of one that reads other sessions.
func TestSummaryRights(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	d := &countedDirectory{}
	for n, owner := range []string{"ann", "ann", "bob", "eve"} {
		tenant := []string{"acme", "globex"}[n/3]
		failure := &fold.LatestError{Text: owner + " failed", At: 1}
		d.directory = append(d.directory, projector.SessionInfo{Session: chunk.RootSession(tenant, fmt.Sprint("s", n)), Owner: owner, Status: fold.Failed, Summary: fold.Summary{Error: failure}})
	}
	w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: issuer, Sessions: d}})
	for range 2 { // the second time from what was kept
		for _, tt := range []struct {
			tenant, subject string
			own             bool
			sessions        int
			texts           []string
		}{
			{"acme", "ann", false, 3, []string{"ann", "bob"}},
			{"acme", "ann", true, 2, []string{"ann"}},
			{"acme", "bob", true, 1, []string{"bob"}},
			{"globex", "ann", false, 1, []string{"eve"}},
			{"globex", "ann", true, 0, nil},
		} {
			token := issuer.Token(auth.Grant{Tenant: tt.tenant, Subject: tt.subject, Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: !tt.own, Own: tt.own}}, time.Hour, nil)
			body := w.record(http.MethodGet, "/v1/sessions/summary", bearer(token)).Body.String()
			if !strings.HasPrefix(body, fmt.Sprintf(`{"sessions":%d,`, tt.sessions)) || strings.Count(body, " failed") != len(tt.texts) {
				t.Errorf("%+v: %s", tt, body)
			}
			for _, text := range tt.texts {
				if !strings.Contains(body, text+" failed") {
					t.Errorf("%+v: %s", tt, body)
				}
			}
		}
	}
	if d.reads != 5 {
		t.Errorf("%d reads, want 5", d.reads)
	}
}
