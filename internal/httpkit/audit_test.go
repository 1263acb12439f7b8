package httpkit_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// auditStore stores events in memory, or fails.
type auditStore struct {
	err    error
	events []audit.Event
}

func (s *auditStore) Put(_ context.Context, e audit.Event) error {
	s.events = append(s.events, e)
	return s.err
}

// A route with an Act is recorded with what Serve says it was for: done, failed from status 500, and not at all if it was refused for another reason. It is not
// served if the log is required and cannot be written.
func TestActOfRoute(t *testing.T) {
	for name, tt := range map[string]struct {
		mode    audit.Mode
		err     error
		problem *httpkit.Problem
		status  int
		served  bool
		want    []audit.Outcome
	}{
		"done":           {audit.Sync, nil, nil, 200, true, []audit.Outcome{audit.Done}},
		"failed":         {audit.Sync, nil, httpkit.NewProblem(503, "X", "x", ""), 503, true, []audit.Outcome{audit.Failed}},
		"invalid":        {audit.Sync, nil, httpkit.NewProblem(400, "X", "x", ""), 400, true, nil},
		"required":       {audit.Required, nil, nil, 200, true, []audit.Outcome{audit.Requested}},
		"required, away": {audit.Required, errors.New("away"), nil, 503, false, []audit.Outcome{audit.Requested}},
	} {
		store, served := &auditStore{err: tt.err}, false
		rr, err := httpkit.NewRouter([]httpkit.Route{{
			Name: "x", Method: http.MethodPost, Path: "/x/{id}", Scope: auth.ScopeAdmin, OtherID: true, Act: audit.RevokeToken,
			Serve: func(_ http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
				served = true
				audit.Describe(r.Context(), audit.Event{Run: "r1"})
				return tt.problem
			},
		}}, httpkit.Options{
			Authenticator: authenticator(func(*http.Request) (*auth.Grant, error) {
				return &auth.Grant{Tenant: "acme", Subject: "ann", TokenID: "t1", Scopes: auth.AllScopes}, nil
			}),
			Audit: &httpkit.Auditor{Log: audit.New(audit.Config{Store: store, Mode: tt.mode})}, Respond: &httpkit.Responder{Log: slog.New(slog.DiscardHandler)},
		})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		rr.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/x/t2", nil))
		if w.Code != tt.status || served != tt.served || len(store.events) != len(tt.want) {
			t.Errorf("%s: %d, served %t, events %+v", name, w.Code, served, store.events)
			continue
		}
		for i, e := range store.events {
			if e.Outcome != tt.want[i] || e.Act != audit.RevokeToken || e.Target != "t2" || e.By.TokenID != "t1" || e.Tenant != "acme" || e.Route != "POST /x/{id}" || e.Address != "192.0.2.1" {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}
