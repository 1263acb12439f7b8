// Package authtest has the authenticators of tests: None for tests that are about something else, and an Issuer of session tokens for those of rights.
package authtest

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
)

// None returns the authenticator that gives every request all rights in a tenant.
func None(tb testing.TB, tenant string) auth.Authenticator {
	tb.Helper()
	none, err := authn.NewNone(tenant)
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
	*authn.Chain

	Revocations *authn.Revocations // empty, and loaded

	tb  testing.TB
	key ed25519.PrivateKey
}

// NewIssuer returns an Issuer. It is the authenticator of its tokens, also in a cookie for pages of these origins, and refuses requests without one.
func NewIssuer(tb testing.TB, origins ...string) *Issuer {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	tokens, err := authn.NewSessionTokens(authn.SessionTokensConfig{Issuer: Name, Audience: Audience, Keys: []authn.PublicKey{{ID: "k", Key: public}}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(tokens.Close)
	cookie, err := authn.NewCookie(origins...)
	if err != nil {
		tb.Fatal(err)
	}
	revocations := authn.NewRevocations()
	revocations.Loaded()
	chain, err := authn.NewChain(authn.ChainConfig{Verifiers: []authn.Verifier{tokens}, Cookie: cookie, Revocations: revocations})
	if err != nil {
		tb.Fatal(err)
	}
	return &Issuer{Chain: chain, Revocations: revocations, tb: tb, key: private}
}

// Minter returns a Minter with the key of the Issuer. change may be nil.
func (i *Issuer) Minter(change func(*auth.MinterConfig)) *auth.Minter {
	i.tb.Helper()
	cfg := auth.MinterConfig{Issuer: Name, Audience: Audience, KeyID: "k", Key: i.key}
	if change != nil {
		change(&cfg)
	}
	minter, err := auth.NewMinter(cfg)
	if err != nil {
		i.tb.Fatal(err)
	}
	return minter
}

// Token returns a token for what g allows. The leeway of 30 seconds is added to its lifetime. change may be nil.
func (i *Issuer) Token(g auth.Grant, lifetime time.Duration, change func(*auth.MinterConfig)) string {
	i.tb.Helper()
	minted, err := i.Minter(change).Mint(g, lifetime)
	if err != nil {
		i.tb.Fatal(err)
	}
	return minted.Token
}

// File writes a file of authenticators with which another process accepts the tokens of the Issuer, and returns its path.
func (i *Issuer) File() string {
	i.tb.Helper()
	keys, err := i.Minter(nil).PublicKeys()
	if err != nil {
		i.tb.Fatal(err)
	}
	dir := i.tb.TempDir()
	keysFile, file := filepath.Join(dir, "keys.json"), filepath.Join(dir, "auth.json")
	for path, text := range map[string]string{
		keysFile: string(keys),
		file:     fmt.Sprintf(`{"sessionTokens":[{"issuer":%q,"audience":%q,"keysFile":%q}]}`, Name, Audience, keysFile),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			i.tb.Fatal(err)
		}
	}
	return file
}
