package main

import (
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// writeFile writes a file of the test and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAuthFile has an authenticator of each kind, several at a time.
func TestAuthFile(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := auth.NewMinter(auth.MinterConfig{Issuer: "https://app.example", Audience: "tailrace", KeyID: "k", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := signed.PublicKeys()
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Repeat("s", 32)
	shared, err := auth.NewMinter(auth.MinterConfig{Issuer: "https://one.example", Audience: "tailrace", Secret: []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "auth.json", `{
		"oidc": [{"issuer": "https://login.example", "audiences": ["tailrace"], "algorithms": ["RS256"], "tenantClaim": "/org/id", "tenants": {"o": "acme"},
			"scopeClaim": "roles", "scopeValues": {"member": "read chat"}, "scopes": "read", "sessions": "own", "sessionsClaim": "sid", "views": ["customer"]}],
		"sessionTokens": [
			{"issuer": "https://app.example", "audience": "tailrace", "keysFile": "`+writeFile(t, "keys.json", string(keys))+`", "tenants": ["acme"], "scopes": "read chat", "maxLifetime": "1h"},
			{"issuer": "https://one.example", "audience": "tailrace", "secretFile": "`+writeFile(t, "secret", secret+"\n")+`"}],
		"proxies": [{"networks": ["192.0.2.0/24"], "subjectHeader": "X-User", "tenant": "acme", "scopeHeader": "X-Groups", "scopeValues": {"staff": "read delete"}, "sessions": "u-*"}]
	}`)
	a, err := config{Auth: file}.newAuthenticators(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.revocations.Loaded()
	grant := auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}
	try := func(change func(*http.Request)) (*auth.Grant, error) {
		r := httptest.NewRequest(http.MethodGet, "/v1/sessions", nil)
		change(r)
		return a.Authenticate(r)
	}
	for name, m := range map[string]*auth.Minter{"keys": signed, "secret": shared} {
		minted, err := m.Mint(grant, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		g, err := try(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+minted.Token) })
		if err != nil || g.Subject != "ann" || g.Tenant != "acme" {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
	denied, err := signed.Mint(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeDelete, Sessions: auth.Sessions{Own: true}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := try(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+denied.Token) }); !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("a right that the application may not grant: %v", err)
	}
	g, err := try(func(r *http.Request) {
		r.RemoteAddr = "192.0.2.7:1"
		r.Header.Set("X-User", "bob")
		r.Header.Set("X-Groups", "staff,other")
	})
	if err != nil || g.Subject != "bob" || g.Scopes != auth.ScopeRead|auth.ScopeDelete || g.Sessions.Prefix != "u-" {
		t.Errorf("proxy: %+v, %v", g, err)
	}
	if _, err := try(func(*http.Request) {}); !errors.Is(err, auth.ErrNoCredential) {
		t.Errorf("no credential: %v", err)
	}
}

// A file with an error ends the process: an edge without its configured authenticators would give all rights to everyone.
func TestAuthFileIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		`{`:           "auth.json",
		`{}`:          "every request would be refused",
		`{"none":[]}`: "auth.json: none: there is no such member",
		`[]`:          "auth.json: the file: want an object",
		`{"oidc":[{"issuer":"https://login.example","audiences":"a"}]}`:                                                 "auth.json: oidc[0].audiences: want an array of strings",
		`{"oidc":[{"issuer":"https://login.example","scopes":5}]}`:                                                      "auth.json: oidc[0].scopes: want a string",
		`{"sessionTokens":{"issuer":"a"}}`:                                                                              "auth.json: sessionTokens: want an array of objects",
		`{"proxies":[{"networks":[1]}]}`:                                                                                "auth.json: proxies[0].networks[0]: want a string",
		`{"sessionTokens":[{"issuer":"a","audience":"b"}]}`:                                                             "sessionTokens[0]",
		`{"sessionTokens":[{"issuer":"a","audience":"b","secretFile":"/does/not/exist"}]}`:                              "sessionTokens[0]",
		`{"sessionTokens":[{"issuer":"a","audience":"b","scopes":"read everything"}]}`:                                  "everything",
		`{"oidc":[{"issuer":"http://login.example","audiences":["a"],"tenant":"acme","sessions":"own"}]}`:               "oidc[0]",
		`{"oidc":[{"issuer":"https://login.example","audiences":["a"],"tenant":"acme","sessions":"mine"}]}`:             "want own, all, or a prefix",
		`{"proxies":[{"networks":["0.0.0.0/0"],"subjectHeader":"X","tenant":"acme","scopes":"read","sessions":"own"}]}`: "proxies[0]",
	} {
		args := []string{"edge", "--listen", "127.0.0.1:0", "--ops-listen", "", "--nats-url", "nats://127.0.0.1:1", "--auth", writeFile(t, "auth.json", text)}
		if out := tailrace(t, exitUsage, args...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", text, out)
		}
	}
}

// Without authenticators an edge listens on loopback only, unless that is asked for.
func TestListenWithoutAuthenticators(t *testing.T) {
	for _, tt := range []struct {
		cfg config
		ok  bool
	}{
		{config{Listen: "127.0.0.1:0"}, true},
		{config{Listen: "0.0.0.0:0"}, false},
		{config{Listen: "0.0.0.0:0", TrustNetwork: true}, true},
		{config{Listen: "0.0.0.0:0", Auth: "auth.json"}, true},
	} {
		l, err := (&app{cfg: tt.cfg}).listen(t.Context())
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.cfg.Listen, err)
		}
		if err == nil {
			l.Close()
		} else if !strings.Contains(err.Error(), "--auth") {
			t.Errorf("the error does not name the setting: %v", err)
		}
	}
}
