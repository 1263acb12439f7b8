package authn

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// PublicKey is a key that verifies session tokens: an ed25519.PublicKey (EdDSA), or an *ecdsa.PublicKey of the curve P-256 (ES256).
type PublicKey struct {
	ID  string // kid of the tokens; may be empty if there is one key
	Key crypto.PublicKey
}

// key is a public key or a secret, with the algorithms that it may be used for. The token does not choose them.
type key struct {
	id         string
	algorithms []string
	material   any // as go-jose takes it
}

// keySet is the keys of an issuer at a time. It does not change.
type keySet struct {
	keys []key
	text []byte // that it was read from
}

// The algorithms that OIDC accepts. HMAC is not among them: with it, every verifier of a token can also make one.
const (
	RS256 = "RS256"
	RS384 = "RS384"
	RS512 = "RS512"
	PS256 = "PS256"
	PS384 = "PS384"
	PS512 = "PS512"
	ES256 = "ES256"
	ES384 = "ES384"
	ES512 = "ES512"
	EdDSA = "EdDSA"

	hs256 = "HS256"
)

var (
	rsaAlgorithms  = []string{RS256, RS384, RS512, PS256, PS384, PS512}
	asymmetric     = slices.Concat(rsaAlgorithms, []string{ES256, ES384, ES512, EdDSA})
	errKeyType     = errors.New("want an RSA key of 2048 to 8192 bits, an ECDSA key of a NIST curve or an Ed25519 key")
	errPrivateKey  = errors.New("is a private key or a secret, want a public key")
	errKeyPurpose  = errors.New("is not for signatures")
	errKeyMismatch = errors.New("alg does not fit the key")
)

// find returns the keys that may have signed a token with this key id and algorithm. A token without a key id matches if only one key has its algorithm. The nil
// *keySet has none.
func (s *keySet) find(kid, alg string) (found []key) {
	if s == nil {
		return nil
	}
	for _, k := range s.keys {
		if slices.Contains(k.algorithms, alg) && (kid == "" || k.id == kid) {
			found = append(found, k)
		}
	}
	if kid == "" && len(found) > 1 {
		return nil
	}
	return found
}

// newKey checks a public key and chooses its algorithms.
func newKey(id string, public any, alg string) (key, error) {
	var fits []string
	switch k := public.(type) {
	case ed25519.PublicKey:
		if len(k) == ed25519.PublicKeySize {
			fits = []string{EdDSA}
		}
	case *ecdsa.PublicKey:
		if k != nil && k.Curve != nil {
			fits = curveAlgorithms(k.Curve)
		}
	case *rsa.PublicKey:
		if k != nil && k.N != nil && k.N.BitLen() >= 2048 && k.N.BitLen() <= 8192 {
			fits = rsaAlgorithms
		}
	}
	switch {
	case fits == nil || !(&jose.JSONWebKey{Key: public}).Valid():
		return key{}, errKeyType
	case alg == "":
		return key{id, fits, public}, nil
	case slices.Contains(fits, alg):
		return key{id, []string{alg}, public}, nil
	default:
		return key{}, errKeyMismatch
	}
}

func curveAlgorithms(curve elliptic.Curve) []string {
	switch curve {
	case elliptic.P256():
		return []string{ES256}
	case elliptic.P384():
		return []string{ES384}
	case elliptic.P521():
		return []string{ES512}
	default:
		return nil
	}
}

const (
	maxKeySetBytes = 256 << 10
	maxKeys        = 100
)

// parseKeySet reads a JWK Set. Of a provider, keys that cannot be used are skipped, as RFC 7517, section 5, recommends: they are for another purpose, or of a
// kind that other clients of the provider know. In a file of the operator each key must be usable.
func parseKeySet(text []byte, skipUnusable bool) (*keySet, error) {
	if err := checkObject(text); err != nil {
		return nil, err
	}
	set, n := &keySet{text: bytes.Clone(text)}, 0
	for raw := range rawjson.Elements(rawjson.Get(text, "keys")) {
		k, err := parseKey(rawjson.TrimSpace(raw))
		if err != nil && !skipUnusable {
			return nil, fmt.Errorf("keys[%d]: %w", n, err)
		}
		if err == nil {
			set.keys = append(set.keys, k)
		}
		if n++; n > maxKeys {
			return nil, fmt.Errorf("more than %d keys", maxKeys)
		}
	}
	if len(set.keys) == 0 {
		return nil, errors.New("no usable key")
	}
	return set, nil
}

func parseKey(raw []byte) (key, error) {
	for _, private := range []string{"d", "k", "p", "q", "dp", "dq", "qi"} {
		if rawjson.Get(raw, private) != nil {
			return key{}, errPrivateKey
		}
	}
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(raw); err != nil {
		return key{}, errKeyType
	}
	if jwk.Use != "" && jwk.Use != "sig" {
		return key{}, errKeyPurpose
	}
	return newKey(jwk.KeyID, jwk.Key, jwk.Algorithm)
}

// checkObject accepts a JSON object without duplicate names.
func checkObject(text []byte) error {
	if info, ok := rawjson.ScanObject(text, rawjson.Limits{Levels: 16}, nil); !ok {
		return fmt.Errorf("malformed JSON object at byte %d", info.End)
	}
	if path := rawjson.Duplicate(text); path != nil {
		return errors.New("a name occurs twice")
	}
	return nil
}
