// Command provider is the OpenID provider of the end-to-end tests: package op of github.com/zitadel/oidc with the login pages and the storage of its example
// server. It adds what that example leaves out and a deployment has: keys that are replaced and survive a restart, access tokens that are JWTs with the rights
// of the user, and lifetimes of seconds.
//
// It is a module of its own, so that Tailrace does not require a provider. It is for tests: every user has the password "password".
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9998", "host:port, which is also the one of the issuer")
	redirect := flag.String("redirect", "http://127.0.0.1/callback", "redirect URI of the clients")
	keyFile := flag.String("keys", "keys.json", "file of the private keys; created if it does not exist")
	short := flag.Duration("short", 5*time.Second, "lifetime of the access tokens of the client app-short; those of app live for 10 minutes")
	behind := flag.Duration("behind", 0, "how far the clock is behind in access tokens of app-short")
	flag.Parse()
	if err := serve(*listen, *redirect, *keyFile, settings{*short, *behind}); err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

// The clients, which are also the audiences of their access tokens.
const (
	app         = "app"
	shortClient = "app-short" // its access tokens are valid for a few seconds
	other       = "other"     // of another service
)

type settings struct{ short, behind time.Duration }

func serve(listen, redirect, keyFile string, set settings) error {
	keys, err := openKeys(keyFile)
	if err != nil {
		return err
	}
	clients := map[string]*storage.Client{}
	for _, id := range []string{app, shortClient, other} {
		clients[id] = storage.WebClient(id, "secret", redirect)
	}
	s := &store{Storage: storage.NewStorageWithClients(users{}, clients), keys: keys, set: set}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	mux := http.NewServeMux()
	mux.Handle("/", exampleop.SetupServer("http://"+listen, s, log, false, op.WithLogger(log)))
	mux.HandleFunc("POST /rotate", func(w http.ResponseWriter, _ *http.Request) {
		if err := keys.rotate(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// users has every user. The id is the name.
type users struct{}

func (users) ExampleClientID() string { return storage.ServiceUserID }

func (users) GetUserByID(id string) *storage.User { return users{}.GetUserByUsername(id) }

func (users) GetUserByUsername(name string) *storage.User {
	return &storage.User{ID: name, Username: name, Password: "password"}
}

// store changes what the storage of the example decides for its tokens.
type store struct {
	*storage.Storage

	keys *keys
	set  settings
}

// client has JWTs as access tokens: those of the example are opaque.
type client struct {
	op.Client

	behind time.Duration
}

func (client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (c client) ClockSkew() time.Duration { return c.behind }

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	if id == shortClient {
		return client{c, s.set.behind}, nil
	}
	return client{c, 0}, nil
}

func (s *store) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	id, _, err := s.Storage.CreateAccessToken(ctx, r)
	return id, s.expiry(r), err
}

func (s *store) CreateAccessAndRefreshTokens(ctx context.Context, r op.TokenRequest, refresh string) (id, next string, expires time.Time, err error) {
	id, next, _, err = s.Storage.CreateAccessAndRefreshTokens(ctx, r, refresh)
	return id, next, s.expiry(r), err
}

func (s *store) expiry(r op.TokenRequest) time.Time {
	if c, ok := r.(interface{ GetClientID() string }); ok && c.GetClientID() == shortClient {
		return time.Now().Add(s.set.short - s.set.behind)
	}
	return time.Now().Add(10 * time.Minute)
}

// GetPrivateClaimsFromScopes adds what the user may do. The role is the part of the name before a dash. Readers see all sessions, others their own ones.
func (s *store) GetPrivateClaimsFromScopes(_ context.Context, userID, _ string, _ []string) (map[string]any, error) {
	role, _, _ := strings.Cut(userID, "-")
	claims := map[string]any{"organization": map[string]any{"id": "org_71"}, "roles": []string{role, "unrelated"}}
	if role == "reader" {
		claims["sessions"] = "*"
	}
	return claims, nil
}
