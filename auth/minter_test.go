package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestMinterConfig(t *testing.T) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte("0123456789abcdef0123456789abcdef")
	for name, change := range map[string]func(*MinterConfig){
		"no issuer":          func(c *MinterConfig) { c.Issuer = "" },
		"no audience":        func(c *MinterConfig) { c.Audience = "" },
		"no key":             func(c *MinterConfig) { c.Key = nil },
		"no key id":          func(c *MinterConfig) { c.KeyID = "" },
		"a key and a secret": func(c *MinterConfig) { c.Secret = secret },
		"a short secret":     func(c *MinterConfig) { c.Key, c.KeyID, c.Secret = nil, "", secret[:31] },
		"a secret with id":   func(c *MinterConfig) { c.Key, c.Secret = nil, secret },
		"an RSA key":         func(c *MinterConfig) { c.Key = must(rsa.GenerateKey(rand.Reader, 2048)) },
		"P-384":              func(c *MinterConfig) { c.Key = must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)) },
		"a public key":       func(c *MinterConfig) { c.Key = private.Public() },
		"a short key":        func(c *MinterConfig) { c.Key = private[:32] },
	} {
		cfg := MinterConfig{Issuer: "app", Audience: "tailrace", KeyID: "k1", Key: private}
		change(&cfg)
		if _, err := NewMinter(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSigningKeyIsChecked(t *testing.T) {
	encode := func(kind string, text []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}) }
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	for name, text := range map[string][]byte{
		"empty":     nil,
		"a secret":  []byte("0123456789abcdef0123456789abcdef"),
		"a JWK":     []byte(`{"kty":"OKP"}`),
		"RSA":       encode("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(must(rsa.GenerateKey(rand.Reader, 2048))))),
		"P-384":     encode("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(p384))),
		"malformed": encode("PRIVATE KEY", []byte("secret-bytes")),
		"public":    encode("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(p384.Public()))),
	} {
		if _, _, err := ParseSigningKey(text); err == nil || strings.Contains(err.Error(), "secret-bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
