package auth

import (
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// FuzzAuthenticate changes the header Authorization and the query. A request is only accepted with a token that was signed, byte for byte: Ed25519 has one
// signature for a message and a key, and the form of a token is canonical. Every other request gets one error of the four, without a part of the token.
func FuzzAuthenticate(f *testing.F) {
	clock := newClock()
	key := ed25519.NewKeyFromSeed(aSecret)
	tokens := newSessionTokens(f, clock, func(c *SessionTokensConfig) { c.Keys = []PublicKey{{"k1", key.Public()}} })
	chain := newChain(f, clock, ChainConfig{Verifiers: []Verifier{tokens}})
	claims := `{"iss":"app","aud":"tailrace","sub":"ann","tid":"acme","sid":"s1","scope":"read chat","iat":1800000000,"exp":1800000900,"jti":"t1"}`
	minted := []string{sign(sessionHeader, claims, key), sign(sessionHeader, with(claims, "view", `["a","b"]`), key)}
	for _, token := range minted {
		f.Add("Bearer "+token, "")
		f.Add("bearer "+token, "limit=1")
		f.Add("Bearer "+token, "access_token="+token)
	}
	for i, a := range sessionAttacks("http://evil.example") {
		if i%4 == 0 && len(a.token) < 2000 {
			f.Add("Bearer "+a.token, "")
		}
	}
	f.Add("Basic YTpi", "token=")
	f.Add("", "%zz&;=")
	f.Fuzz(func(t *testing.T, header, query string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		r.Header["Authorization"] = []string{header}
		g, err := chain.Authenticate(r)
		if (g == nil) == (err == nil) {
			t.Fatalf("got %v and %v", g, err)
		}
		if err == nil {
			if !strings.EqualFold(header[:7], "Bearer ") || !slices.Contains(minted, header[7:]) {
				t.Fatalf("accepted %q", header)
			}
			if bad := g.Check(); bad != nil || g.Expired(clock.now()) {
				t.Fatalf("got %+v: %v", g, bad)
			}
			return
		}
		if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTokenInQuery) {
			t.Fatalf("got %v", err)
		}
		for part := range strings.FieldsFuncSeq(header, func(r rune) bool { return r == '.' || r == ' ' }) {
			if len(part) > 20 && strings.Contains(err.Error()+Challenge(err), part) {
				t.Fatalf("the error has a part of the token: %v", err)
			}
		}
	})
}
