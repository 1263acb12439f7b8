package auth

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// SigningKey is a private key that signs session tokens, and its id: the thumbprint of RFC 7638, so that processes with the same key have the same id.
type SigningKey struct {
	ID  string
	Key crypto.Signer // an ed25519.PrivateKey, or an *ecdsa.PrivateKey of the curve P-256
}

// ParseSigningKey reads a private key in the form of PKCS #8 in PEM, as `openssl genpkey -algorithm ed25519` writes it. Errors contain nothing of the key.
func ParseSigningKey(text []byte) (SigningKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return SigningKey{}, errors.New("want a private key as PKCS #8 in PEM: -----BEGIN PRIVATE KEY-----")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return SigningKey{}, errors.New("malformed private key")
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return SigningKey{}, fmt.Errorf("key is a %T, %w", parsed, errSessionKey)
	}
	thumbprint, err := (&jose.JSONWebKey{Key: signer.Public()}).Thumbprint(crypto.SHA256)
	if err != nil {
		return SigningKey{}, fmt.Errorf("key is a %T, %w", parsed, errSessionKey)
	}
	k := SigningKey{base64.RawURLEncoding.EncodeToString(thumbprint), signer}
	_, err = (&MinterConfig{KeyID: k.ID, Key: k.Key}).signingKey()
	return k, err
}

// Public returns the key that verifies the tokens.
func (k SigningKey) Public() PublicKey { return PublicKey{k.ID, k.Key.Public()} }
