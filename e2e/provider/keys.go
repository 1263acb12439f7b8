package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// keys are the previous, the current and the next key. The next one is published from the time that the current one is used, so that verifiers can know a
// key before the first token that it signs.
type keys struct {
	file string

	mu   sync.Mutex // guards list
	list []jose.JSONWebKey
}

const (
	previous = iota
	current
	next
	published
)

func openKeys(file string) (*keys, error) {
	k := &keys{file: file}
	text, err := os.ReadFile(file) //nolint:gosec // the test names it
	if err == nil {
		err = json.Unmarshal(text, &k.list)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
		for range published {
			err = errors.Join(err, k.rotate())
		}
	}
	return k, err
}

// rotate makes the next key the current one, and publishes another one.
func (k *keys) rotate() error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = append(k.list, jose.JSONWebKey{KeyID: uuid.NewString(), Algorithm: string(jose.RS256), Use: "sig", Key: private})
	k.list = k.list[max(0, len(k.list)-published):]
	text, err := json.Marshal(k.list)
	if err != nil {
		return err
	}
	return os.WriteFile(k.file, text, 0o600)
}

func (k *keys) snapshot() []jose.JSONWebKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]jose.JSONWebKey(nil), k.list...)
}

// key is a private key that signs, or a public one.
type key struct{ jose.JSONWebKey }

func (k key) ID() string  { return k.KeyID }
func (k key) Key() any    { return k.JSONWebKey.Key }
func (k key) Use() string { return k.JSONWebKey.Use }
func (k key) Algorithm() jose.SignatureAlgorithm {
	return jose.SignatureAlgorithm(k.JSONWebKey.Algorithm)
}
func (k key) SignatureAlgorithm() jose.SignatureAlgorithm { return k.Algorithm() }

func (s *store) SigningKey(context.Context) (op.SigningKey, error) {
	return key{s.keys.snapshot()[current]}, nil
}

func (s *store) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s *store) KeySet(context.Context) ([]op.Key, error) {
	var public []op.Key
	for _, k := range s.keys.snapshot() {
		public = append(public, key{k.Public()})
	}
	return public, nil
}
