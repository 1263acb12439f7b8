package authn

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/auth"
)

func newCookieChain(t *testing.T, fallbacks ...auth.Authenticator) (chain *Chain, good string) {
	t.Helper()
	clock := newClock()
	cookie, err := NewCookie("https://app.example")
	if err != nil {
		t.Fatal(err)
	}
	chain = newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock)}, Cookie: cookie, Fallbacks: fallbacks})
	return chain, sign(sessionHeader, sessionClaimsAt(start), edKey())
}

// The header wins, then the cookie, then the other authenticators; none of them falls back after a bad credential.
func TestCookie(t *testing.T) {
	proxy := authenticator(func(r *http.Request) (*auth.Grant, error) {
		if r.Header.Get("X-User") == "" {
			return nil, auth.ErrNoCredential
		}
		return &auth.Grant{Tenant: "acme", Subject: "proxy", Scopes: auth.ScopeRead}, nil
	})
	chain, good := newCookieChain(t, proxy)
	bad := good[:len(good)-4] + "AAAA"
	for _, c := range []struct {
		name, header, user string
		cookies            []string
		subject            string
		reason             Reason
	}{
		{name: "the cookie", cookies: []string{CookieName + "=" + good}, subject: "ann"},
		{name: "among others", cookies: []string{"a=b; " + CookieName + "=" + good + "; c=d"}, subject: "ann"},
		{name: "in a second header", cookies: []string{"a=b", CookieName + "=" + good}, subject: "ann"},
		{name: "the header wins", header: "Bearer " + good, cookies: []string{CookieName + "=" + bad}, subject: "ann"},
		{name: "a bad header does not fall back", header: "Bearer " + bad, cookies: []string{CookieName + "=" + good}, reason: ReasonSignature},
		{name: "a bad cookie", cookies: []string{CookieName + "=" + bad}, reason: ReasonSignature},
		{name: "a bad cookie does not fall back", cookies: []string{CookieName + "=" + bad}, user: "bob", reason: ReasonSignature},
		{name: "the cookie before the proxy", cookies: []string{CookieName + "=" + good}, user: "bob", subject: "ann"},
		{name: "the proxy", cookies: []string{"a=b"}, user: "bob", subject: "proxy"},
		{name: "empty", cookies: []string{CookieName + "="}, reason: ReasonMalformed},
		{name: "twice", cookies: []string{CookieName + "=" + good + "; " + CookieName + "=" + good}, reason: ReasonRepeated},
		{name: "twice, in two headers", cookies: []string{CookieName + "=" + bad, CookieName + "=" + good}, reason: ReasonRepeated},
		{name: "too large", cookies: []string{CookieName + "=" + strings.Repeat("a", MaxToken+1)}, reason: ReasonTooLarge},
		{name: "quoted", cookies: []string{CookieName + `="` + good + `"`}, subject: "ann"},
		{name: "another name", cookies: []string{"tailrace=" + good}},
		{name: "another spelling", cookies: []string{"__host-tailrace=" + good}},
	} {
		r := request("")
		r.Header["Cookie"] = c.cookies
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		if c.user != "" {
			r.Header.Set("X-User", c.user)
		}
		g, err := chain.Authenticate(r)
		switch {
		case c.reason != "":
			if wantReason(t, err, c.reason, ""); t.Failed() {
				t.Fatal(c.name)
			}
		case c.subject == "" && !errors.Is(err, auth.ErrNoCredential):
			t.Errorf("%s: %+v, %v", c.name, g, err)
		case c.subject != "" && (err != nil || g.Subject != c.subject):
			t.Errorf("%s: %+v, %v", c.name, g, err)
		}
	}
	r := request("")
	r.Header.Set("Cookie", CookieName+"="+good)
	r.URL.RawQuery = "access_token=" + good
	if _, err := chain.Authenticate(r); !errors.Is(err, ErrTokenInQuery) {
		t.Errorf("a token in the query, with a cookie: %v", err)
	}
	without := newChain(t, newClock(), ChainConfig{Verifiers: []Verifier{newSessionTokens(t, newClock())}})
	r.URL.RawQuery = ""
	if _, err := without.Authenticate(r); !errors.Is(err, auth.ErrNoCredential) {
		t.Errorf("a chain without cookies: %v", err)
	}
	if _, err := NewChain(ChainConfig{Fallbacks: []auth.Authenticator{proxy}, Cookie: chain.cookie}); err == nil {
		t.Error("a Cookie without Verifiers")
	}
	if _, err := NewCookie("https://app.example/path"); err == nil {
		t.Error("an origin with a path")
	}
}

// TestCookieOrigins has all combinations of what a browser says about the page that makes a request. The cookie is for pages of the edge and of the configured
// origin; without a cookie, the header of these requests has no influence on who they are.
func TestCookieOrigins(t *testing.T) {
	chain, good := newCookieChain(t)
	const own, trusted, sibling, other = "https://edge.example", "https://app.example", "https://sibling.edge.example", "https://evil.example"
	accepted := 0
	for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH"} {
		for _, site := range []string{"", "same-origin", "none", "same-site", "cross-site", "unknown"} {
			for _, origin := range []string{"", own, trusted, sibling, other, "null", "http://app.example", "https://app.example.evil.example"} {
				for _, media := range []string{"", "application/json", "application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
					r := httptest.NewRequest(method, "https://edge.example/v1/x", nil)
					if media != "" {
						r = httptest.NewRequest(method, "https://edge.example/v1/x", strings.NewReader("{}"))
						r.Header.Set("Content-Type", media)
					}
					for name, value := range map[string]string{"Sec-Fetch-Site": site, "Origin": origin} {
						if value != "" {
							r.Header.Set(name, value)
						}
					}
					safe := method == "GET" || method == "HEAD"
					page := origin == trusted || site == "same-origin" || site == "none"
					if site == "" {
						page = origin == trusted || origin == own || origin == "" && safe
					}
					want := page && (safe || media == "" || strings.HasPrefix(media, "application/json"))
					r.Header.Set("Cookie", CookieName+"="+good)
					g, err := chain.Authenticate(r)
					if want != (err == nil) || !want && !errors.Is(err, ErrCrossOrigin) {
						t.Errorf("%s, Sec-Fetch-Site %q, Origin %q, Content-Type %q: %v, %v", method, site, origin, media, g, err)
					}
					if want {
						accepted++
					}
					r.Header.Del("Cookie")
					r.Header.Set("Authorization", "Bearer "+good)
					if _, err := chain.Authenticate(r); err != nil {
						t.Errorf("%s with the header: %v", method, err)
					}
				}
			}
		}
	}
	if accepted == 0 {
		t.Error("nothing was accepted")
	}
}
