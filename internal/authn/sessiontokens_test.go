package authn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tailrace/tailrace/auth"
)

// TestMinter verifies what a Minter signs, with each kind of key.
func TestMinter(t *testing.T) {
	clock := newClock()
	verifier := newSessionTokens(t, clock, func(c *SessionTokensConfig) { c.Secret = aSecret })
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{verifier}})
	for name, cfg := range map[string]auth.MinterConfig{
		"EdDSA": {KeyID: "k1", Key: edKey()}, "ES256": {KeyID: "k2", Key: ecKey()}, "HS256": {Secret: aSecret},
	} {
		cfg.Issuer, cfg.Audience, cfg.Now = "app", "tailrace", clock.now
		m, err := auth.NewMinter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range []auth.Grant{
			{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}},
			{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{Own: true}, Views: []string{auth.AnyView}},
			{Tenant: "acme", Subject: "Änne <a@b>", Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{IDs: []string{"s1"}}, Views: []string{"customer"}},
			{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{IDs: []string{"s1", "s2"}}, Views: []string{"customer", "support"}, TokenID: "mine"},
			{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Prefix: "ann-"}},
		} {
			minted, err := m.Mint(g, 15*time.Minute+time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if !minted.ExpiresAt.Equal(start.Add(15*time.Minute)) || g.TokenID != "" && minted.ID != g.TokenID || len(minted.ID) < 4 {
				t.Errorf("%s: got %+v", name, minted)
			}
			got, err := chain.Authenticate(request(minted.Token))
			if err != nil {
				t.Errorf("%s: %+v: %v", name, g, err)
				continue
			}
			g.TokenID, g.Issuer, g.ExpiresAt, g.IssuedAt = minted.ID, "app", minted.ExpiresAt.Add(Leeway), time.Unix(start.Unix(), 0)
			if got, want := fmt.Sprintf("%+v", *got), fmt.Sprintf("%+v", g); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
		for bad, g := range map[string]auth.Grant{
			"no tenant":               {Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}},
			"no subject":              {Tenant: "acme", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}},
			"no scopes":               {Tenant: "acme", Subject: "ann", Sessions: auth.Sessions{All: true}},
			"no sessions":             {Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead},
			"two kinds of sessions":   {Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true, Prefix: "ann-"}},
			"a malformed session":     {Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{IDs: []string{"*"}}},
			"a token id of two lines": {Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}, TokenID: "a\nb"},
		} {
			if _, err := m.Mint(g, time.Minute); err == nil {
				t.Errorf("%s: %s is minted", name, bad)
			}
		}
		if _, err := m.Mint(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}}, time.Millisecond); err == nil {
			t.Errorf("%s: a token of no life is minted", name)
		}
	}
}

func TestSessionTokensConfig(t *testing.T) {
	clock, dir := newClock(), t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	set := func(keys ...jose.JSONWebKey) string {
		return string(must(json.Marshal(jose.JSONWebKeySet{Keys: keys})))
	}
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	for name, change := range map[string]func(*SessionTokensConfig){
		"no issuer":         func(c *SessionTokensConfig) { c.Issuer = "" },
		"no audience":       func(c *SessionTokensConfig) { c.Audience = "" },
		"no keys":           func(c *SessionTokensConfig) { c.Keys = nil },
		"negative lifetime": func(c *SessionTokensConfig) { c.MaxLifetime = -1 },
		"short secret":      func(c *SessionTokensConfig) { c.Secret = aSecret[:31] },
		"PEM as secret": func(c *SessionTokensConfig) {
			c.Secret = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: aSecret})
		},
		"RSA":             func(c *SessionTokensConfig) { c.Keys = []PublicKey{{"k1", rsaKey().Public()}} },
		"P-384":           func(c *SessionTokensConfig) { c.Keys = []PublicKey{{"k1", p384.Public()}} },
		"a private key":   func(c *SessionTokensConfig) { c.Keys = []PublicKey{{"k1", edKey()}} },
		"a secret as key": func(c *SessionTokensConfig) { c.Keys = []PublicKey{{"k1", aSecret}} },
		"a nil key":       func(c *SessionTokensConfig) { c.Keys = []PublicKey{{"k1", (*ecdsa.PublicKey)(nil)}} },
		"an id twice": func(c *SessionTokensConfig) {
			c.Keys = []PublicKey{{"k1", edKey().Public()}, {"k1", evilEd().Public()}}
		},
		"two keys, one without id": func(c *SessionTokensConfig) { c.Keys = []PublicKey{{"k1", edKey().Public()}, {"", evilEd().Public()}} },
		"no file":                  func(c *SessionTokensConfig) { c.KeysFile = filepath.Join(dir, "missing") },
		"a directory":              func(c *SessionTokensConfig) { c.KeysFile = dir },
		"an empty file":            func(c *SessionTokensConfig) { c.KeysFile = file("empty", "") },
		"a large file": func(c *SessionTokensConfig) {
			c.KeysFile = file("large", strings.Repeat(" ", 256<<10)+set(jwkOf(edKey().Public(), "k9")))
		},
		"a file with a secret": func(c *SessionTokensConfig) {
			c.KeysFile = file("secret", set(jose.JSONWebKey{Key: aSecret, KeyID: "k9"}))
		},
		"a file with a private key": func(c *SessionTokensConfig) {
			c.KeysFile = file("private", set(jose.JSONWebKey{Key: edKey(), KeyID: "k9"}))
		},
		"a file with an RSA key":        func(c *SessionTokensConfig) { c.KeysFile = file("rsa", set(jwkOf(rsaKey().Public(), "k9"))) },
		"a file with a key of the list": func(c *SessionTokensConfig) { c.KeysFile = file("same", set(jwkOf(edKey().Public(), "k1"))) },
	} {
		cfg := SessionTokensConfig{Issuer: "app", Audience: "tailrace", Now: clock.now, Keys: []PublicKey{{"k1", edKey().Public()}}}
		change(&cfg)
		if s, err := NewSessionTokens(cfg); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// TestIssuerLimits has what an application may not grant.
func TestIssuerLimits(t *testing.T) {
	clock := newClock()
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{newSessionTokens(t, clock, func(c *SessionTokensConfig) {
		c.Tenants, c.Scopes, c.MaxLifetime = []string{"acme"}, auth.ScopeRead|auth.ScopeChat, 15*time.Minute
	})}})
	for _, c := range []struct {
		name, claim, value string
		reason             Reason
	}{
		{"within", "jti", `"t2"`, ""},
		{"another tenant", "tid", `"other"`, ReasonForbidden},
		{"another right", "scope", `"read admin"`, ReasonForbidden},
		{"a longer life", "exp", fmt.Sprint(start.Unix() + 901), ReasonClaim},
	} {
		_, err := chain.Authenticate(request(sign(sessionHeader, with(sessionClaimsAt(start), c.claim, c.value), edKey())))
		if c.reason == "" && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.reason != "" {
			t.Run(c.name, func(t *testing.T) { wantReason(t, err, c.reason, c.claim) })
		}
	}
}

// TestKeysFile replaces the file while the process runs.
func TestKeysFile(t *testing.T) {
	clock, path := newClock(), filepath.Join(t.TempDir(), "keys.json")
	minter := func(id string, key any) *auth.Minter {
		return must(auth.NewMinter(auth.MinterConfig{Issuer: "app", Audience: "tailrace", KeyID: id, Key: key, Now: clock.now}))
	}
	write := func(text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mint := func(m *auth.Minter) string {
		return must(m.Mint(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}, time.Hour)).Token
	}
	first, second := minter("k1", edKey()), minter("k2", ecKey())
	write(must(first.PublicKeys()))
	tokens := newSessionTokens(t, clock, func(c *SessionTokensConfig) { c.Keys, c.KeysFile = nil, path })
	chain := newChain(t, clock, ChainConfig{Verifiers: []Verifier{tokens}})
	before, after := mint(first), mint(second)
	if _, err := chain.Authenticate(request(before)); err != nil {
		t.Fatal(err)
	}

	// A new key is found when a token has it. The old one is gone, also for its token in the cache.
	write(must(second.PublicKeys()))
	clock.add(5 * time.Second)
	if _, err := chain.Authenticate(request(after)); err != nil {
		t.Fatal(err)
	}
	_, err := chain.Authenticate(request(before))
	wantReason(t, err, ReasonKey, "")

	// A file that cannot be used leaves the keys as they are.
	for _, text := range []string{"", "{", `{"keys":[]}`} {
		write([]byte(text))
		clock.add(2 * time.Minute)
		if _, err := chain.Authenticate(request(after)); err != nil {
			t.Fatal(err)
		}
		waitForLoad(tokens.ring)
		if _, err := chain.Authenticate(request(after)); err != nil {
			t.Fatal(err)
		}
	}

	// A key that is removed is not used any more after a minute, without a token with an unknown key.
	write(must(first.PublicKeys()))
	clock.add(2 * time.Minute)
	_, _ = chain.Authenticate(request(after))
	waitForLoad(tokens.ring)
	_, err = chain.Authenticate(request(after))
	wantReason(t, err, ReasonKey, "")

	if _, err := must(auth.NewMinter(auth.MinterConfig{Issuer: "app", Audience: "tailrace", Secret: aSecret})).PublicKeys(); err == nil {
		t.Error("a secret is published")
	}
}

// TestRecipes verifies tokens that the recipes of docs/guides/sign-in.md made with jose 6.2.18 (Node.js 20) and joserfc 1.6.5 (Python 3.11).
// After a change of a recipe: run keys.mjs, give it signing-key.json in SIGNING_KEY, and write a token of each to tokens.txt.
func TestRecipes(t *testing.T) {
	dir := filepath.Join("testdata", "recipes")
	clock, n := newClock(), 0
	for line := range strings.Lines(string(must(os.ReadFile(filepath.Join(dir, "tokens.txt"))))) {
		name, token, _ := strings.Cut(strings.TrimSpace(line), " ")
		parsed, err := parseToken(token)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		issued, _, _ := parsed.claims.time("iat")
		clock.set(issued)
		tokens := newSessionTokens(t, clock, func(c *SessionTokensConfig) {
			c.Issuer, c.Keys, c.KeysFile = "https://app.example", nil, filepath.Join(dir, "keys.json")
		})
		g, err := newChain(t, clock, ChainConfig{Verifiers: []Verifier{tokens}}).Authenticate(request(token))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if g.Tenant != "acme" || g.Subject != "user-17" || g.Scopes != auth.ScopeRead|auth.ScopeChat || !g.AllowsSession("s-1", "") || g.AllowsSession("s-2", "") || len(g.TokenID) != 36 {
			t.Errorf("%s: got %+v", name, g)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d tokens, want 2", n)
	}
}
