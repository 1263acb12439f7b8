package authn

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
)

func pemOf(t *testing.T, key any) []byte {
	t.Helper()
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// A signing key mints tokens that its public part verifies, under an id that is a function of the key.
func TestSigningKey(t *testing.T) {
	for name, private := range map[string]any{"Ed25519": edKey(), "P-256": ecKey()} {
		text := pemOf(t, private)
		id, key, err := auth.ParseSigningKey(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, _, err := auth.ParseSigningKey(text)
		if err != nil || again != id || len(id) != 43 {
			t.Errorf("%s: ids %q and %q, %v", name, id, again, err)
		}
		minter, err := auth.NewMinter(auth.MinterConfig{Issuer: "app", Audience: "tailrace", KeyID: id, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		minted, err := minter.Mint(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := NewSessionTokens(SessionTokensConfig{Issuer: "app", Audience: "tailrace", Keys: []PublicKey{{ID: id, Key: key.Public()}}})
		if err != nil {
			t.Fatal(err)
		}
		chain, err := NewChain(ChainConfig{Verifiers: []Verifier{tokens}})
		if err != nil {
			t.Fatal(err)
		}
		if g, err := chain.Verify(t.Context(), minted.Token); err != nil || g.Subject != "ann" {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
}
