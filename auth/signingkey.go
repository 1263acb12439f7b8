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

// ParseSigningKey reads a private key for MinterConfig in the form of PKCS #8 in PEM, as `openssl genpkey -algorithm ed25519` writes it. The id is the thumbprint of
// RFC 7638, so that processes with the same key have the same id. Errors contain nothing of the key.
func ParseSigningKey(text []byte) (id string, key crypto.Signer, err error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return "", nil, errors.New("want a private key as PKCS #8 in PEM: -----BEGIN PRIVATE KEY-----")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", nil, errors.New("malformed private key")
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return "", nil, fmt.Errorf("key is a %T, %w", parsed, errSessionKey)
	}
	thumbprint, err := (&jose.JSONWebKey{Key: signer.Public()}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", nil, fmt.Errorf("key is a %T, %w", parsed, errSessionKey)
	}
	id = base64.RawURLEncoding.EncodeToString(thumbprint)
	_, err = (&MinterConfig{KeyID: id, Key: signer}).signingKey()
	return id, signer, err
}
