package authn

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tailrace/tailrace/auth"
)

func jwkOf(public any, id string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: public, KeyID: id, Use: "sig"}
}

// TestOIDC reads the Grant of an access token with each algorithm that providers use.
func TestOIDC(t *testing.T) {
	p, clock := newProvider(t), newClock()
	p.setKeys(jwkOf(rsaKey().Public(), "r1"), jwkOf(ecKey().Public(), "e1"), jwkOf(edKey().Public(), "d1"))
	o := p.oidc(t, clock, func(c *OIDCConfig) { c.Algorithms = []string{RS256, RS512, PS256, ES256, EdDSA} })
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{o}})
	for _, c := range []struct {
		header string
		key    any
	}{
		{oidcHeader, rsaKey()},
		{`{"alg":"RS512","kid":"r1"}`, rsaKey()},
		{`{"alg":"PS256","kid":"r1","typ":"at+jwt"}`, rsaKey()},
		{`{"alg":"ES256","kid":"e1","typ":"application/at+jwt"}`, ecKey()},
		{`{"alg":"EdDSA","kid":"d1","typ":"AT+JWT"}`, edKey()},
		{`{"alg":"EdDSA"}`, edKey()}, // one key of this algorithm: no id needed
	} {
		g, err := chain.Authenticate(request(sign(c.header, with(oidcClaimsAt(start, p.URL), "jti", `"t7"`), c.key)))
		if err != nil {
			t.Errorf("%s: %v", c.header, err)
			continue
		}
		want := auth.Grant{
			Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeAnswer, Sessions: auth.Sessions{Own: true}, ExpiresAt: start.Add(930 * time.Second), IssuedAt: start, TokenID: "t7", Issuer: p.URL,
		}
		if got, want := fmt.Sprintf("%+v", *g), fmt.Sprintf("%+v", want); got != want {
			t.Errorf("%s: got %s, want %s", c.header, got, want)
		}
	}
	if n := p.keyRequests.Load(); n != 1 {
		t.Errorf("%d requests for keys, want 1", n)
	}
}

func TestMapping(t *testing.T) {
	p, clock := newProvider(t), newClock()
	good := oidcClaimsAt(start, p.URL)
	for _, c := range []struct {
		name    string
		mapping Mapping
		claims  string
		want    auth.Grant
		reason  Reason
		member  string
	}{
		{
			name: "a fixed tenant", mapping: Mapping{Tenant: "fixed", Sessions: auth.Sessions{All: true}}, claims: good,
			want: auth.Grant{Tenant: "fixed", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeAnswer, Sessions: auth.Sessions{All: true}},
		},
		{
			name:    "roles in a nested claim, tenants by name",
			mapping: Mapping{TenantClaim: "https://acme.example/org", Tenants: map[string]string{"ACME Inc.": "acme"}, ScopeClaim: "/realm_access/roles", ScopeValues: map[string]auth.Scope{"agent operator": auth.AllScopes}, Sessions: auth.Sessions{Own: true}},
			claims:  with(with(good, "https://acme.example/org", `"ACME Inc."`), "realm_access", `{"roles":["user","agent operator"]}`),
			want:    auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{Own: true}},
		},
		{
			name: "a tenant that is not in the list", mapping: Mapping{TenantClaim: "org", Tenants: map[string]string{"x": "acme"}, Sessions: auth.Sessions{Own: true}}, claims: good,
			reason: ReasonForbidden, member: "org",
		},
		{
			name: "a pointer with escapes", mapping: Mapping{TenantClaim: "/a~1b/c~0d", Sessions: auth.Sessions{Own: true}}, claims: with(good, "a/b", `{"c~d":"deep"}`),
			want: auth.Grant{Tenant: "deep", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeAnswer, Sessions: auth.Sessions{Own: true}},
		},
		{
			name: "groups in a string, and rights of everyone", mapping: Mapping{Tenant: "acme", ScopeClaim: "groups", ScopeValues: map[string]auth.Scope{"ops": auth.ScopeStop}, Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}},
			claims: with(good, "groups", `"staff ops"`),
			want:   auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeStop, Sessions: auth.Sessions{Own: true}},
		},
		{
			name: "no rights", mapping: Mapping{Tenant: "acme", Sessions: auth.Sessions{Own: true}}, claims: with(good, "scope", `"openid profile"`),
			want: auth.Grant{Tenant: "acme", Subject: "ann", Sessions: auth.Sessions{Own: true}},
		},
		{
			name: "another subject, sessions and views from claims", mapping: Mapping{Tenant: "acme", SubjectClaim: "oid", Sessions: auth.Sessions{Own: true}, SessionsClaim: "sid", ViewClaim: "views"},
			claims: with(with(with(good, "oid", `"u1"`), "sid", `"u1-*"`), "views", `["customer","support"]`),
			want:   auth.Grant{Tenant: "acme", Subject: "u1", Scopes: auth.ScopeRead | auth.ScopeAnswer, Sessions: auth.Sessions{Prefix: "u1-"}, Views: []string{"customer", "support"}},
		},
		{
			name: "views of everyone", mapping: Mapping{Tenant: "acme", Sessions: auth.Sessions{Own: true}, SessionsClaim: "sid", Views: []string{"customer"}}, claims: good,
			want: auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeAnswer, Sessions: auth.Sessions{Own: true}, Views: []string{"customer"}},
		},
		{
			name: "a subject claim that is missing", mapping: Mapping{Tenant: "acme", SubjectClaim: "oid", Sessions: auth.Sessions{Own: true}}, claims: good, reason: ReasonClaim, member: "oid",
		},
		{
			name: "malformed sessions", mapping: Mapping{Tenant: "acme", Sessions: auth.Sessions{Own: true}, SessionsClaim: "sid"}, claims: with(good, "sid", `"a b"`), reason: ReasonClaim, member: "sid",
		},
		{
			name: "malformed views", mapping: Mapping{Tenant: "acme", Sessions: auth.Sessions{Own: true}, ViewClaim: "views"}, claims: with(good, "views", `["a\u0000"]`), reason: ReasonClaim, member: "views",
		},
		{
			name: "a pointer into a string", mapping: Mapping{TenantClaim: "/sub/x", Sessions: auth.Sessions{Own: true}}, claims: good, reason: ReasonClaim, member: "/sub/x",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := p.oidc(t, clock, func(cfg *OIDCConfig) { cfg.Mapping = c.mapping })
			g, err := newChain(t, clock, ChainConfig{Verifiers: []Verifier{o}}).Authenticate(request(sign(oidcHeader, c.claims, rsaKey())))
			if c.reason != "" {
				wantReason(t, err, c.reason, c.member)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.want.Issuer, c.want.ExpiresAt, c.want.IssuedAt = p.URL, start.Add(930*time.Second), time.Unix(start.Unix(), 0)
			if got, want := fmt.Sprintf("%+v", *g), fmt.Sprintf("%+v", c.want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestKeyRotation signs with a new key while the process runs, and withdraws the old one.
func TestKeyRotation(t *testing.T) {
	p, clock := newProvider(t), newClock()
	o := p.oidc(t, clock)
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{o}})
	claims := with(oidcClaimsAt(start, p.URL), "exp", fmt.Sprint(start.Unix()+7200))
	before, after := sign(oidcHeader, claims, rsaKey()), sign(with(oidcHeader, "kid", `"r2"`), claims, nextRSA())

	if _, err := chain.Authenticate(request(before)); err != nil {
		t.Fatal(err)
	}
	p.setKeys(jwkOf(rsaKey().Public(), "r1"), jwkOf(nextRSA().Public(), "r2"))
	_, err := chain.Authenticate(request(after))
	wantReason(t, err, ReasonKey, "") // the keys are less than a minute old
	clock.add(time.Minute)
	for _, token := range []string{after, before, after} {
		if _, err := chain.Authenticate(request(token)); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.keyRequests.Load(); n != 2 {
		t.Errorf("%d requests for keys, want 2", n)
	}

	// The old key is withdrawn. Its token is in the cache, and no token with an unknown key comes.
	p.setKeys(jwkOf(nextRSA().Public(), "r2"))
	clock.add(11 * time.Minute)
	if _, err := chain.Authenticate(request(after)); err != nil { // starts the reload
		t.Fatal(err)
	}
	waitForLoad(o.ring)
	_, err = chain.Authenticate(request(before))
	wantReason(t, err, ReasonKey, "")
	if _, err := chain.Authenticate(request(after)); err != nil {
		t.Fatal(err)
	}
	if n := p.keyRequests.Load(); n != 3 {
		t.Errorf("%d requests for keys, want 3", n)
	}
}

// TestProviderAway stops the provider for a minute.
func TestProviderAway(t *testing.T) {
	p, clock := newProvider(t), newClock()
	o := p.oidc(t, clock)
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{o}})
	token := func(n int) string {
		return sign(oidcHeader, with(with(oidcClaimsAt(start, p.URL), "exp", fmt.Sprint(start.Unix()+90000)), "jti", fmt.Sprintf(`"t%d"`, n)), rsaKey())
	}
	if _, err := chain.Authenticate(request(token(0))); err != nil {
		t.Fatal(err)
	}
	clock.add(20 * time.Minute)
	p.setAway(true)
	newProcess := p.oidc(t, clock)
	newChain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newProcess}})
	for n := range 61 {
		for _, number := range []int{0, n + 1} { // a cached one, and one that is not
			if _, err := chain.Authenticate(request(token(number))); err != nil {
				t.Fatalf("second %d: %v", n, err)
			}
		}
		waitForLoad(o.ring)
		_, err := newChain.Authenticate(request(token(n)))
		away, ok := errors.AsType[*UnavailableError](err)
		if !ok || !errors.Is(err, auth.ErrUnavailable) || away.RetryAfter <= 0 || away.Issuer != p.URL {
			t.Fatalf("second %d: a process without keys: %v", n, err)
		}
		clock.add(time.Second)
	}
	_, err := chain.Authenticate(request(sign(with(oidcHeader, "kid", `"r2"`), oidcClaimsAt(start, p.URL), nextRSA())))
	if !errors.Is(err, auth.ErrUnavailable) { // the key may be a new one
		t.Errorf("an unknown key: %v", err)
	}
	if err := newProcess.Refresh(t.Context()); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("refresh: %v", err)
	}

	p.setAway(false)
	clock.add(5 * time.Second)
	if _, err := newChain.Authenticate(request(token(0))); err != nil {
		t.Errorf("the provider is back: %v", err)
	}
	if err := newProcess.Refresh(t.Context()); err != nil {
		t.Errorf("refresh: %v", err)
	}

	// Without the provider, keys serve for a day.
	p.setAway(true)
	clock.add(23 * time.Hour)
	if _, err := newChain.Authenticate(request(token(0))); err != nil {
		t.Errorf("after 23 hours: %v", err)
	}
	waitForLoad(newProcess.ring)
	clock.add(time.Hour)
	if _, err := newChain.Authenticate(request(token(0))); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("after 24 hours: %v", err)
	}
}

// TestUnknownKeyFlood sends tokens with made-up key ids from many clients at once.
func TestUnknownKeyFlood(t *testing.T) {
	p, clock := newProvider(t), newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{p.oidc(t, clock)}})
	claims := oidcClaimsAt(start, p.URL)
	good := sign(oidcHeader, claims, rsaKey())
	if _, err := chain.Authenticate(request(good)); err != nil {
		t.Fatal(err)
	}
	flood := func() {
		var clients sync.WaitGroup
		for c := range 20 {
			clients.Go(func() {
				for n := range 50 {
					_, err := chain.Authenticate(request(b64(fmt.Sprintf(`{"alg":"RS256","kid":"k%d-%d"}`, c, n)) + "." + b64(claims) + "." + b64("signature")))
					if !errors.Is(err, auth.ErrInvalid) {
						t.Errorf("got %v", err)
					}
				}
			})
		}
		clients.Wait()
	}
	for minute := range int64(4) {
		before := p.keyRequests.Load()
		flood()
		if n := p.keyRequests.Load(); n != minute+1 || p.discoveries.Load() != n {
			t.Errorf("minute %d: %d requests for keys and %d discoveries (%d before the flood), want %d", minute, n, p.discoveries.Load(), before, minute+1)
		}
		if _, err := chain.Authenticate(request(good)); err != nil {
			t.Errorf("a valid token in the flood: %v", err)
		}
		clock.add(time.Minute)
	}
	if n := chain.cache.Len(); n != 1 {
		t.Errorf("%d tokens in the cache, want 1", n)
	}
}

// TestBadProvider has answers of a provider that must not be used, nor take memory.
func TestBadProvider(t *testing.T) {
	p := newProvider(t)
	keys := string(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwkOf(rsaKey().Public(), "r1")}})))
	page := func(discovery, keys string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/keys" {
				_, _ = io.WriteString(w, keys)
				return
			}
			_, _ = io.WriteString(w, discovery)
		}
	}
	discovery := fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, p.URL, p.URL+"/keys")
	for name, h := range map[string]http.HandlerFunc{
		"another issuer":           page(fmt.Sprintf(`{"issuer":"https://evil.example","jwks_uri":%q}`, p.URL+"/keys"), keys),
		"the issuer with a slash":  page(fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, p.URL+"/", p.URL+"/keys"), keys),
		"issuer twice":             page(fmt.Sprintf(`{"issuer":"https://evil.example","issuer":%q,"jwks_uri":%q}`, p.URL, p.URL+"/keys"), keys),
		"no issuer":                page(fmt.Sprintf(`{"jwks_uri":%q}`, p.URL+"/keys"), keys),
		"no place of keys":         page(fmt.Sprintf(`{"issuer":%q}`, p.URL), keys),
		"a place that is not text": page(fmt.Sprintf(`{"issuer":%q,"jwks_uri":1}`, p.URL), keys),
		"keys over http":           page(fmt.Sprintf(`{"issuer":%q,"jwks_uri":"http://keys.example/"}`, p.URL), keys),
		"keys in a file":           page(fmt.Sprintf(`{"issuer":%q,"jwks_uri":"file:///etc/passwd"}`, p.URL), keys),
		"a discovery that is HTML": page("<html>", keys),
		"a discovery of 64 KiB":    page(strings.TrimSuffix(discovery, "}")+`,"x":"`+strings.Repeat("x", 64<<10)+`"}`, keys),
		"keys of 256 KiB":          page(discovery, strings.TrimSuffix(keys, "}")+`,"x":"`+strings.Repeat("x", 256<<10)+`"}`),
		"101 keys":                 page(discovery, `{"keys":[`+strings.Repeat("{},", 100)+strings.TrimPrefix(strings.TrimSuffix(keys, "]}"), `{"keys":[`)+`]}`),
		"no keys":                  page(discovery, `{"keys":[]}`),
		"keys that are not a list": page(discovery, `{"keys":{}}`),
		"keys that are not JSON":   page(discovery, `{"keys":`),
		"a secret alone":           page(discovery, `{"keys":[{"kty":"oct","k":"`+b64(aSecret)+`","kid":"r1","alg":"HS256"}]}`),
		"a private key":            page(discovery, string(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: rsaKey(), KeyID: "r1"}}})))),
		"a key for encryption":     page(discovery, strings.ReplaceAll(keys, `"sig"`, `"enc"`)),
		"a key of 1024 bits":       page(discovery, string(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwkOf(weakRSA().Public(), "r1")}})))),
		"a key with another alg":   page(discovery, strings.ReplaceAll(keys, `"kty":`, `"alg":"ES256","kty":`)),
		"status 500":               func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"status 204":               func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"a redirect to good pages": func(w http.ResponseWriter, r *http.Request) {
			if to, ok := strings.CutPrefix(r.URL.Path, "/moved"); ok {
				r.URL.Path = to
				page(discovery, keys)(w, r)
				return
			}
			http.Redirect(w, r, "/moved"+r.URL.Path, http.StatusFound)
		},
		"a compressed answer of 64 MiB": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 64 {
				if _, err := z.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			p.setAnswer(h)
			chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{p.oidc(t, clock)}})
			_, err := chain.Authenticate(request(sign(oidcHeader, oidcClaimsAt(start, p.URL), rsaKey())))
			if !errors.Is(err, auth.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(name, "KiB") && !strings.Contains(err.Error(), "more than") {
				t.Errorf("got %v, want the limit of the size", err)
			}
		})
	}

	t.Run("keys of other kinds beside a good one", func(t *testing.T) {
		clock := newClock()
		p.setAnswer(page(discovery, `{"keys":[{"kty":"OKP","crv":"Ed448","x":"AA"},{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"},{"kty":"new"},1,null,"x",`+strings.TrimPrefix(keys, `{"keys":[`)))
		chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{p.oidc(t, clock)}})
		if _, err := chain.Authenticate(request(sign(oidcHeader, oidcClaimsAt(start, p.URL), rsaKey()))); err != nil {
			t.Error(err)
		}
	})
}

// endless is a body without an end. It counts what is read.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return copy(p, strings.Repeat(" ", len(p))), nil
}

func (*endless) Close() error { return nil }

// roundTrip is a function as a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEndlessKeys(t *testing.T) {
	body := &endless{}
	o, err := NewOIDC(OIDCConfig{
		Issuer: "https://id.example", KeysURL: "https://id.example/keys", Audiences: []string{"tailrace"}, Mapping: Mapping{Tenant: "acme", Sessions: auth.Sessions{Own: true}},
		Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := o.Refresh(t.Context()); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if body.read > 300<<10 {
		t.Errorf("%d bytes were read, want at most 256 KiB", body.read)
	}
}

// TestTokenWithoutKeyID needs a provider with one key of its algorithm.
func TestTokenWithoutKeyID(t *testing.T) {
	p, clock := newProvider(t), newClock()
	token := sign(`{"alg":"RS256"}`, oidcClaimsAt(start, p.URL), rsaKey())
	if _, err := newChain(t, clock, ChainConfig{Verifiers: []Verifier{p.oidc(t, clock)}}).Authenticate(request(token)); err != nil {
		t.Error(err)
	}
	p.setKeys(jwkOf(rsaKey().Public(), "r1"), jwkOf(nextRSA().Public(), "r2"))
	_, err := newChain(t, clock, ChainConfig{Verifiers: []Verifier{p.oidc(t, clock)}}).Authenticate(request(token))
	wantReason(t, err, ReasonKey, "")
}

// slowTransport answers with a valid key set after a delay.
type slowTransport struct {
	delay atomic.Int64 // in nanoseconds
	keys  []byte
	asked atomic.Int64
}

// RoundTrip waits for the delay.
func (s *slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	timer := time.NewTimer(time.Duration(s.delay.Load()))
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-timer.C:
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(s.keys))), Request: r}, nil
	}
}

// TestSlowProvider runs on the clock of a bubble: time.Now.
func TestSlowProvider(t *testing.T) {
	transport := &slowTransport{keys: must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwkOf(rsaKey().Public(), "r1")}}))}
	cfg := OIDCConfig{
		Issuer: "https://id.example", KeysURL: "https://id.example/keys", Audiences: []string{"tailrace"}, Client: &http.Client{Transport: transport},
		Mapping: Mapping{Tenant: "acme", Sessions: auth.Sessions{Own: true}},
	}
	run := func(name string, f func(t *testing.T, o *OIDC, chain *Chain, token string)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				transport.asked.Store(0)
				transport.delay.Store(0)
				o, err := NewOIDC(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer o.Close()
				chain, err := NewChain(ChainConfig{Verifiers: []Verifier{o}})
				if err != nil {
					t.Fatal(err)
				}
				f(t, o, chain, sign(oidcHeader, with(oidcClaimsAt(time.Now(), cfg.Issuer), "exp", fmt.Sprint(time.Now().Unix()+86400)), rsaKey()))
			})
		})
	}
	run("a request waits for at most 5 seconds", func(t *testing.T, _ *OIDC, chain *Chain, token string) {
		t.Helper()
		transport.delay.Store(int64(time.Hour))
		began := time.Now()
		var clients sync.WaitGroup
		for range 10 {
			clients.Go(func() {
				if _, err := chain.Authenticate(request(token)); !errors.Is(err, auth.ErrUnavailable) {
					t.Errorf("got %v", err)
				}
			})
		}
		clients.Wait()
		if d := time.Since(began); d != 5*time.Second || transport.asked.Load() != 1 {
			t.Errorf("took %s and %d requests, want 5s and 1", d, transport.asked.Load())
		}
	})
	run("a client that leaves", func(t *testing.T, _ *OIDC, chain *Chain, token string) {
		t.Helper()
		transport.delay.Store(int64(3 * time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := chain.Authenticate(request(token).WithContext(ctx)); !errors.Is(err, auth.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := chain.Authenticate(request(token)); err != nil { // of the same load
			t.Errorf("the next client: %v", err)
		}
		if transport.asked.Load() != 1 {
			t.Errorf("%d requests, want 1", transport.asked.Load())
		}
	})
	run("a reload does not delay requests", func(t *testing.T, _ *OIDC, chain *Chain, token string) {
		t.Helper()
		if _, err := chain.Authenticate(request(token)); err != nil {
			t.Fatal(err)
		}
		transport.delay.Store(int64(4 * time.Second))
		time.Sleep(11 * time.Minute)
		began := time.Now()
		for range 10 {
			if _, err := chain.Authenticate(request(token)); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("took %s, want 0s", d)
		}
		time.Sleep(5 * time.Second)
		if transport.asked.Load() != 2 {
			t.Errorf("%d requests, want 2", transport.asked.Load())
		}
	})
	run("Close ends a load", func(t *testing.T, o *OIDC, chain *Chain, token string) {
		t.Helper()
		transport.delay.Store(int64(time.Hour))
		var client sync.WaitGroup
		client.Go(func() {
			if _, err := chain.Authenticate(request(token)); !errors.Is(err, auth.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		began := time.Now()
		o.Close()
		o.Close()
		client.Wait()
		if d := time.Since(began); d != 0 {
			t.Errorf("took %s, want 0s", d)
		}
		if _, err := chain.Authenticate(request(token)); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("after Close: %v", err)
		}
	})
	run("a token in the cache expires", func(t *testing.T, _ *OIDC, chain *Chain, _ string) {
		t.Helper()
		token := sign(oidcHeader, oidcClaimsAt(time.Now(), cfg.Issuer), rsaKey())
		for range 929 {
			if _, err := chain.Authenticate(request(token)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		_, err := chain.Authenticate(request(token))
		wantReason(t, err, ReasonExpired, "")
		if n := chain.cache.Len(); n != 0 {
			t.Errorf("%d tokens in the cache, want 0", n)
		}
	})
}

func TestOIDCConfig(t *testing.T) {
	valid := OIDCConfig{Issuer: "https://id.example", Audiences: []string{"tailrace"}, Mapping: Mapping{Tenant: "acme", Sessions: auth.Sessions{Own: true}}}
	for name, change := range map[string]func(*OIDCConfig){
		"no issuer":            func(c *OIDCConfig) { c.Issuer = "" },
		"issuer over http":     func(c *OIDCConfig) { c.Issuer = "http://id.example" },
		"issuer not a URL":     func(c *OIDCConfig) { c.Issuer = "id.example" },
		"issuer with a user":   func(c *OIDCConfig) { c.Issuer = "https://a:b@id.example" },
		"issuer with a query":  func(c *OIDCConfig) { c.Issuer = "https://id.example?x" },
		"keys over http":       func(c *OIDCConfig) { c.KeysURL = "http://id.example/keys" },
		"no audience":          func(c *OIDCConfig) { c.Audiences = nil },
		"empty audience":       func(c *OIDCConfig) { c.Audiences = []string{""} },
		"HS256":                func(c *OIDCConfig) { c.Algorithms = []string{"HS256"} },
		"none":                 func(c *OIDCConfig) { c.Algorithms = []string{"none"} },
		"refresh too often":    func(c *OIDCConfig) { c.RefreshAfter = time.Second },
		"stale before refresh": func(c *OIDCConfig) { c.MaxStale = time.Minute },
		"no tenant":            func(c *OIDCConfig) { c.Tenant = "" },
		"two tenants":          func(c *OIDCConfig) { c.TenantClaim = "org" },
		"malformed tenant":     func(c *OIDCConfig) { c.Tenant = "a.b" },
		"list without a claim": func(c *OIDCConfig) { c.Tenants = map[string]string{"a": "b"} },
		"malformed list": func(c *OIDCConfig) {
			c.Mapping = Mapping{TenantClaim: "org", Tenants: map[string]string{"a": "b.c"}, Sessions: auth.Sessions{Own: true}}
		},
		"malformed views":    func(c *OIDCConfig) { c.Views = []string{""} },
		"unknown scopes":     func(c *OIDCConfig) { c.Scopes = 1 << 9 },
		"no sessions":        func(c *OIDCConfig) { c.Sessions = auth.Sessions{} },
		"malformed sessions": func(c *OIDCConfig) { c.Sessions = auth.Sessions{Prefix: "a b"} },
	} {
		cfg := valid
		change(&cfg)
		if o, err := NewOIDC(cfg); err == nil {
			o.Close()
			t.Errorf("%s: no error", name)
		}
	}
	o, err := NewOIDC(valid)
	if err != nil {
		t.Fatal(err)
	}
	o.Close()
}
