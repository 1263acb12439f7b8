//go:build e2e

package clients

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
)

func unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// TestTokenIsRefreshed follows with a token that is refused, and gets another one; a second refusal is final.
func TestTokenIsRefreshed(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	issuer := authtest.NewIssuer(t)
	edge := w.edge(func(c *httpedge.Config) { c.Authenticator = issuer }, nil)
	run := w.start("s")
	w.emit(run, chunk.TextDelta{Delta: "text"})
	w.end(run)
	good := issuer.Token(auth.Grant{Tenant: tenant, Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{IDs: []string{"s"}}}, time.Minute, nil)
	for name, c := range map[string]struct {
		tokens    []string
		last      string
		code      string
		refreshes int
	}{
		"good":        {[]string{good}, "return", "", 0},
		"old, good":   {[]string{"old", good}, "return", "", 1},
		"always old":  {[]string{"old"}, "throw", "401 UNAUTHENTICATED", 1},
		"never given": {nil, "throw", "401 UNAUTHENTICATED", 0},
	} {
		options := map[string]any{"url": edge, "session": "s"}
		if c.tokens != nil {
			options["tokens"] = c.tokens
		}
		f := b.run(t, "follow.mjs", options)
		events := f.until("its end", func(e event) bool { return e.Type == "return" || e.Type == "throw" })
		if e := events[len(events)-1]; e.Type != c.last || e.Code != c.code || e.Refreshes != c.refreshes || e.Retries != 0 {
			t.Errorf("%s: %+v, want %+v", name, e, c)
		}
	}
}

// TestMintedTokens checks tokens that WebCrypto has signed, with both kinds of keys, with the authenticator of the edge.
func TestMintedTokens(t *testing.T) {
	b := newClient(t)
	checkMinted(t, func(options map[string]any) *node { return b.run(t, "mint.mjs", options) }, 2)
}

// TestPythonMintsTokens checks those that Python has signed.
func TestPythonMintsTokens(t *testing.T) {
	b := newPython(t)
	checkMinted(t, func(options map[string]any) *node {
		text, err := json.Marshal(options)
		if err != nil {
			t.Fatal(err)
		}
		return b.script(t, "mint.py", string(text))
	}, 1)
}

// checkMinted checks the tokens of a program, which signs several with a key of Ed25519.
func checkMinted(t *testing.T, mint func(options map[string]any) *node, several int) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	encode := base64.RawURLEncoding.EncodeToString
	options := map[string]any{
		"issuer": "https://app.test", "audience": "tailrace", "tenant": "acme", "subject": "ann é", "scopes": []string{"read", "chat"},
		"sessions": []string{"s1", "s2"}, "view": "public", "lifetime": 60,
	}
	for name, c := range map[string]struct {
		key  map[string]any
		cfg  authn.SessionTokensConfig
		want int
	}{
		"Ed25519": {
			map[string]any{"keyId": "k", "key": map[string]any{"kty": "OKP", "crv": "Ed25519", "x": encode(public), "d": encode(private.Seed()), "use": "sig"}},
			authn.SessionTokensConfig{Keys: []authn.PublicKey{{ID: "k", Key: public}}}, several,
		},
		"HS256": {map[string]any{"secret": base64.StdEncoding.EncodeToString(secret)}, authn.SessionTokensConfig{Secret: secret}, 1},
	} {
		c.cfg.Issuer, c.cfg.Audience = "https://app.test", "tailrace"
		verifier, err := authn.NewSessionTokens(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(verifier.Close)
		chain, err := authn.NewChain(authn.ChainConfig{Verifiers: []authn.Verifier{verifier}})
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(c.key, options)
		f := mint(c.key)
		for range c.want {
			line, ok := f.next()
			if !ok {
				t.Fatalf("%s: no token", name)
			}
			grant, err := chain.Verify(t.Context(), readEvent(t, line).ID)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if grant.Tenant != "acme" || grant.Subject != "ann é" || grant.Scopes != auth.ScopeRead|auth.ScopeChat || !grant.AllowsSession("s1", "") ||
				!grant.AllowsSession("s2", "") || grant.AllowsSession("s3", "") {
				t.Errorf("%s: %+v", name, grant)
			}
		}
	}
}
