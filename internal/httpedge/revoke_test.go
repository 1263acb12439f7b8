package httpedge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
)

// revoker keeps the revocations that were requested.
type revoker struct {
	got []revocation.Revocation
	err error
}

func (r *revoker) Revoke(_ context.Context, of revocation.Revocation) error {
	if err := of.Validate(); err != nil {
		return err
	}
	if r.err == nil {
		r.got = append(r.got, of)
	}
	return r.err
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// An administrator revokes tokens and subjects of any form, in its own tenant only.
func TestRevoke(t *testing.T) {
	issuer, r := authtest.NewIssuer(t), &revoker{}
	w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: issuer, Revocations: issuer.Revocations, Revoker: r}})
	token := func(scopes auth.Scope) http.Header {
		return bearer(issuer.Token(auth.Grant{Tenant: "acme", Subject: "root", Scopes: scopes, Sessions: auth.Sessions{Own: true}}, time.Hour, nil))
	}
	admin := token(auth.ScopeAdmin)
	for path, want := range map[string]revocation.Revocation{
		"/v1/tokens/t1":                                {TokenID: "t1"},
		"/v1/tokens/urn:uuid:1.2":                      {TokenID: "urn:uuid:1.2"},
		"/v1/tokens/a%2Fb%20%C3%A4":                    {TokenID: "a/b ä"},
		"/v1/tokens/" + strings.Repeat("x", 128):       {TokenID: strings.Repeat("x", 128)},
		"/v1/subjects/ann/tokens":                      {Subject: "ann"},
		"/v1/subjects/auth0%7C12/tokens":               {Subject: "auth0|12"},
		"/v1/subjects/https:%2F%2Fx.example%2F/tokens": {Subject: "https://x.example/"},
		"/v1/subjects/..%2F../tokens":                  {Subject: "../.."},
	} {
		r.got = nil
		for range 2 { // idempotent
			if rec := w.record(http.MethodDelete, path, admin); rec.Code != http.StatusNoContent || rec.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
			}
		}
		if len(r.got) != 2 || r.got[0].Tenant != "acme" || r.got[0].TokenID != want.TokenID || r.got[0].Subject != want.Subject || r.got[0].By.Subject != "root" {
			t.Errorf("%s: %+v", path, r.got)
		}
	}
	r.got = nil
	for name, tt := range map[string]struct {
		path   string
		header http.Header
		want   int
	}{
		"no right":          {"/v1/tokens/t1", token(auth.AllScopes &^ auth.ScopeAdmin), http.StatusForbidden},
		"no right, subject": {"/v1/subjects/ann/tokens", token(auth.AllScopes &^ auth.ScopeAdmin), http.StatusForbidden},
		"no credential":     {"/v1/tokens/t1", nil, http.StatusUnauthorized},
		"no id":             {"/v1/tokens/", admin, http.StatusBadRequest},
		"no subject":        {"/v1/subjects//tokens", admin, http.StatusBadRequest},
		"a long id":         {"/v1/tokens/" + strings.Repeat("x", 129), admin, http.StatusBadRequest},
		"not UTF-8":         {"/v1/tokens/%ff", admin, http.StatusBadRequest},
		"more segments":     {"/v1/tokens/a/b", admin, http.StatusNotFound},
		"a token":           {"/v1/tokens/t1?token=x", admin, http.StatusUnauthorized},
	} {
		if rec := w.record(http.MethodDelete, tt.path, tt.header); rec.Code != tt.want {
			t.Errorf("%s: %d %s, want %d", name, rec.Code, rec.Body, tt.want)
		}
	}
	if len(r.got) > 0 {
		t.Errorf("revoked: %+v", r.got)
	}
	r.err = errors.New("the bucket is full")
	if rec := w.record(http.MethodDelete, "/v1/tokens/t1", admin); rec.Code != http.StatusServiceUnavailable || strings.Contains(rec.Body.String(), "bucket") {
		t.Errorf("not stored: %d %s", rec.Code, rec.Body)
	}
	without := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: issuer}})
	if rec := without.record(http.MethodDelete, "/v1/tokens/t1", admin); rec.Code != http.StatusNotFound {
		t.Errorf("without a Revoker: %d", rec.Code)
	}
}

// following reads a stream to its end.
type following struct {
	cursor string
	body   string
	err    error
	ended  chan struct{}
}

func (w *env) followAs(path, token string) *following {
	resp := w.get(context.Background(), path, bearer(token)) //nolint:bodyclose // closed by the goroutine below
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %d", path, resp.StatusCode)
	}
	f := &following{ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		f.body, f.err = string(body), err
		for line := range strings.Lines(f.body) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				f.cursor = strings.TrimSpace(id)
			}
		}
	}()
	return f
}

func (f *following) isOpen() bool {
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}

// When a token or a subject is revoked, its streams end at once after a complete event, idle or busy, and no others do. The client gets 401 then, and the rest
// with another token.
func TestStreamsOfRevokedCredentialsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer, registry := authtest.NewIssuer(t), prometheus.NewRegistry()
		w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: issuer, Revocations: issuer.Revocations, Metrics: registry, Heartbeat: time.Hour}})
		grant := auth.Grant{Tenant: "default", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}, TokenID: "t1"}
		token := func(subject, id string) string {
			g := grant
			g.Subject, g.TokenID = subject, id
			return issuer.Token(g, time.Hour, nil)
		}
		s2 := chunk.RootSession("default", "s2")
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
		w.log.Append(s2, chunk.TypeTextDelta, `"delta":"x"`)
		ann1, ann2, bob := token("ann", "t1"), token("ann", "t2"), token("bob", "t3")
		idle, several := w.followAs("/v1/sessions/s2/events", ann1), w.followAs("/v1/events?session=s1&session=s2", ann1)
		busy, other, others := w.followAs("/v1/sessions/s1/events", ann1), w.followAs("/v1/sessions/s1/events", ann2), w.followAs("/v1/sessions/s1/events", bob)
		stop := w.appendEvery(time.Millisecond)
		sleep(time.Second)
		revoked := func(r revocation.Revocation, streams ...*following) {
			t.Helper()
			began := time.Now()
			r.Tenant, r.At, r.Until = "default", began, began.Add(revocation.Lifetime)
			issuer.Revocations.Apply(r)
			for _, f := range streams {
				<-f.ended
				if f.err == nil || !strings.HasSuffix(f.body, "\n\n") {
					t.Errorf("the end is %v, %q", f.err, f.body[max(0, len(f.body)-80):])
				}
			}
			if took := time.Since(began); took > 200*time.Millisecond {
				t.Errorf("the streams ended after %s", took)
			}
		}
		revoked(revocation.Revocation{TokenID: "t1"}, idle, several, busy)
		for _, path := range []string{"/v1/sessions/s1/events?after=" + busy.cursor, "/v1/events?session=s1", "/v1/sessions/s1/snapshot"} {
			if rec := w.record(http.MethodGet, path, bearer(ann1)); rec.Code != http.StatusUnauthorized || !strings.Contains(rec.Body.String(), "revoked") {
				t.Errorf("%s with the revoked token: %d %s", path, rec.Code, rec.Body)
			}
		}
		sleep(time.Second)
		rest := w.followAs("/v1/sessions/s1/events?after="+busy.cursor, ann2)
		sleep(time.Second)
		if !other.isOpen() || !others.isOpen() || !rest.isOpen() {
			t.Error("the stream of another token ended")
		}
		revoked(revocation.Revocation{Subject: "ann"}, other, rest)
		if !others.isOpen() {
			t.Error("the stream of another subject ended")
		}
		sleep(time.Second) // a token of the next second
		fresh := w.followAs("/v1/sessions/s1/events?after="+rest.cursor, token("ann", "t4"))
		stop()
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"s1"`)
		<-fresh.ended
		<-others.ended
		if fresh.err != nil || others.err != nil {
			t.Fatalf("%v, %v", fresh.err, others.err)
		}
		if got, want := events(busy.body)+events(rest.body)+events(fresh.body), events(others.body); got != want {
			t.Errorf("the events of ann differ from those of bob: %d and %d bytes", len(got), len(want))
		}
		if got := endsOf(t, registry); got["revoked"] != 5 || got["end"] != 2 {
			t.Errorf("the streams ended for %v", got)
		}
	})
}

// events returns the events of a response, without the comments and the retry time before them.
func events(body string) string {
	if i := strings.Index(body, "id: "); i >= 0 {
		return body[i:]
	}
	return ""
}

// sleep lets the time of the bubble pass.
//
//tailrace:bubble
func sleep(d time.Duration) { time.Sleep(d) }

// endsOf returns the number of streams that ended, by reason.
func endsOf(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "tailrace_edge_disconnects_total" {
			for _, m := range family.GetMetric() {
				if v := m.GetCounter().GetValue(); v > 0 {
					ends[m.GetLabel()[0].GetValue()] = v
				}
			}
		}
	}
	return ends
}

// Revocations arrive while streams open: none of a revoked token stays open, whichever comes first.
func TestRevocationWhileStreamsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := authtest.NewIssuer(t)
		w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: issuer, Revocations: issuer.Revocations, Heartbeat: time.Hour}})
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
		var open atomic.Int32
		for n := range 100 {
			id := fmt.Sprint("t", n)
			token := issuer.Token(auth.Grant{Tenant: "default", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}, TokenID: id}, time.Hour, nil)
			go func() {
				req, err := http.NewRequest(http.MethodGet, "http://edge/v1/sessions/s1/events", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = bearer(token)
				open.Add(1)
				defer open.Add(-1)
				resp, err := w.client.Do(req)
				if err != nil {
					return // aborted before the header
				}
				defer resp.Body.Close()
				_, _ = io.Copy(io.Discard, resp.Body) // it ends with an error, or is the response of a refusal
			}()
			go issuer.Revocations.Apply(revocation.Revocation{Tenant: "default", TokenID: id, At: time.Now(), Until: time.Now().Add(time.Hour)})
		}
		sleep(time.Second)
		if n := open.Load(); n > 0 {
			t.Errorf("%d streams of revoked tokens are open", n)
		}
	})
}

// revokedOnce revokes each token when it has been verified, and returns the Grant when the edge has closed the streams of that token: there are none yet.
type revokedOnce struct{ *authtest.Issuer }

func (r revokedOnce) Authenticate(req *http.Request) (*auth.Grant, error) {
	g, err := r.Issuer.Authenticate(req)
	if err == nil {
		r.Revocations.Apply(revocation.Revocation{Tenant: g.Tenant, TokenID: g.TokenID, At: time.Now(), Until: time.Now().Add(time.Hour)})
		sleep(time.Second)
	}
	return g, err
}

// A token that is revoked after its verification and before its stream is among the open ones has no stream: the search for streams to close did not find it.
func TestRevocationBeforeTheStreamIsOpen(t *testing.T) {
	for _, path := range []string{"/v1/sessions/s1/events", "/v1/events?session=s1"} {
		synctest.Test(t, func(t *testing.T) {
			issuer := authtest.NewIssuer(t)
			w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: revokedOnce{issuer}, Revocations: issuer.Revocations, Heartbeat: time.Hour}})
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
			token := issuer.Token(auth.Grant{Tenant: "default", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}, TokenID: "t1"}, time.Hour, nil)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://edge"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = bearer(token)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				resp, err := w.client.Do(req)
				if err != nil {
					return // aborted before the header
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); err == nil && resp.StatusCode == http.StatusOK {
					t.Errorf("%s: complete: %q", path, body)
				}
			}()
			sleep(2 * time.Second)
			select {
			case <-ended:
			default:
				t.Errorf("%s: the stream is open", path)
			}
		})
	}
}

// A stream ends in the last eighth of its largest age, at a time of its own, with or without an expiry of the credential that is later.
func TestStreamsHaveALargestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age = 4 * time.Hour
		registry := prometheus.NewRegistry()
		w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: expiring{24 * time.Hour}, MaxStreamAge: age, Metrics: registry}})
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
		began := time.Now()
		took := make(chan time.Duration, 20)
		for range cap(took) {
			f := w.followAs("/v1/sessions/s1/events", "x")
			go func() {
				<-f.ended
				if f.err == nil || !strings.HasSuffix(f.body, "\n\n") {
					t.Errorf("the end is %v, %q", f.err, f.body[max(0, len(f.body)-80):])
				}
				took <- time.Since(began)
			}()
		}
		least, most := age, time.Duration(0)
		for range cap(took) {
			d := <-took
			least, most = min(least, d), max(most, d)
		}
		if least < age*7/8 || most > age || most-least < age/32 {
			t.Errorf("the streams ended after %s to %s", least, most)
		}
		if got := endsOf(t, registry); got["age"] != 20 {
			t.Errorf("the streams ended for %v", got)
		}
	})
}
