// Package authn authenticates the HTTP requests of an edge, as the file of authenticators configures it.
//
// A Chain is asked once for each request, before any route is served. It returns a Grant, or an error that says whether the client has no credential, an
// invalid one, or has to come back later. A request without a valid credential gets no Grant: everything is denied by default.
//
//	tokens, err := authn.NewSessionTokens(authn.SessionTokensConfig{Issuer: "https://app.example", Audience: "tailrace", Keys: keys})
//	chain, err := authn.NewChain(authn.ChainConfig{Verifiers: []authn.Verifier{tokens}})
//
//	grant, err := chain.Authenticate(r)
//	if err != nil {
//		w.Header().Set("WWW-Authenticate", authn.Challenge(err))
//		...
//	}
//	r = r.WithContext(authn.NewContext(r.Context(), grant))
//
// The authenticators are OIDC (access tokens of an identity provider), SessionTokens (tokens that the backend of an application signs, with an auth.Minter if it
// is written in Go), and those of NewProxy (identity headers of named proxies), NewClientCertificates (verified certificates of mutual TLS) and NewNone (one
// tenant with all rights, for a listener on loopback).
//
// Signatures are verified by github.com/go-jose/go-jose. This package chooses the key and the algorithm, and refuses what a token may not contain.
package authn
