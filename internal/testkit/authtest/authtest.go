// Package authtest has the authenticators of tests: None for tests that are about something else, and an Issuer of session tokens for those of rights.
package authtest

import (
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// None returns the authenticator that gives every request all rights in a tenant.
func None(tb testing.TB, tenant string) auth.Authenticator {
	tb.Helper()
	none, err := auth.NewNone(tenant)
	if err != nil {
		tb.Fatal(err)
	}
	return none
}

// The names in the tokens of an Issuer.
const (
	Name     = "https://app.test"
	Audience = "tailrace-test"
)

// Issuer is an application with a key of its own.
type Issuer struct {
	*auth.Chain

	tb  testing.TB
	key ed25519.PrivateKey
}

// NewIssuer returns an Issuer. It is the authenticator of its tokens, and refuses requests without one.
func NewIssuer(tb testing.TB) *Issuer {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	tokens, err := auth.NewSessionTokens(auth.SessionTokensConfig{Issuer: Name, Audience: Audience, Keys: []auth.PublicKey{{ID: "k", Key: public}}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(tokens.Close)
	chain, err := auth.NewChain(auth.ChainConfig{Verifiers: []auth.Verifier{tokens}})
	if err != nil {
		tb.Fatal(err)
	}
	return &Issuer{Chain: chain, tb: tb, key: private}
}

// Token returns a token for what g allows. The leeway of 30 seconds is added to its lifetime. change may be nil.
func (i *Issuer) Token(g auth.Grant, lifetime time.Duration, change func(*auth.MinterConfig)) string {
	i.tb.Helper()
	cfg := auth.MinterConfig{Issuer: Name, Audience: Audience, KeyID: "k", Key: i.key}
	if change != nil {
		change(&cfg)
	}
	minter, err := auth.NewMinter(cfg)
	if err != nil {
		i.tb.Fatal(err)
	}
	minted, err := minter.Mint(g, lifetime)
	if err != nil {
		i.tb.Fatal(err)
	}
	return minted.Token
}
