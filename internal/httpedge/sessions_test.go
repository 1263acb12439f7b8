package httpedge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/projector"
	audience "github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

// directory lists these sessions, with their number as the cursor.
type directory []projector.SessionInfo

func (d directory) Sessions(_ context.Context, tenant string, q projector.SessionQuery) (projector.SessionPage, error) {
	from := 0
	if q.Before != "" {
		var err error
		if from, err = strconv.Atoi(q.Before); err != nil {
			return projector.SessionPage{}, errors.Join(err, projector.ErrBadCursor)
		}
	}
	var page projector.SessionPage
	for n, l := range slices.All(d[from:]) {
		if len(page.Sessions) == q.Limit {
			page.Next = strconv.Itoa(from + n)
			return page, nil
		}
		selected, more := true, true
		if q.Select != nil {
			selected, more = q.Select(l)
		}
		if !more {
			page.Next = strconv.Itoa(from + n)
			return page, nil
		}
		if selected && l.Session.Tenant == tenant && (q.Status == "" || l.Status == q.Status) && (q.AgentType == "" || l.AgentType == q.AgentType) && (q.Shows == nil || q.Shows(l.Session.ID, l.Owner)) {
			page.Sessions = append(page.Sessions, l)
		}
	}
	return page, nil
}

func someSessions() directory {
	listed := func(id, agent string, status fold.Status) projector.SessionInfo {
		return projector.SessionInfo{
			Session: chunk.RootSession("default", id), AgentType: agent, Status: status, Position: chunk.Position{Seq: 7},
			Created: time.UnixMilli(1000), StartedAt: time.UnixMilli(2000), SavedAt: time.UnixMilli(3000),
		}
	}
	d := directory{listed("a", "writer", "active"), listed("b", "coder", "ended"), listed("c", "coder", "active")}
	d[1].StartedAt = time.Time{}
	return d
}

func TestSessions(t *testing.T) {
	bound := mustViews(audience.Config{Views: theAudiences, Default: "words", Selectable: []string{"staff"}})
	const (
		rest = `,"runs":0,"messages":0,"usage":[],"failedCalls":0,"error":null,"waits":{"approvals":0,"clientTools":0}}`

		a = `{"session":{"tenant":"default","root":"a","id":"a","agentType":"writer"},"status":"active","streamSequence":7,"created":1000,"began":2000,"timestamp":3000` + rest
		b = `{"session":{"tenant":"default","root":"b","id":"b","agentType":"coder"},"status":"ended","streamSequence":7,"created":1000,"began":null,"timestamp":3000` + rest
		c = `{"session":{"tenant":"default","root":"c","id":"c","agentType":"coder"},"status":"active","streamSequence":7,"created":1000,"began":2000,"timestamp":3000` + rest
	)
	blind := strings.NewReplacer(`,"agentType":"writer"`, "", `,"agentType":"coder"`, "", rest, "}")
	for _, tt := range []struct {
		views  *audience.Views
		query  string
		status int
		want   string
	}{
		{nil, "", 200, `{"sessions":[` + a + `,` + b + `,` + c + `],"before":null,"scanned":0}`},
		{nil, "?status=active", 200, `{"sessions":[` + a + `,` + c + `],"before":null,"scanned":0}`},
		{nil, "?status=active&agentType=coder", 200, `{"sessions":[` + c + `],"before":null,"scanned":0}`},
		{nil, "?status=paused", 200, `{"sessions":[],"before":null,"scanned":0}`},
		{nil, "?limit=2", 200, `{"sessions":[` + a + `,` + b + `],"before":"2","scanned":0}`},
		{nil, "?limit=2&before=2", 200, `{"sessions":[` + c + `],"before":null,"scanned":0}`},
		{nil, "?status=asleep", 400, codeBadParameter},
		{nil, "?limit=0", 400, codeBadParameter},
		{nil, "?limit=201", 400, codeBadParameter},
		{nil, "?limit=1&limit=2", 400, codeBadParameter},
		{nil, "?view=staff", 400, codeBadParameter},
		{nil, "?before=x", 400, "BAD_CURSOR"},
		{nil, "?before=" + strings.Repeat("1", 257), 400, "BAD_CURSOR"},
		{nil, "?agentType=" + strings.Repeat("x", 257), 400, codeBadParameter},
		{bound, "", 200, blind.Replace(`{"sessions":[` + a + `,` + b + `,` + c + `],"before":null,"scanned":0}`)},
		{bound, "?agentType=coder", 400, codeBadParameter}, // it would reveal hidden types
		{bound, "?view=staff&agentType=coder", 200, `{"sessions":[` + b + `,` + c + `],"before":null,"scanned":0}`},
		{bound, "?view=audit", 400, codeBadParameter},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnv(t, envConfig{edge: httpedge.Config{Views: tt.views, Sessions: someSessions()}})
			rec := w.record(http.MethodGet, "/v1/sessions"+tt.query, nil)
			got := rec.Body.String()
			if rec.Code != tt.status || got != tt.want && (tt.status == 200 || !strings.Contains(got, tt.want)) || rec.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %s\nwant %d %s", tt.query, rec.Code, got, tt.status, tt.want)
			}
		})
	}
}

// slowDirectory lists no session before the client leaves.
type slowDirectory struct{}

func (slowDirectory) Sessions(ctx context.Context, _ string, _ projector.SessionQuery) (projector.SessionPage, error) {
	<-ctx.Done()
	return projector.SessionPage{}, fmt.Errorf("read: %w", ctx.Err())
}

// A list that its client no longer waits for is no warning. One that takes too long is.
func TestListOfAClientThatLeft(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait time.Duration
		want int
	}{{"left", time.Second, 0}, {"waits", time.Hour, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := newEnv(t, envConfig{edge: httpedge.Config{Sessions: slowDirectory{}, Log: slog.New(slog.NewTextHandler(&log, nil))}})
				ctx, cancel := context.WithTimeout(t.Context(), tt.wait)
				defer cancel()
				w.serveRequest(httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/sessions", nil))
				synctest.Wait()
				w.close()
				if got := strings.Count(log.String(), "session list failed"); got != tt.want {
					t.Errorf("%d lines, want %d: %s", got, tt.want, log.String())
				}
			})
		})
	}
}

// An edge without a list responds that there are no sessions.
func TestNoDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		for _, path := range []string{"/v1/sessions", "/v1/sessions/"} {
			if rec := w.record(http.MethodGet, path, nil); rec.Code != http.StatusNotFound {
				t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
			}
		}
	})
}
