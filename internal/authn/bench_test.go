package authn

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkAuthenticate has the whole cost for a request: query, header, hash, cache; and, if the token is not cached, its parts and its signature.
func BenchmarkAuthenticate(b *testing.B) {
	p, clock := newProvider(b), newClock()
	p.setKeys(jwkOf(rsaKey().Public(), "r1"))
	chain := newChain(b, clock, ChainConfig{Verifiers: []Verifier{p.oidc(b, clock), newSessionTokens(b, clock, func(c *SessionTokensConfig) { c.Secret = aSecret })}})
	session := sessionClaimsAt(start)
	for _, c := range []struct{ name, token string }{
		{"EdDSA", sign(sessionHeader, session, edKey())},
		{"ES256", sign(`{"alg":"ES256","kid":"k2","typ":"at+jwt"}`, session, ecKey())},
		{"HS256", sign(`{"alg":"HS256","typ":"at+jwt"}`, session, aSecret)},
		{"RS256", sign(oidcHeader, oidcClaimsAt(start, p.URL), rsaKey())},
	} {
		r := request(c.token)
		r.URL.RawQuery = "before=12-ab&limit=20"
		b.Run(fmt.Sprintf("%s/cached/bytes=%d", c.name, len(c.token)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chain.Authenticate(r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%s/new/bytes=%d", c.name, len(c.token)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t, err := parseToken(c.token)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := chain.verifiers[t.issuer].verify(b.Context(), t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, tokens := range []int{1, 1024} {
		b.Run(fmt.Sprintf("cached/parallel/tokens=%d", tokens), func(b *testing.B) {
			b.ReportAllocs()
			requests := make([]*http.Request, tokens)
			for n := range requests {
				requests[n] = request(sign(sessionHeader, with(session, "jti", fmt.Sprintf(`"t%d"`, n)), edKey()))
				if _, err := chain.Authenticate(requests[n]); err != nil {
					b.Fatal(err)
				}
			}
			var workers atomic.Int64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for n := int(workers.Add(1)) * 7; pb.Next(); n++ {
					if _, err := chain.Authenticate(requests[n%tokens]); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
	b.Run("cached/token of 8 KiB", func(b *testing.B) {
		b.ReportAllocs()
		r := request(sign(sessionHeader, with(session, "x", `"`+strings.Repeat("x", 5700)+`"`), edKey()))
		for b.Loop() {
			if _, err := chain.Authenticate(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("invalid signature", func(b *testing.B) {
		b.ReportAllocs()
		r := request(sign(sessionHeader, session, evilEd()))
		for b.Loop() {
			if _, err := chain.Authenticate(r); err == nil {
				b.Fatal("accepted")
			}
		}
	})
}
