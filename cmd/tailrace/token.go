package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
)

// The files of `tailrace token setup`.
const (
	signingKeyFile = "signing.pem"
	authFileName   = "auth.json"
)

// tokenFlags are the flags of `tailrace token`.
type tokenFlags struct {
	dir      string
	subject  string
	scope    string
	sessions []string
	ttl      time.Duration
}

func (f *tokenFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.dir, "dir", "", "setup: directory of the key and of auth.json, which is created")
	flags.StringVar(&f.subject, "subject", "", "mint: user or program that the token is for")
	flags.StringVar(&f.scope, "scope", "", "mint: rights, separated by spaces: "+auth.AllScopes.String())
	flags.Func("session", "mint: id of a session, \"*\" for all, or a prefix and \"*\"; may be repeated; without it, sessions that the subject has started", func(id string) error {
		f.sessions = append(f.sessions, id)
		return nil
	})
	flags.DurationVar(&f.ttl, "ttl", 15*time.Minute, "mint: lifetime of the token")
}

// runToken creates the key of an edge that signs tokens, signs tokens with it, or shows what is in one. It connects to no server.
func runToken(ctx context.Context, t terminal, args []string) error {
	var f tokenFlags
	cfg, rest, err := arguments(t, "token", args, f.register)
	if err != nil {
		return err
	}
	switch {
	case len(rest) == 1 && rest[0] == "setup" && f.dir != "":
		return setupTokens(t, f.dir)
	case len(rest) == 1 && rest[0] == "mint" && f.subject != "" && f.scope != "":
		return f.mint(ctx, t, cfg)
	case len(rest) == 2 && rest[0] == "inspect":
		return inspectToken(ctx, t, cfg, rest[1])
	}
	return usageError{errors.New("want setup --dir DIR, mint --subject NAME --scope RIGHTS --auth FILE, or inspect TOKEN --auth FILE")}
}

// setupTokens writes the files that are missing, so that it can be repeated. A key that exists is kept: the tokens of it stay valid.
func setupTokens(t terminal, dir string) error {
	dir, err := filepath.Abs(dir) // the edge may be started in another directory
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, settings := filepath.Join(dir, signingKeyFile), filepath.Join(dir, authFileName)
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := createFile(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})); err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{"sessionTokens": []any{map[string]any{
		"issuer": "tailrace", "audience": "tailrace", "signingKeys": []string{key}, "maxLifetime": "24h",
	}}}, "", "  ")
	if err != nil {
		return err
	}
	if err := createFile(t, settings, append(text, '\n')); err != nil {
		return err
	}
	a, err := config{Auth: settings}.newAuthenticators(slog.New(slog.DiscardHandler)) // a setup that was killed may have left a part of a file
	if err != nil {
		return fmt.Errorf("%w; delete the file and run this command again", err)
	}
	a.close()
	_, err = fmt.Fprintf(t.out, "start the edge with --auth %[1]s, and make a token with\n  tailrace token mint --auth %[1]s --subject ann --scope \"read chat\"\n", settings)
	return err
}

// createFile writes a file with writeNew, and prints its name. A file that exists is kept.
func createFile(t terminal, path string, text []byte) error {
	done, err := "wrote", writeNew(path, text)
	if errors.Is(err, fs.ErrExist) {
		done, err = "kept", nil
	}
	if err == nil {
		_, err = fmt.Fprintln(t.out, done, path)
	}
	return err
}

// writeNew writes a file that does not exist, and that only its owner can read.
func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

// tokenAuthenticators returns the authenticators of the file of the settings. No revocations are known without a server.
func (c config) tokenAuthenticators() (*authenticators, error) {
	a, err := c.newAuthenticators(slog.New(slog.DiscardHandler))
	if err == nil {
		a.revocations.Loaded()
	}
	return a, err
}

// mint prints a token alone. It is verified as in a request, so that no token is printed that the edge would refuse.
func (f *tokenFlags) mint(ctx context.Context, t terminal, cfg config) error {
	if cfg.Auth == "" {
		return usageError{errors.New("want --auth FILE or TAILRACE_AUTH, such as the auth.json of `tailrace token setup --dir keys`")}
	}
	g := auth.Grant{Tenant: cfg.Tenant, Subject: f.subject, Sessions: auth.Sessions{Own: true}}
	var err error
	if g.Scopes, err = auth.ParseScope(f.scope); err != nil {
		return usageError{err}
	}
	if len(f.sessions) > 0 {
		if g.Sessions, err = authn.ParseSessions(f.sessions); err != nil {
			return usageError{err}
		}
	}
	a, err := cfg.tokenAuthenticators()
	if err != nil {
		return err
	}
	defer a.close()
	if a.routes.Minter == nil {
		return usageError{fmt.Errorf("%s: no entry of sessionTokens has signingKeys: `tailrace token setup --dir keys` writes a file that has some", cfg.Auth)}
	}
	minted, err := a.routes.Minter.Mint(g, f.ttl)
	if err != nil {
		return usageError{err}
	}
	if _, err := a.routes.Verify(ctx, minted.Token); err != nil {
		return fmt.Errorf("%s: the edge would refuse this token: %w", cfg.Auth, err)
	}
	_, err = fmt.Fprintln(t.out, minted.Token)
	return err
}

// inspectToken prints the header and the claims of a token, and whether an edge with the file of the settings accepts it.
func inspectToken(ctx context.Context, t terminal, cfg config, token string) error {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return usageError{fmt.Errorf("a token has three parts, separated by dots, and this text has %d", len(parts))}
	}
	for i, name := range []string{"header", "claims"} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return fmt.Errorf("%s of the token: want base64url without padding", name)
		}
		var shown bytes.Buffer
		if err := json.Indent(&shown, text, "", "  "); err != nil {
			return fmt.Errorf("%s of the token: want a JSON object", name)
		}
		fmt.Fprintf(t.out, "%s %s\n", name, printable(shown.String()))
	}
	if cfg.Auth == "" {
		_, err := fmt.Fprintln(t.out, "not verified: --auth FILE names the authenticators of an edge")
		return err
	}
	a, err := cfg.tokenAuthenticators()
	if err != nil {
		return err
	}
	defer a.close()
	g, err := a.routes.Verify(ctx, strings.TrimSpace(token))
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	_, err = fmt.Fprintf(t.out, "accepted until %s, unless it is revoked\n", g.ExpiresAt.UTC().Format(time.RFC3339))
	return err
}
