package authn

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/revocation"
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
		if !errors.Is(err, auth.ErrInvalid) && !errors.Is(err, ErrTokenInQuery) {
			t.Fatalf("got %v", err)
		}
		for part := range strings.FieldsFuncSeq(header, func(r rune) bool { return r == '.' || r == ' ' }) {
			if len(part) > 20 && strings.Contains(err.Error()+Challenge(err), part) {
				t.Fatalf("the error has a part of the token: %v", err)
			}
		}
	})
}

// FuzzSignedClaims signs any claims with the right key, for session tokens and for a provider: what an issuer can send that has a fault, or whose users choose
// parts of their claims. A Grant has exactly what another parser of JSON finds in the claims.
func FuzzSignedClaims(f *testing.F) {
	p, clock := newProvider(f), newClock()
	key := ed25519.NewKeyFromSeed(aSecret)
	p.setKeys(jwkOf(key.Public(), "k1"))
	chain := newChain(f, clock, ChainConfig{Verifiers: []Verifier{
		p.oidc(f, clock, func(c *OIDCConfig) { c.SessionsClaim = "sid" }),
		newSessionTokens(f, clock, func(c *SessionTokensConfig) { c.Keys = []PublicKey{{"k1", key.Public()}} }),
	}})
	const issuer = "ISSUER" // of the provider, whose port changes
	session, oidc := sessionClaimsAt(start), oidcClaimsAt(start, issuer)
	for _, good := range []string{session, oidc} {
		for _, member := range []string{
			`"x":1`, `"nbf":1800000000`, `"sid":["s1","s2"]`, `"sid":"p*"`, `"sid":"*"`, `"view":["a"]`, `"jti":"t\u0031"`, `"sub":"\u212aann"`, `"Sub":"root"`, `"\u0073ub":"ann"`,
			`"aud":"tailrace"`, `"exp":1800000001`, `"exp":1.8e9`, `"scope":["read","admin"]`, `"scope":"read\u0020chat"`, `"cnf":null`, `"tid":"acme","org":"acme"`,
		} {
			f.Add(strings.TrimSuffix(good, "}") + "," + member + "}")
			if name, value, found := strings.Cut(member, ":"); found {
				f.Add(with(good, strings.Trim(name, `"`), value))
			}
		}
	}
	f.Add(with(oidc, "exp", "2000000000")) // years after iat
	f.Fuzz(func(t *testing.T, claims string) {
		claims = strings.ReplaceAll(claims, issuer, p.URL)
		g, err := chain.Authenticate(request(sign(sessionHeader, claims, key)))
		if (g == nil) == (err == nil) || err != nil && !errors.Is(err, auth.ErrInvalid) {
			t.Fatalf("got %v and %v", g, err)
		}
		if err != nil {
			return
		}
		var of map[string]any
		decoder := json.NewDecoder(strings.NewReader(claims))
		decoder.UseNumber()
		if err := decoder.Decode(&of); err != nil {
			t.Fatalf("accepted %q, which is not an object: %v", claims, err)
		}
		tenant := of["tid"]
		if g.Issuer == p.URL {
			tenant = of["org"]
		}
		id, _ := of["jti"].(string) // not required of a provider
		expires, _ := of["exp"].(json.Number).Int64()
		expires += int64(Leeway.Seconds())
		if number, known := of["iat"].(json.Number); known { // a token expires when its revocation could, see limitAge
			issued, _ := number.Int64()
			expires = min(expires, issued+int64(revocation.Lifetime.Seconds()))
		}
		audience, _ := of["aud"].([]any)
		_, bound := of["cnf"]
		switch {
		case g.Issuer != of["iss"] || g.Subject != of["sub"] || g.Tenant != tenant || g.TokenID != id || g.ExpiresAt.Unix() != expires:
			t.Fatalf("the Grant is %+v of %s", g, claims)
		case of["aud"] != "tailrace" && !slices.Contains(audience, any("tailrace")), bound, g.Expired(clock.now()), g.Check() != nil:
			t.Fatalf("accepted %s", claims)
		}
		names, _ := of["scope"].(string)
		list, _ := of["scope"].([]any)
		for name := range strings.FieldsSeq(g.Scopes.String()) {
			if !slices.Contains(strings.Fields(names), name) && !slices.Contains(list, any(name)) {
				t.Fatalf("the Grant has the right %s of %s", name, claims)
			}
		}
		if _, limited := of["sid"]; g.Sessions.All && of["sid"] != "*" || g.Sessions.Own == limited {
			t.Fatalf("the Grant has the sessions %+v of %s", g.Sessions, claims)
		}
	})
}

// FuzzKeySet changes what a provider publishes. A key that is used has a size and a kind that the algorithms are for, and none of them is secret.
func FuzzKeySet(f *testing.F) {
	for _, public := range []any{edKey().Public(), ecKey().Public(), rsaKey().Public(), weakRSA().Public()} {
		f.Add(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{jwkOf(public, "k1")}})))
	}
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"RSA","n":"AA","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := parseKeySet(text, true)
		if (set == nil) == (err == nil) {
			t.Fatalf("got %v and %v", set, err)
		}
		if err != nil {
			return
		}
		if len(set.keys) == 0 || len(set.keys) > maxKeys {
			t.Fatalf("%d keys", len(set.keys))
		}
		for _, k := range set.keys {
			if _, err := newKey(k.id, k.material, ""); err != nil || len(k.algorithms) == 0 {
				t.Fatalf("key %q, a %T for %v: %v", k.id, k.material, k.algorithms, err)
			}
			for _, alg := range k.algorithms {
				if !slices.Contains(asymmetric, alg) {
					t.Fatalf("key %q for %s", k.id, alg)
				}
			}
		}
	})
}
