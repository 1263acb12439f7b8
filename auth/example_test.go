package auth_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// The backend of an application mints a token for one session of a user and gives it to the browser.
func ExampleMinter() {
	public, private, err := ed25519.GenerateKey(rand.Reader) // once; keep it where the backend keeps its secrets
	if err != nil {
		panic(err)
	}
	minter, err := auth.NewMinter(auth.MinterConfig{Issuer: "https://app.example", Audience: "tailrace", KeyID: "2026-11", Key: private})
	if err != nil {
		panic(err)
	}
	minted, err := minter.Mint(auth.Grant{
		Tenant: "acme", Subject: "user-17", Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{IDs: []string{"s-1"}},
	}, 15*time.Minute)
	if err != nil {
		panic(err)
	}

	// The edge has the public key alone.
	tokens, err := auth.NewSessionTokens(auth.SessionTokensConfig{Issuer: "https://app.example", Audience: "tailrace", Keys: []auth.PublicKey{{ID: "2026-11", Key: public}}})
	if err != nil {
		panic(err)
	}
	defer tokens.Close()
	chain, err := auth.NewChain(auth.ChainConfig{Verifiers: []auth.Verifier{tokens}})
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/sessions/s-1/events", nil)
	r.Header.Set("Authorization", "Bearer "+minted.Token)
	grant, err := chain.Authenticate(r)
	if err != nil {
		panic(err)
	}
	fmt.Println(grant.Tenant, grant.Subject, "may", grant.Scopes)
	fmt.Println("s-1:", grant.AllowsSession("s-1", ""), "s-2:", grant.AllowsSession("s-2", "user-17"))
	// Output:
	// acme user-17 may read chat
	// s-1: true s-2: false
}

// A handler asks the Chain first, and gives the Grant to the routes behind it.
func ExampleChain() {
	none, err := auth.NewNone("default") // on loopback only
	if err != nil {
		panic(err)
	}
	chain, err := auth.NewChain(auth.ChainConfig{Fallbacks: []auth.Authenticator{none}})
	if err != nil {
		panic(err)
	}
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grant, ok := auth.FromContext(r.Context())
		if !ok || !grant.Allows(auth.ScopeRead) || !grant.AllowsSession("s-1", "") {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintln(w, "session of", grant.Tenant)
	})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grant, err := chain.Authenticate(r)
		switch {
		case errors.Is(err, auth.ErrUnavailable):
			w.WriteHeader(http.StatusServiceUnavailable)
		case err != nil:
			w.Header().Set("WWW-Authenticate", auth.Challenge(err))
			w.WriteHeader(http.StatusUnauthorized)
		default:
			routes.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), grant)))
		}
	})
	for _, target := range []string{"/v1/sessions/s-1", "/v1/sessions/s-1?access_token=x"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"), w.Body)
	}
	// Output:
	// 200  session of default
	//
	// 401 Bearer error="invalid_request", error_description="token in the query"
}
