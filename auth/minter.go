package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	sessionTokenType = "at+jwt" // RFC 9068
	maxToken         = 8 << 10
)

// MinterConfig configures a Minter. One of Key and Secret is required.
type MinterConfig struct {
	Issuer   string // iss, a name of the application that signs; required
	Audience string // aud, a name of the deployment of Tailrace; required

	KeyID  string            // kid; required with Key, and only then
	Key    crypto.PrivateKey // an ed25519.PrivateKey, or an *ecdsa.PrivateKey of the curve P-256
	Secret []byte            // for HS256, at least 32 random bytes

	Now func() time.Time // clock; defaults to time.Now
}

// Minter signs session tokens. It may be used concurrently.
//
// A token is a JWS with the header typ at+jwt and the claims iss, aud, sub, iat, exp, jti; tid is the tenant, scope the names of the rights, view the names of
// the views. sid is the id of a session, an array of at most 16 ids, "*" for all sessions of the tenant, or "p*" for those with the prefix p; without it the
// token is for the sessions that its subject has started.
type Minter struct {
	cfg    MinterConfig
	signer jose.Signer
}

// Minted is a signed token.
type Minted struct {
	Token     string
	ID        string    // jti, to revoke it
	ExpiresAt time.Time // exp
}

// NewMinter returns a Minter.
func NewMinter(cfg MinterConfig) (*Minter, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	switch {
	case cfg.Issuer == "":
		return nil, errors.New("Issuer is empty")
	case cfg.Audience == "":
		return nil, errors.New("Audience is empty")
	}
	signing, err := cfg.signingKey()
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(signing, (&jose.SignerOptions{}).WithType(sessionTokenType))
	if err != nil {
		return nil, fmt.Errorf("Key: %w", err)
	}
	return &Minter{cfg, signer}, nil
}

func (c *MinterConfig) signingKey() (jose.SigningKey, error) {
	var none jose.SigningKey
	switch {
	case (c.Key == nil) == (len(c.Secret) == 0):
		return none, errors.New("Key is empty and Secret too, or both are set: want one of them")
	case c.Key == nil && c.KeyID != "":
		return none, errors.New("KeyID goes with Key: there is one secret")
	case c.Key == nil:
		return jose.SigningKey{Algorithm: jose.HS256, Key: slices.Clone(c.Secret)}, checkSecret(c.Secret)
	case c.KeyID == "":
		return none, errors.New("KeyID is empty: without it the key cannot be replaced")
	}
	switch k := c.Key.(type) {
	case ed25519.PrivateKey:
		if len(k) == ed25519.PrivateKeySize {
			return jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: k, KeyID: c.KeyID}}, nil
		}
	case *ecdsa.PrivateKey:
		if k != nil && k.Curve == elliptic.P256() {
			return jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: k, KeyID: c.KeyID}}, nil
		}
	}
	return none, fmt.Errorf("Key is a %T, %w", c.Key, errSessionKey)
}

var errSessionKey = errors.New("want an Ed25519 key or an ECDSA key of the curve P-256")

// checkSecret refuses a secret that is too short, or not secret.
func checkSecret(secret []byte) error {
	if len(secret) < 32 {
		return fmt.Errorf("Secret has %d bytes, want at least 32", len(secret))
	}
	if bytes.HasPrefix(bytes.TrimSpace(secret), []byte("-----BEGIN ")) {
		return errors.New("Secret is a PEM file, want random bytes: a key that others know makes valid tokens")
	}
	return nil
}

// PublicKeys returns the key of the Minter as the content of the keysFile of an edge, see docs/reference/auth.md. It returns an error for a Minter with a secret.
func (m *Minter) PublicKeys() ([]byte, error) {
	signer, ok := m.cfg.Key.(crypto.Signer)
	if !ok {
		return nil, errors.New("public keys: a secret has none")
	}
	return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: signer.Public(), KeyID: m.cfg.KeyID, Use: "sig"}}})
}

// sessionClaims are in the order in which they are written.
type sessionClaims struct {
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	Subject  string `json:"sub"`
	Tenant   string `json:"tid"`
	Sessions any    `json:"sid,omitempty"`
	Scope    string `json:"scope"`
	Views    any    `json:"view,omitempty"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	ID       string `json:"jti"`
}

// Mint signs a token for what g allows, valid for lifetime, which is cut to seconds. The token id is that of g, or a random one. The issuer and the expiry of g
// are ignored.
func (m *Minter) Mint(g Grant, lifetime time.Duration) (Minted, error) {
	if g.TokenID == "" {
		g.TokenID = rand.Text()
	}
	if err := g.Check(); err != nil {
		return Minted{}, fmt.Errorf("mint token: %w", err)
	}
	sessions, err := g.Sessions.claim()
	switch {
	case err != nil:
		return Minted{}, err
	case g.Scopes == 0:
		return Minted{}, errors.New("mint token: no scopes")
	case lifetime < time.Second:
		return Minted{}, fmt.Errorf("mint token: lifetime is %s, want at least 1s", lifetime)
	}
	issued := m.cfg.Now().Truncate(time.Second)
	expires := issued.Add(lifetime.Truncate(time.Second))
	payload, err := json.Marshal(sessionClaims{
		Issuer: m.cfg.Issuer, Audience: m.cfg.Audience, Subject: g.Subject, Tenant: g.Tenant, Sessions: sessions, Scope: g.Scopes.String(),
		Views: oneOrList(g.Views), Issued: issued.Unix(), Expires: expires.Unix(), ID: g.TokenID,
	})
	if err != nil {
		return Minted{}, fmt.Errorf("mint token: %w", err)
	}
	jws, err := m.signer.Sign(payload)
	if err != nil {
		return Minted{}, fmt.Errorf("mint token: %w", err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		return Minted{}, fmt.Errorf("mint token: %w", err)
	}
	if len(text) > maxToken {
		return Minted{}, fmt.Errorf("mint token: %d bytes, want at most %d", len(text), maxToken)
	}
	return Minted{text, g.TokenID, expires}, nil
}

// claim returns sid, nil for own sessions. A token has one kind of set.
func (s Sessions) claim() (any, error) {
	switch {
	case s.All:
		return "*", nil
	case s.Own && len(s.IDs) == 0 && s.Prefix == "":
		return nil, nil //nolint:nilnil // the claim is left out
	case len(s.IDs) > 0 && !s.Own && s.Prefix == "":
		return oneOrList(s.IDs), nil
	case s.Prefix != "" && !s.Own && len(s.IDs) == 0:
		return s.Prefix + "*", nil
	default:
		return nil, errors.New("mint token: sessions: want all, own ones, ids or a prefix")
	}
}

func oneOrList(list []string) any {
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	default:
		return list
	}
}
