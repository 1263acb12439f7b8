package bench

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
)

// auth measures what credentials cost: to verify a token, alone and in front of a chat, and to keep the stream of a client that has one.
func (l *harness) auth(ctx context.Context) ([]pair, error) {
	var pairs []pair
	for _, alg := range []string{authn.EdDSA, authn.ES256, authn.RS256} {
		v, err := newVerification(ctx, alg, l.cfg.size(20_000))
		if err != nil {
			return nil, fmt.Errorf("tokens with %s: %w", alg, err)
		}
		pairs = append(pairs,
			pair{
				name: "auth-cached-" + alg, baseline: "SHA-256 of the token", ours: v.cached, raw: v.hashes,
				targets: []target{{figure: requestCost, atMost: 5}},
			},
			pair{name: "auth-new-" + alg, baseline: "the signature alone, with package crypto", ours: v.uncached, raw: v.signatures},
		)
	}
	issuer, err := newIssuer(authn.EdDSA)
	if err != nil {
		return nil, err
	}
	posts := authFirstByte{firstByte: firstByte{harness: l, posts: l.cfg.size(400)}, issuer: issuer}
	clients := l.cfg.size(10_000)
	i := idle{live{harness: l, sessions: 1, clients: clients, events: 1}}
	tokens, err := issuer.tokens(clients, allSessions)
	if err != nil {
		return nil, err
	}
	idlePair := func(name string, seen bool) pair {
		return pair{
			name: fmt.Sprintf("%s-%d-clients", name, clients), baseline: "the same without credentials", targets: []target{{figure: inUse, ratioAtMost: 1.03}},
			ours: func(ctx context.Context, _ int) (figures, error) {
				chain, err := issuer.chainOf(ctx, tokens, seen)
				if err != nil {
					return nil, err
				}
				with := i
				with.authenticator, with.tokens = chain, tokens
				return with.measure(ctx, with.watchEdge)
			},
			raw: func(ctx context.Context, _ int) (figures, error) { return i.measure(ctx, i.watchEdge) },
		}
	}
	return append(pairs,
		pair{
			name: "auth-first-byte-cached", baseline: "the same without credentials", ours: posts.cached, raw: posts.ours,
			targets: []target{{figure: middle, ratioAtMost: 1.1}},
		},
		pair{name: "auth-first-byte-own", baseline: "the same without credentials", ours: posts.own, raw: posts.ours},
		pair{name: "auth-first-byte-new", baseline: "the same without credentials", ours: posts.uncached, raw: posts.ours},
		idlePair("auth-idle-cached", true),
		idlePair("auth-idle-new", false),
	), nil
}

// requestCost is processor time, which depends less on the load of the machine than elapsed time.
const requestCost = "processor us/request"

// issuer signs session tokens, with a key of its own.
type issuer struct {
	public   crypto.PublicKey
	minter   *auth.Minter
	verifier *authn.SessionTokens
}

const (
	issuerName = "https://app.example"
	audience   = "tailrace"
)

func newIssuer(alg string) (*issuer, error) {
	key, err := newSigner(alg)
	if err != nil {
		return nil, err
	}
	i := &issuer{public: key.Public()}
	if i.minter, err = auth.NewMinter(auth.MinterConfig{Issuer: issuerName, Audience: audience, KeyID: "2026-11", Key: key}); err != nil {
		return nil, err
	}
	i.verifier, err = authn.NewSessionTokens(authn.SessionTokensConfig{
		Issuer: issuerName, Audience: audience, Keys: []authn.PublicKey{{ID: "2026-11", Key: i.public}},
	})
	return i, err
}

func newSigner(alg string) (crypto.Signer, error) {
	switch alg {
	case authn.EdDSA:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case authn.ES256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		return rsa.GenerateKey(rand.Reader, 2048)
	}
}

// chainOf returns an authenticator that has verified the tokens before if seen is set.
func (i *issuer) chainOf(ctx context.Context, tokens []string, seen bool) (*authn.Chain, error) {
	chain, err := authn.NewChain(authn.ChainConfig{Verifiers: []authn.Verifier{i.verifier}})
	if err != nil || !seen {
		return chain, err
	}
	for _, token := range tokens {
		if _, err := chain.Verify(ctx, token); err != nil {
			return nil, err
		}
	}
	return chain, nil
}

// tokens returns tokens of n users.
var allSessions = auth.Sessions{All: true}

func (i *issuer) tokens(n int, sessions auth.Sessions) ([]string, error) {
	list := make([]string, n)
	for k := range list {
		minted, err := i.minter.Mint(auth.Grant{
			Tenant: "default", Subject: fmt.Sprintf("user-%d", k), Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: sessions,
		}, time.Hour)
		if err != nil {
			return nil, err
		}
		list[k] = minted.Token
	}
	return list, nil
}

// verification authenticates requests with tokens of one algorithm: session tokens, or those of a provider for RS256.
type verification struct {
	known, unknown *authn.Chain // unknown has a cache for fewer tokens than there are
	requests       []*http.Request
	tokens         []string
	verify         func(signed, signature []byte) bool
	repeat         int // requests of a round
}

// manyTokens do not fit into a cache of one entry per shard, nor into the cache of the processor.
const manyTokens = 1000

func newVerification(ctx context.Context, alg string, repeat int) (*verification, error) {
	v := &verification{repeat: repeat}
	var verifier authn.Verifier
	var err error
	if alg == authn.RS256 {
		verifier, err = v.provider(ctx)
	} else {
		verifier, err = v.sessionTokens(alg)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		to   **authn.Chain
		size int
	}{{&v.known, 2 * manyTokens}, {&v.unknown, 1}} {
		if *c.to, err = authn.NewChain(authn.ChainConfig{Verifiers: []authn.Verifier{verifier}, CacheSize: c.size}); err != nil {
			return nil, err
		}
	}
	for _, token := range v.tokens {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/v1/sessions/s1/messages?before=12-ab&limit=20", nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		v.requests = append(v.requests, r)
	}
	return v, nil
}

func (v *verification) sessionTokens(alg string) (authn.Verifier, error) {
	i, err := newIssuer(alg)
	if err != nil {
		return nil, err
	}
	if v.tokens, err = i.tokens(manyTokens, allSessions); err != nil {
		return nil, err
	}
	switch k := i.public.(type) {
	case ed25519.PublicKey:
		v.verify = func(signed, signature []byte) bool { return ed25519.Verify(k, signed, signature) }
	case *ecdsa.PublicKey:
		v.verify = func(signed, signature []byte) bool {
			hash := sha256.Sum256(signed)
			return ecdsa.Verify(k, hash[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
		}
	}
	return i.verifier, nil
}

// provider serves the keys of a provider until the first token has loaded them.
func (v *verification) provider(ctx context.Context) (_ authn.Verifier, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	v.verify = func(signed, signature []byte) bool {
		hash := sha256.Sum256(signed)
		return rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, hash[:], signature) == nil
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "r1", Algorithm: authn.RS256, Use: "sig"}}})
	if err != nil {
		return nil, err
	}
	site, err := serve(ctx, plainServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(keys) // the client reports a short response
	})))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "r1"}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, err
	}
	base := "http://" + site.addr
	for i := range manyTokens {
		claims := fmt.Sprintf(`{"iss":%q,"aud":["tailrace"],"sub":"user-%d","iat":%d,"exp":%d,"jti":"t%d","scope":"read chat","roles":["member","staff"]}`,
			base, i, time.Now().Unix(), time.Now().Add(time.Hour).Unix(), i)
		jws, err := signer.Sign([]byte(claims))
		if err != nil {
			return nil, err
		}
		token, err := jws.CompactSerialize()
		if err != nil {
			return nil, err
		}
		v.tokens = append(v.tokens, token)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	o, err := authn.NewOIDC(authn.OIDCConfig{
		Issuer: base, KeysURL: base + "/keys", Audiences: []string{audience}, Client: &http.Client{Transport: transport},
		Mapping: authn.Mapping{Tenant: "default", Sessions: auth.Sessions{Own: true}},
	})
	if err != nil {
		return nil, err
	}
	err = o.Refresh(ctx)
	return o, err
}

// measured does n things and returns the processor time of each.
func (v *verification) measured(do func(i int) error) (figures, error) {
	each, err := costOf(v.repeat, func() error {
		for n := range v.repeat {
			if err := do(n % manyTokens); err != nil {
				return err
			}
		}
		return nil
	})
	return figures{{requestCost, each}}, err
}

func (v *verification) cached(context.Context, int) (figures, error) {
	for _, r := range v.requests {
		if _, err := v.known.Authenticate(r); err != nil {
			return nil, err
		}
	}
	return v.measured(func(i int) error { _, err := v.known.Authenticate(v.requests[i]); return err })
}

func (v *verification) uncached(context.Context, int) (figures, error) {
	return v.measured(func(i int) error { _, err := v.unknown.Authenticate(v.requests[i]); return err })
}

func (v *verification) hashes(context.Context, int) (figures, error) {
	seen := map[[sha256.Size]byte]bool{}
	return v.measured(func(i int) error { seen[sha256.Sum256([]byte(v.tokens[i]))] = true; return nil })
}

// signatures verifies the signatures of the tokens, which are decoded before.
func (v *verification) signatures(context.Context, int) (figures, error) {
	signed, signatures := make([][]byte, manyTokens), make([][]byte, manyTokens)
	for i, token := range v.tokens {
		dot := strings.LastIndexByte(token, '.')
		signature, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
		if err != nil {
			return nil, err
		}
		signed[i], signatures[i] = []byte(token[:dot]), signature
	}
	return v.measured(func(i int) error {
		if !v.verify(signed[i], signatures[i]) {
			return errors.New("signature: not valid")
		}
		return nil
	})
}

// authFirstByte is firstByte with a token for each POST.
type authFirstByte struct {
	firstByte

	issuer *issuer
}

// cached has tokens with which a request was made before, as a page does that lists sessions and then posts a message.
func (f authFirstByte) cached(ctx context.Context, round int) (figures, error) {
	return f.withTokens(ctx, round, allSessions, true)
}

// own is cached for clients with own sessions: the edge also asks whether the new session is one of another owner.
func (f authFirstByte) own(ctx context.Context, round int) (figures, error) {
	return f.withTokens(ctx, round, auth.Sessions{Own: true}, true)
}

// uncached has tokens that the edge has not seen.
func (f authFirstByte) uncached(ctx context.Context, round int) (figures, error) {
	return f.withTokens(ctx, round, allSessions, false)
}

func (f authFirstByte) withTokens(ctx context.Context, round int, sessions auth.Sessions, seen bool) (figures, error) {
	tokens, err := f.issuer.tokens(f.posts, sessions)
	if err != nil {
		return nil, err
	}
	chain, err := f.issuer.chainOf(ctx, tokens, seen)
	if err != nil {
		return nil, err
	}
	return f.measure(ctx, round, chain, tokens)
}
