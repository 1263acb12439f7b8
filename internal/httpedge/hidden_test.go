package httpedge_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// callLog records which requests an edge sends to the log.
type callLog struct {
	*memlog.Log

	mu    sync.Mutex // guards calls
	calls []string
}

func (l *callLog) called(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, name)
}

// take returns the calls since the last take, sorted, because some are made at the same time.
func (l *callLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.calls)
	calls := strings.Join(l.calls, " ")
	l.calls = nil
	return calls
}

func (l *callLog) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	l.called("replay")
	return l.Log.Replay(ctx, of)
}

func (l *callLog) CheckCursor(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Cursor) (chunk.Position, error) {
	l.called("cursor")
	return l.Log.CheckCursor(ctx, s, scope, after)
}

func (l *callLog) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	l.called("last")
	return l.Log.Last(ctx, s)
}

// granted is a fixed Grant as an Authenticator.
type granted struct{ grant *auth.Grant }

func (g granted) Authenticate(*http.Request) (*auth.Grant, error) { return g.grant, nil }

// A session that the client must not know costs the same requests to the log as one that does not exist, and gets the same response.
func TestHiddenSessionsCostTheSameWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &callLog{Log: memlog.New()}
		known := chunk.RootSession("default", "known")
		log.Append(known, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[],"by":{"subject":"ann"}`)
		log.Append(known, chunk.TypeStreamEnd, `"streamId":"known"`)
		store := storetest.NewMemory()
		reader := projector.NewReader(store, log)
		snap, err := reader.Snapshot(t.Context(), known)
		if err != nil {
			t.Fatal(err)
		}
		if snap.Owner == nil || snap.Owner.Subject != "ann" {
			t.Fatalf("owner %+v", snap.Owner)
		}
		if _, err := store.Save(t.Context(), snap, 0); err != nil {
			t.Fatal(err)
		}
		for name, sessions := range map[string]auth.Sessions{"own": {Own: true}, "others": {IDs: []string{"another"}}, "prefix": {Prefix: "z"}} {
			grant := &auth.Grant{Tenant: "default", Subject: "bob", Scopes: auth.AllScopes, Sessions: sessions}
			edge, err := httpedge.New(log, reader, httpedge.Config{Authenticator: granted{grant}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				if err := edge.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			log.take()
			get := func(path, id string) (response, calls string) {
				w := httptest.NewRecorder()
				edge.ServeHTTP(w, httptest.NewRequest(http.MethodGet, strings.ReplaceAll(path, "ID", id), nil))
				synctest.Wait()
				return strings.ReplaceAll(fmt.Sprint(w.Code, w.Header(), w.Body), id, "ID"), log.take()
			}
			for _, path := range []string{
				"/v1/sessions/ID/events", "/v1/sessions/ID/events?after=1", "/v1/sessions/ID/events?scope=session", "/v1/events?session=ID", "/v1/sessions/ID/snapshot",
				"/v1/sessions/ID/snapshot?at=1", "/v1/sessions/ID/snapshot?checkpoint=c", "/v1/sessions/ID/messages", "/v1/sessions/ID/tree",
				"/v1/sessions/sub/events?root=ID", "/v1/sessions/sub/snapshot?root=ID",
			} {
				hidden, calls := get(path, "known")
				unknown, want := get(path, "other")
				if hidden != unknown || calls != want || !strings.HasPrefix(hidden, "404 ") {
					t.Errorf("%s, %s: got\n%s (%s), want\n%s (%s)", name, path, hidden, calls, unknown, want)
				}
			}
			stop()
			running.Wait()
		}
	})
}

// unreachable is a store of snapshots that does not respond.
type unreachable struct{ httpedge.Snapshots }

func (unreachable) MessagePage(ctx context.Context, _ chunk.Session, _ fold.PageQuery) (*fold.MessagePage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (unreachable) OwnedByOther(context.Context, chunk.Session, string) (bool, error) {
	return false, nil
}

// The owner of a session is found out within AttachTimeout, also for a client that lacks the right of the route: it must not wait as long as it likes.
func TestOwnerIsFoundInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		grant := &auth.Grant{Tenant: "default", Subject: "bob", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}
		edge, err := httpedge.New(log, unreachable{}, httpedge.Config{Authenticator: granted{grant}, Eraser: &eraser{log: log}, AttachTimeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for method, want := range map[string]int{http.MethodGet: http.StatusServiceUnavailable, http.MethodDelete: http.StatusNotFound} {
			path := map[string]string{http.MethodGet: "/v1/sessions/s1/snapshot", http.MethodDelete: "/v1/sessions/s1"}[method]
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			began, w := time.Now(), httptest.NewRecorder()
			edge.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
			cancel()
			if took := time.Since(began); w.Code != want || took != 2*time.Second {
				t.Errorf("%s: %d after %s, want %d after 2s", method, w.Code, took, want)
			}
		}
	})
}
