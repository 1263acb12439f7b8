package auth_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// The backend of an application mints a token for one session of a user and gives it to the browser. The edge has the public keys alone.
func ExampleMinter() {
	_, private, err := ed25519.GenerateKey(rand.Reader) // once; keep it where the backend keeps its secrets
	if err != nil {
		panic(err)
	}
	minter, err := auth.NewMinter(auth.MinterConfig{Issuer: "https://app.example", Audience: "tailrace", KeyID: "2026-11", Key: private})
	if err != nil {
		panic(err)
	}
	minted, err := minter.Mint(auth.Grant{
		Tenant: "acme", Subject: "user-17", Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{IDs: []string{"s-1"}}, TokenID: "t-1",
	}, 15*time.Minute)
	if err != nil {
		panic(err)
	}
	fmt.Println(minted.ID, len(minted.Token) > 100)
	// Output: t-1 true
}

// logins are the users of a program by the cookie that it has given them.
type logins map[string]string

// Authenticate gives each user the sessions that the user has started.
func (l logins) Authenticate(r *http.Request) (*auth.Grant, error) {
	cookie, err := r.Cookie("login")
	if err != nil {
		return nil, auth.ErrNoCredential
	}
	user, ok := l[cookie.Value]
	if !ok {
		return nil, auth.ErrInvalid
	}
	return &auth.Grant{Tenant: "acme", Subject: user, Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{Own: true}}, nil
}

// A program that embeds Tailrace passes the Authenticator of its own users to tailrace.Tailrace.Handler.
func ExampleAuthenticator() {
	var users auth.Authenticator = logins{"c1": "user-17"}
	for _, value := range []string{"c1", "c2"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/sessions/s-1/events", nil)
		r.AddCookie(&http.Cookie{Name: "login", Value: value})
		grant, err := users.Authenticate(r)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(grant.Subject, "may", grant.Scopes, grant.AllowsSession("s-1", "user-17"), grant.AllowsSession("s-1", "user-18"))
	}
	// Output:
	// user-17 may read chat true false
	// invalid credential
}
