package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/revocation"
)

// revokedToken revokes a token for the lifetime of a revocation.
func revokedToken(tenant, id string) revocation.Revocation {
	return revocation.Revocation{Tenant: tenant, TokenID: id, At: start, Until: start.Add(revocation.Lifetime)}
}

func revokedSubject(tenant, subject string, at time.Time) revocation.Revocation {
	return revocation.Revocation{Tenant: tenant, Subject: subject, At: at, Until: at.Add(revocation.Lifetime)}
}

func lifted(r revocation.Revocation) revocation.Revocation {
	r.Lifted = true
	return r
}

// newRevocable returns a Chain of session tokens, of a provider and of a proxy, and its revocations, which are loaded.
func newRevocable(t *testing.T) (*Chain, *Revocations, *provider) {
	t.Helper()
	p, clock, set := newProvider(t), newClock(), NewRevocations()
	set.Loaded()
	proxy, err := NewProxy(ProxyConfig{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, SubjectHeader: "X-User", Tenant: "acme", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}})
	if err != nil {
		t.Fatal(err)
	}
	return newChain(t, clock, ChainConfig{
		Verifiers: []Verifier{newSessionTokens(t, clock), p.oidc(t, clock)}, Fallbacks: []auth.Authenticator{proxy}, Revocations: set,
	}), set, p
}

// A revoked token is refused although it was accepted a moment ago, and is in the cache; a revocation of another tenant, token or subject does not matter.
func TestRevokedToken(t *testing.T) {
	chain, set, _ := newRevocable(t)
	r := request(sign(sessionHeader, sessionClaimsAt(start), edKey()))
	accepted := func(what string) {
		t.Helper()
		if _, err := chain.Authenticate(r); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused := func(what string) {
		t.Helper()
		_, err := chain.Authenticate(r)
		if bad, ok := errors.AsType[*InvalidError](err); !ok || bad.Reason != ReasonRevoked {
			t.Errorf("%s: %v", what, err)
		}
	}
	accepted("a new token")
	for _, other := range []revocation.Revocation{
		revokedToken("globex", "t1"), revokedToken("acme", "t2"), revokedToken("acme", "ann"), revokedSubject("globex", "ann", start), revokedSubject("acme", "bob", start),
		revokedSubject("acme", "t1", start), {Tenant: "acme", TokenID: "t1", At: start, Until: time.Now()},
	} {
		set.Apply(other)
		accepted(fmt.Sprintf("%+v", other))
	}
	set.Apply(revokedToken("acme", "t1"))
	refused("a revoked token of the cache")
	if _, err := chain.Verify(t.Context(), sign(sessionHeader, sessionClaimsAt(start), edKey())); !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("a revoked token of a cookie: %v", err)
	}
	set.Apply(lifted(revokedToken("acme", "t1")))
	accepted("after the revocation was lifted")
}

// A revocation of a subject refuses what was issued until then: tokens by their iat, and credentials without the time for as long as it holds.
func TestRevokedSubject(t *testing.T) {
	chain, set, p := newRevocable(t)
	proxied := func(user string) *http.Request {
		r := request("")
		r.Header.Del("Authorization")
		r.RemoteAddr = "192.0.2.7:1234"
		r.Header.Set("X-User", user)
		return r
	}
	early := start.Add(-time.Minute)
	revocations := map[string]time.Time{"before the token was issued": start.Add(-time.Second), "in the second of the token": start.Add(time.Millisecond), "after it": start.Add(time.Second)}
	for name, tt := range map[string]struct {
		r       *http.Request
		refused []string
	}{
		"session token":    {request(sign(sessionHeader, sessionClaimsAt(start), edKey())), []string{"in the second of the token", "after it"}},
		"OIDC":             {request(sign(oidcHeader, oidcClaimsAt(start, p.URL), rsaKey())), []string{"in the second of the token", "after it"}},
		"OIDC without iat": {request(sign(oidcHeader, without(oidcClaimsAt(start, p.URL), "iat"), rsaKey())), []string{"before the token was issued", "in the second of the token", "after it"}},
		"proxy":            {proxied("ann"), []string{"before the token was issued", "in the second of the token", "after it"}},
		"another user":     {proxied("bob"), nil},
		"older than all":   {request(sign(sessionHeader, sessionClaimsAt(early), edKey())), []string{"before the token was issued", "in the second of the token", "after it"}},
	} {
		for when, at := range revocations {
			set.Apply(revokedSubject("acme", "ann", at))
			want := false
			for _, refused := range tt.refused {
				want = want || refused == when
			}
			if _, err := chain.Authenticate(tt.r); (err != nil) != want {
				t.Errorf("%s, revoked %s: %v, want it refused: %t", name, when, err, want)
			}
			set.Apply(lifted(revokedSubject("acme", "ann", at)))
			if _, err := chain.Authenticate(tt.r); err != nil {
				t.Errorf("%s, lifted: %v", name, err)
			}
		}
	}
}

// A bucket that was restored from an older copy is read again while the process runs: neither an older revocation nor an older end of one changes the known one.
func TestOlderRevocations(t *testing.T) {
	set := NewRevocations()
	g := &auth.Grant{Tenant: "acme", Subject: "ann", IssuedAt: start}
	set.Apply(revokedSubject("acme", "ann", start.Add(time.Minute)))
	for _, back := range []time.Duration{time.Minute + time.Second, 2 * time.Minute} {
		set.Apply(revokedSubject("acme", "ann", start.Add(time.Minute-back)))
	}
	if !set.Revoked(g) {
		t.Error("accepted after an older revocation was read again")
	}
	set.Apply(lifted(revokedSubject("acme", "ann", start.Add(-time.Minute))))
	if !set.Revoked(g) {
		t.Error("accepted after the end of an older revocation was read again")
	}
	set.Apply(lifted(revokedSubject("acme", "ann", start.Add(time.Minute-time.Second))))
	if set.Revoked(g) {
		t.Error("refused after the end of the revocation, by a server whose clock is a second slow")
	}
}

// Until the revocations are loaded, no credential is accepted; bad ones are refused as usual.
func TestRevocationsAreLoadedFirst(t *testing.T) {
	clock, set := newClock(), NewRevocations()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock)}, Revocations: set})
	good, bad := request(sign(sessionHeader, sessionClaimsAt(start), edKey())), request(sign(sessionHeader, sessionClaimsAt(start), evilEd()))
	for range 2 {
		_, err := chain.Authenticate(good)
		if busy, ok := errors.AsType[*UnavailableError](err); !ok || busy.RetryAfter == 0 || busy.Error() == "" {
			t.Errorf("a token before the load: %v", err)
		}
	}
	if _, err := chain.Authenticate(bad); !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("a bad token before the load: %v", err)
	}
	set.Loaded()
	if _, err := chain.Authenticate(good); err != nil {
		t.Errorf("after the load: %v", err)
	}
}

// No token is accepted for longer than its revocation is kept.
func TestTokensDoNotOutliveRevocations(t *testing.T) {
	p, clock := newProvider(t), newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{p.oidc(t, clock)}})
	year := fmt.Sprint(start.Add(365 * 24 * time.Hour).Unix())
	long := request(sign(oidcHeader, with(oidcClaimsAt(start, p.URL), "exp", year), rsaKey()))
	for _, tt := range []struct {
		after  time.Duration
		reason Reason // "" for none
	}{{0, ""}, {revocation.Lifetime - time.Second, ""}, {revocation.Lifetime, ReasonExpired}, {revocation.Lifetime + time.Hour, ReasonExpired}} {
		clock.set(start.Add(tt.after))
		_, err := chain.Authenticate(long)
		bad, _ := errors.AsType[*InvalidError](err)
		if (err == nil) != (tt.reason == "") || err != nil && (bad == nil || bad.Reason != tt.reason) {
			t.Errorf("after %s: %v", tt.after, err)
		}
	}
	clock.set(start)
	_, err := chain.Authenticate(request(sign(oidcHeader, without(with(oidcClaimsAt(start, p.URL), "exp", year), "iat"), rsaKey())))
	wantReason(t, err, ReasonClaim, "exp")
}

// A revocation is announced, once for many; entries that have ended are removed; the hot path allocates nothing.
func TestRevocationsInMemory(t *testing.T) {
	set := NewRevocations()
	set.Apply(lifted(revokedToken("acme", "x")))
	if len(set.Changed()) > 0 {
		t.Error("the end of a revocation was announced")
	}
	for n := range 10 * minPrune {
		set.Apply(revocation.Revocation{Tenant: "acme", TokenID: fmt.Sprint("old", n), Until: time.Now()})
	}
	set.Apply(revokedToken("acme", "t1"))
	set.Apply(revokedSubject("acme", "bob", start))
	<-set.Changed()
	if len(set.Changed()) > 0 {
		t.Error("announced twice")
	}
	if n := len(set.tokens); n > 2*minPrune {
		t.Errorf("%d entries, of which all but one have ended", n)
	}
	for n := range 3 * minPrune {
		set.Apply(revokedToken("acme", fmt.Sprint("t", n)))
	}
	g := &auth.Grant{Tenant: "acme", Subject: "ann", TokenID: "x"}
	if n := testing.AllocsPerRun(100, func() {
		if set.Revoked(g) {
			t.Error("revoked")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if !set.Revoked(&auth.Grant{Tenant: "acme", Subject: "ann", TokenID: fmt.Sprint("t", 2*minPrune)}) || (*Revocations)(nil).Revoked(g) {
		t.Error("a revocation is lost, or nil Revocations have some")
	}
}

// BenchmarkRevoked is what a request with a cached token costs while there are many revocations.
func BenchmarkRevoked(b *testing.B) {
	clock, set := newClock(), NewRevocations()
	set.Loaded()
	for n := range 100_000 {
		set.Apply(revokedToken("acme", fmt.Sprint("token-", n)))
	}
	chain := newChain(b, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(b, clock)}, Revocations: set})
	token := sign(sessionHeader, sessionClaimsAt(start), edKey())
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chain.Verify(ctx, token); err != nil {
			b.Fatal(err)
		}
	}
}
