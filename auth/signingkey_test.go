package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"
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
		key, err := ParseSigningKey(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := ParseSigningKey(text)
		if err != nil || again.ID != key.ID || len(key.ID) != 43 {
			t.Errorf("%s: ids %q and %q, %v", name, key.ID, again.ID, err)
		}
		minter, err := NewMinter(MinterConfig{Issuer: "app", Audience: "tailrace", KeyID: key.ID, Key: key.Key})
		if err != nil {
			t.Fatal(err)
		}
		minted, err := minter.Mint(Grant{Tenant: "acme", Subject: "ann", Scopes: ScopeRead, Sessions: Sessions{Own: true}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := NewSessionTokens(SessionTokensConfig{Issuer: "app", Audience: "tailrace", Keys: []PublicKey{key.Public()}})
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

func TestSigningKeyIsChecked(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(edKey().Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"empty":     nil,
		"a secret":  aSecret,
		"a JWK":     []byte(`{"kty":"OKP"}`),
		"RSA":       pemOf(t, rsaKey()),
		"P-384":     pemOf(t, p384),
		"malformed": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret-bytes")}),
		"public":    pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	} {
		if _, err := ParseSigningKey(text); err == nil || strings.Contains(err.Error(), "secret-bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
