package authn

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/auth"
)

// TestHeader has requests with headers that are refused before anything is parsed.
func TestHeader(t *testing.T) {
	clock := newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock)}})
	good := sign(sessionHeader, sessionClaimsAt(start), edKey())
	for _, c := range []struct {
		name   string
		values []string
		reason Reason // "" for valid
	}{
		{"valid", []string{"Bearer " + good}, ""},
		{"the scheme in lower case", []string{"bearer " + good}, ""},
		{"the scheme in capitals", []string{"BEARER " + good}, ""},
		{"two equal headers", []string{"Bearer " + good, "Bearer " + good}, ReasonRepeated},
		{"two headers", []string{"Bearer " + good, "Basic YTpi"}, ReasonRepeated},
		{"an empty header before", []string{"", "Bearer " + good}, ReasonRepeated},
		{"two in one", []string{"Bearer " + good + ", Bearer " + good}, ReasonMalformed},
		{"empty", []string{""}, ReasonScheme},
		{"the scheme alone", []string{"Bearer"}, ReasonScheme},
		{"the scheme and a space", []string{"Bearer "}, ReasonScheme},
		{"no scheme", []string{good}, ReasonScheme},
		{"Basic", []string{"Basic YTpi"}, ReasonScheme},
		{"DPoP", []string{"DPoP " + good}, ReasonScheme},
		{"a tab", []string{"Bearer\t" + good}, ReasonScheme},
		{"two spaces", []string{"Bearer  " + good}, ReasonMalformed},
		{"a colon", []string{"Bearer: " + good}, ReasonScheme},
		{"quotes", []string{`Bearer "` + good + `"`}, ReasonMalformed},
		{"a line break", []string{"Bearer " + good + "\n"}, ReasonMalformed},
		{"a NUL", []string{"Bearer " + good + "\x00"}, ReasonMalformed},
		{"not UTF-8", []string{"Bearer \xff.\xff.\xff"}, ReasonMalformed},
		{"not ASCII", []string{"Bearer " + strings.Replace(good, "e", "е", 1)}, ReasonMalformed},
		{"opaque", []string{"Bearer 2YotnFZFEjr1zCsicMWpAA"}, ReasonMalformed},
		{"8 KiB of dots", []string{"Bearer " + strings.Repeat(".", MaxToken)}, ReasonMalformed},
		{"over 8 KiB", []string{"Bearer " + strings.Repeat("a", MaxToken+1)}, ReasonTooLarge},
		{"over 8 KiB without a scheme", []string{strings.Repeat("a", MaxToken+8)}, ReasonTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request("")
			r.Header["Authorization"] = c.values
			g, err := chain.Authenticate(r)
			switch {
			case c.reason != "":
				wantReason(t, err, c.reason, "")
			case err != nil || g.Subject != "ann":
				t.Errorf("got %+v, %v", g, err)
			}
		})
	}
}

// TestTokenInQuery finds tokens in a query, also next to a valid header.
func TestTokenInQuery(t *testing.T) {
	clock := newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock)}})
	none := newChain(t, clock, ChainConfig{Fallbacks: []auth.Authenticator{must(NewNone("acme"))}})
	good := sign(sessionHeader, sessionClaimsAt(start), edKey())
	for query, want := range map[string]bool{
		"access_token=" + good:               true,
		"token=x":                            true,
		"TOKEN=x":                            true,
		"jwt=x":                              true,
		"limit=1&id_token=x":                 true,
		"limit=1;token=x":                    true,
		"access%5Ftoken=x":                   true,
		"%61ccess_token=":                    true,
		"access_token":                       true,
		"+token=x":                           true,
		"token=%zz":                          true,
		"Authorization=Bearer+x":             true,
		"cursor=" + good:                     true,
		"cursor=%65" + good[1:]:              true,
		"limit=%zz&token=x":                  true,
		"limit=1&view=customer":              false,
		"types=text_delta":                   false,
		"before=12-eyJ.x":                    false,
		"ticket=0123":                        false,
		"root=token":                         false,
		"%zz":                                false,
		"":                                   false,
		strings.Repeat("a=b&", 2000) + "jwt": true,
	} {
		for name, c := range map[string]*Chain{"tokens": chain, "none": none} {
			r := request(good)
			r.URL.RawQuery = query
			g, err := c.Authenticate(r)
			if want != errors.Is(err, ErrTokenInQuery) || want != (g == nil) {
				t.Errorf("%s: %.32s: got %v, %v", name, query, g, err)
			}
		}
	}
}

// TestNoCredential has each kind of request that says nothing.
func TestNoCredential(t *testing.T) {
	clock := newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock)}})
	good := sign(sessionHeader, sessionClaimsAt(start), edKey())
	for name, change := range map[string]func(*http.Request){
		"nothing":              func(*http.Request) {},
		"Proxy-Authorization":  func(r *http.Request) { r.Header.Set("Proxy-Authorization", "Bearer "+good) },
		"X-Authorization":      func(r *http.Request) { r.Header.Set("X-Authorization", "Bearer "+good) },
		"a cookie":             func(r *http.Request) { r.Header.Set("Cookie", "access_token="+good) },
		"a name that is wrong": func(r *http.Request) { r.Header["authorization"] = []string{"Bearer " + good} },
		"a form":               func(r *http.Request) { r.Form = map[string][]string{"access_token": {good}} },
	} {
		r := request("")
		change(r)
		if g, err := chain.Authenticate(r); !errors.Is(err, auth.ErrNoCredential) || g != nil {
			t.Errorf("%s: got %v, %v", name, g, err)
		}
	}
}

// authenticator is a function as an Authenticator.
type authenticator func(*http.Request) (*auth.Grant, error)

func (f authenticator) Authenticate(r *http.Request) (*auth.Grant, error) { return f(r) }

// TestFallbacks asks for a cookie, then the proxy; the header decides alone.
func TestFallbacks(t *testing.T) {
	clock := newClock()
	cookie := authenticator(func(r *http.Request) (*auth.Grant, error) {
		switch c, err := r.Cookie("session"); {
		case err != nil:
			return nil, auth.ErrNoCredential
		case c.Value == "bad":
			return nil, invalid(ReasonSignature)
		case c.Value == "nil":
			return nil, nil
		case c.Value == "old":
			return &auth.Grant{Tenant: "acme", Subject: "cookie", ExpiresAt: start}, nil
		case c.Value == "malformed":
			return &auth.Grant{Tenant: "a.b", Subject: "cookie"}, nil
		default:
			return &auth.Grant{Tenant: "acme", Subject: "cookie"}, nil
		}
	})
	proxy := must(NewProxy(ProxyConfig{Proxies: prefixes("192.0.2.0/24"), SubjectHeader: "X-User", Tenant: "acme", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}))
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock)}, Fallbacks: []auth.Authenticator{cookie, proxy}})
	good := sign(sessionHeader, sessionClaimsAt(start), edKey())
	for _, c := range []struct {
		name, token, cookie, user string
		want                      string // the subject, or the error
	}{
		{"nothing", "", "", "", auth.ErrNoCredential.Error()},
		{"header", good, "", "", "ann"},
		{"header and cookie", good, "good", "", "ann"},
		{"header, cookie and proxy", good, "good", "bob", "ann"},
		{"a bad header does not fall back", good[:20], "good", "bob", "invalid credential: malformed"},
		{"an expired header does not fall back", sign(sessionHeader, sessionClaimsAt(start.Add(-1e12)), edKey()), "good", "bob", "invalid credential: expired"},
		{"cookie", "", "good", "", "cookie"},
		{"cookie and proxy", "", "good", "bob", "cookie"},
		{"a bad cookie does not fall back", "", "bad", "bob", "invalid credential: signature"},
		{"proxy", "", "", "bob", "bob"},
		{"an authenticator that returns nothing", "", "nil", "", auth.ErrNoCredential.Error()},
		{"an authenticator that returns an expired Grant", "", "old", "", "invalid credential: expired"},
		{"an authenticator that returns a malformed Grant", "", "malformed", "", "invalid credential: claim grant"},
	} {
		r := request(c.token)
		if c.cookie != "" {
			r.AddCookie(&http.Cookie{Name: "session", Value: c.cookie})
		}
		if c.user != "" {
			r.Header.Set("X-User", c.user)
		}
		g, err := chain.Authenticate(r)
		got := fmt.Sprint(err)
		if err == nil {
			got = g.Subject
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestChainConfig(t *testing.T) {
	clock := newClock()
	tokens, none := newSessionTokens(t, clock), must(NewNone("acme"))
	for name, cfg := range map[string]ChainConfig{
		"nothing":                  {},
		"two of one issuer":        {Verifiers: []Verifier{tokens, newSessionTokens(t, clock)}},
		"none and tokens":          {Verifiers: []Verifier{tokens}, Fallbacks: []auth.Authenticator{none}},
		"none and another":         {Fallbacks: []auth.Authenticator{none, authenticator(nil)}},
		"a nil verifier":           {Verifiers: []Verifier{nil}},
		"a nil authenticator":      {Fallbacks: []auth.Authenticator{nil}},
		"a cache of negative size": {Verifiers: []Verifier{tokens}, CacheSize: -1},
	} {
		if _, err := NewChain(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNone(t *testing.T) {
	chain := newChain(t, newClock(), ChainConfig{Fallbacks: []auth.Authenticator{must(NewNone("acme"))}})
	for _, token := range []string{"", "x"} { // the header is not read: there is nothing to verify it with
		g, err := chain.Authenticate(request(token))
		if err != nil || g.Tenant != "acme" || g.Subject != LocalSubject || !g.Allows(auth.AllScopes) || !g.AllowsSession("s1", "bob") || !g.ExpiresAt.IsZero() {
			t.Errorf("got %+v, %v", g, err)
		}
		if name, ok := g.View("operator"); name != "operator" || !ok {
			t.Error("a view is not allowed")
		}
	}
	if _, err := NewNone("a.b"); err == nil {
		t.Error("a malformed tenant is accepted")
	}
}

// TestCache floods a small cache with valid and invalid tokens.
func TestCache(t *testing.T) {
	clock := newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock)}, CacheSize: 64})
	token := func(n int) string {
		return sign(sessionHeader, with(sessionClaimsAt(start), "jti", fmt.Sprintf(`"t%d"`, n)), edKey())
	}
	first := make([]*auth.Grant, 10)
	for n := range first {
		first[n] = must(chain.Verify(t.Context(), token(n)))
	}
	kept := chain.cache.Len()
	for n := range 300 {
		bad := sign(sessionHeader, with(sessionClaimsAt(start), "jti", fmt.Sprintf(`"t%d"`, n)), evilEd())
		if _, err := chain.Verify(t.Context(), bad); !errors.Is(err, auth.ErrInvalid) {
			t.Fatalf("got %v", err)
		}
	}
	if n := chain.cache.Len(); n != kept {
		t.Errorf("%d tokens in the cache after invalid ones, want %d", n, kept)
	}
	same := 0
	for n := range first {
		if must(chain.Verify(t.Context(), token(n))) == first[n] {
			same++
		}
	}
	if same < len(first) {
		t.Errorf("%d of %d tokens are still in the cache", same, len(first))
	}

	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for n := range 60 {
				if _, err := chain.Verify(t.Context(), token(c*30+n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	if n := chain.cache.Len(); n > 64 {
		t.Errorf("%d tokens in a cache of 64", n)
	}

	// Expired tokens make place for others before these do.
	clock.add(seconds(931))
	later := func(n int) string {
		return sign(sessionHeader, with(sessionClaimsAt(clock.now()), "jti", fmt.Sprintf(`"u%d"`, n)), edKey())
	}
	for n := range 60 {
		if _, err := chain.Verify(t.Context(), later(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := chain.cache.Len(); n > 64 {
		t.Errorf("%d tokens in a cache of 64", n)
	}
}

// TestCacheIsOfAllBytes changes the signature of a token that is cached.
func TestCacheIsOfAllBytes(t *testing.T) {
	clock := newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock)}})
	good := sign(sessionHeader, sessionClaimsAt(start), edKey())
	must(chain.Verify(t.Context(), good))
	for i := range good {
		for _, c := range []byte("Az9_.") {
			changed := good[:i] + string(c) + good[i+1:]
			if changed == good {
				continue
			}
			if _, err := chain.Verify(t.Context(), changed); !errors.Is(err, auth.ErrInvalid) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
	}
}

func TestChallenge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{auth.ErrNoCredential, "Bearer"},
		{ErrTokenInQuery, `Bearer error="invalid_request", error_description="token in the query"`},
		{invalid(ReasonExpired), `Bearer error="invalid_token", error_description="expired"`},
		{invalid(ReasonRevoked), `Bearer error="invalid_token", error_description="revoked"`},
		{invalid(ReasonSignature), `Bearer error="invalid_token"`},
		{fmt.Errorf("edge: %w", invalid(ReasonRepeated)), `Bearer error="invalid_request"`},
		{invalid(ReasonScheme), `Bearer error="invalid_request"`},
		{&UnavailableError{}, "Bearer"},
	} {
		if got := Challenge(c.err); got != c.want {
			t.Errorf("%v: got %s, want %s", c.err, got, c.want)
		}
	}
	err := &UnavailableError{Issuer: "https://id.example", Cause: errors.New("refused")}
	if err.Error() != "credentials cannot be verified at present: issuer https://id.example: refused" || !errors.Is(err, err.Cause) {
		t.Errorf("got %v", err)
	}
	if got := (&UnavailableError{Issuer: "app"}).Error(); got != "credentials cannot be verified at present: issuer app" {
		t.Errorf("got %s", got)
	}
}

func prefixes(list ...string) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// TestProxy sends identity headers from proxies and from others. httptest.NewRequest has the peer 192.0.2.1.
func TestProxy(t *testing.T) {
	fixed := ProxyConfig{Proxies: prefixes("192.0.2.0/24", "2001:db8::/64"), SubjectHeader: "x-user", Tenant: "acme", Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{Own: true}}
	full := ProxyConfig{
		Proxies: prefixes("192.0.2.1/32"), SubjectHeader: "X-User", TenantHeader: "X-Tenant", ScopeHeader: "X-Groups", ScopeValues: map[string]auth.Scope{"ops": auth.AllScopes, "staff": auth.ScopeRead},
		ViewHeader: "X-Views", Sessions: auth.Sessions{All: true},
	}
	user := func(values ...string) http.Header { return http.Header{"X-User": values} }
	all := func(change func(http.Header)) http.Header {
		h := http.Header{"X-User": {"ann"}, "X-Tenant": {"acme"}, "X-Groups": {"staff, other"}, "X-Views": {"customer support"}}
		change(h)
		return h
	}
	for _, c := range []struct {
		name   string
		cfg    ProxyConfig
		peer   string // "" for a proxy
		header http.Header
		want   string // the Grant; "" for none
		reason Reason // "" for ErrNoCredential
		member string
	}{
		{"a user", fixed, "", user("ann"), "acme ann [read chat] {All:false Own:true IDs:[] Prefix:} []", "", ""},
		{"over IPv6", fixed, "[2001:db8::7]:443", user("ann"), "acme ann [read chat] {All:false Own:true IDs:[] Prefix:} []", "", ""},
		{"IPv4 in IPv6", fixed, "[::ffff:192.0.2.9]:443", user("ann"), "acme ann [read chat] {All:false Own:true IDs:[] Prefix:} []", "", ""},
		{"no user", fixed, "", http.Header{}, "", "", ""},
		{"another header", fixed, "", http.Header{"X_user": {"ann"}}, "", "", ""},
		{"another peer", fixed, "198.51.100.1:1", user("ann"), "", "", ""},
		{"another peer that names a proxy", fixed, "198.51.100.1:1", http.Header{"X-User": {"ann"}, "X-Forwarded-For": {"192.0.2.1"}, "Forwarded": {"for=192.0.2.1"}, "X-Real-Ip": {"192.0.2.1"}}, "", "", ""},
		{"loopback", fixed, "127.0.0.1:1", user("ann"), "", "", ""},
		{"a zone", fixed, "[fe80::1%eth0]:1", user("ann"), "", "", ""},
		{"a Unix socket", fixed, "@", user("ann"), "", "", ""},
		{"no peer", fixed, " ", user("ann"), "", "", ""},
		{"a peer without a port", fixed, "192.0.2.1", user("ann"), "", "", ""},
		{"two users", fixed, "", user("ann", "root"), "", ReasonProxy, "X-User"},
		{"an empty user", fixed, "", user(""), "", ReasonProxy, "X-User"},
		{"a user that is not text", fixed, "", user("ann\x00"), "", ReasonProxy, "X-User"},
		{"a user that is not UTF-8", fixed, "", user("ann\xff"), "", ReasonProxy, "X-User"},

		{"all headers", full, "", all(func(http.Header) {}), "acme ann [read] {All:true Own:false IDs:[] Prefix:} [customer support]", "", ""},
		{"two groups", full, "", all(func(h http.Header) { h.Set("X-Groups", "staff,ops") }), "acme ann [read chat answer stop ingest delete admin fork] {All:true Own:false IDs:[] Prefix:} [customer support]", "", ""},
		{"no known group", full, "", all(func(h http.Header) { h.Set("X-Groups", "read") }), "acme ann [] {All:true Own:false IDs:[] Prefix:} [customer support]", "", ""},
		{"no tenant", full, "", all(func(h http.Header) { h.Del("X-Tenant") }), "", ReasonProxy, "X-Tenant"},
		{"two tenants", full, "", all(func(h http.Header) { h.Add("X-Tenant", "other") }), "", ReasonProxy, "X-Tenant"},
		{"a malformed tenant", full, "", all(func(h http.Header) { h.Set("X-Tenant", "a.b") }), "", ReasonProxy, "X-Tenant"},
		{"no groups", full, "", all(func(h http.Header) { h.Del("X-Groups") }), "", ReasonProxy, "X-Groups"},
		{"views removed by the client", full, "", all(func(h http.Header) { h.Del("X-Views"); h.Set("Connection", "X-Views") }), "", ReasonProxy, "X-Views"},
		{"two lines of views", full, "", all(func(h http.Header) { h.Add("X-Views", "*") }), "", ReasonProxy, "X-Views"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := NewProxy(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header = c.header
			if c.peer != "" {
				r.RemoteAddr = strings.TrimSpace(c.peer)
			}
			g, err := p.Authenticate(r)
			switch {
			case c.reason != "":
				wantReason(t, err, c.reason, c.member)
			case c.want == "" && (!errors.Is(err, auth.ErrNoCredential) || g != nil):
				t.Errorf("got %v, %v, want no credential", g, err)
			case c.want != "" && err != nil:
				t.Error(err)
			case c.want != "":
				if got := fmt.Sprintf("%s %s [%s] %+v %v", g.Tenant, g.Subject, g.Scopes, g.Sessions, g.Views); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
		})
	}
	for name, change := range map[string]func(*ProxyConfig){
		"no proxies":         func(c *ProxyConfig) { c.Proxies = nil },
		"every address":      func(c *ProxyConfig) { c.Proxies = prefixes("0.0.0.0/0") },
		"every IPv6 address": func(c *ProxyConfig) { c.Proxies = prefixes("::/0") },
		"IPv4 in IPv6":       func(c *ProxyConfig) { c.Proxies = prefixes("::ffff:0:0/96") },
		"an invalid prefix":  func(c *ProxyConfig) { c.Proxies = []netip.Prefix{{}} },
		"no subject":         func(c *ProxyConfig) { c.SubjectHeader = "" },
		"no tenant":          func(c *ProxyConfig) { c.Tenant = "" },
		"two tenants":        func(c *ProxyConfig) { c.TenantHeader = "X-Tenant" },
		"a malformed tenant": func(c *ProxyConfig) { c.Tenant = "a.b" },
		"no scopes":          func(c *ProxyConfig) { c.Scopes = 0 },
		"unknown scopes":     func(c *ProxyConfig) { c.Scopes = 1 << 15 },
		"two scopes":         func(c *ProxyConfig) { c.ScopeHeader = "X-Groups" },
		"two views":          func(c *ProxyConfig) { c.Views, c.ViewHeader = []string{"a"}, "X-Views" },
		"an empty view":      func(c *ProxyConfig) { c.Views = []string{""} },
		"no sessions":        func(c *ProxyConfig) { c.Sessions = auth.Sessions{} },
		"malformed sessions": func(c *ProxyConfig) { c.Sessions = auth.Sessions{IDs: []string{"*"}} },
	} {
		cfg := fixed
		change(&cfg)
		if _, err := NewProxy(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
