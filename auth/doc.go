// Package auth has what a program in front of Tailrace says about its users: which user or program makes a request, and what the request may do.
//
// A program that embeds Tailrace implements Authenticator, which tailrace.Tailrace.Handler asks once for each request, before any route is served. Without a Grant a
// request is denied.
//
// The backend of an application whose clients connect to an edge of Tailrace signs a session token for each of its users, with a Minter. The edge verifies it with
// the public keys of the application.
//
//	id, key, err := auth.ParseSigningKey(text)
//	minter, err := auth.NewMinter(auth.MinterConfig{Issuer: "https://app.example", Audience: "tailrace", KeyID: id, Key: key})
//	minted, err := minter.Mint(auth.Grant{
//		Tenant: "acme", Subject: "user-17", Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{Own: true},
//	}, 15*time.Minute)
package auth
