package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/credentials"
)

// authFile is the file of authenticators, see docs/reference/auth.md.
type authFile struct {
	OIDC          []authn.OIDCConfig  `json:"oidc"`
	SessionTokens []tokenIssuer       `json:"sessionTokens"`
	Proxies       []authn.ProxyConfig `json:"proxies"`

	ClientCertificates []authn.ClientCertificatesConfig `json:"clientCertificates"`
}

type tokenIssuer struct {
	authn.SessionTokensConfig

	SecretFile  string   `json:"secretFile"`
	SigningKeys []string `json:"signingKeys"` // files; the first one signs the tokens of POST /v1/tokens
}

// parseSessions parses "own", "all", or "p*" for the sessions whose id begins with p.
func parseSessions(text string) (auth.Sessions, error) {
	prefix, isPrefix := strings.CutSuffix(text, "*")
	switch {
	case text == "own":
		return auth.Sessions{Own: true}, nil
	case text == "all":
		return auth.Sessions{All: true}, nil
	case isPrefix && prefix != "":
		return auth.Sessions{Prefix: prefix}, nil
	}
	return auth.Sessions{}, fmt.Errorf("sessions are %q, want own, all, or a prefix and *", text)
}

// authenticators are those of one process.
type authenticators struct {
	auth.Authenticator

	revocations *authn.Revocations  // of the Authenticator, nil if it has none
	routes      *credentials.Config // of the routes for credentials, nil if requests are not authenticated

	oidc   []*authn.OIDC
	tokens []*authn.SessionTokens
	names  []any // of the log line at the start

	certificates int // entries for client certificates
}

// newAuthenticators reads the file of authenticators. Without one, every client has all rights in the tenant of the settings: listen guarantees a loopback
// address, or an operator that has asked for it.
func (c config) newAuthenticators(log *slog.Logger) (*authenticators, error) {
	if c.Auth == "" {
		if c.TLSClientCA != "" {
			return nil, usageError{errors.New("tls-client-ca is set and auth is empty: every client would have all rights, with and without a certificate")}
		}
		none, err := authn.NewNone(c.Tenant)
		return &authenticators{Authenticator: none}, err
	}
	text, err := os.ReadFile(c.Auth)
	if err != nil {
		return nil, usageError{fmt.Errorf("auth: %w", err)}
	}
	a, err := parseAuthenticators(text, c.CORSOrigins, log)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", c.Auth, err)}
	}
	if hasCertificates := a.certificates > 0; hasCertificates != (c.TLSClientCA != "") {
		a.close()
		return nil, usageError{fmt.Errorf("%s: %d entries in clientCertificates, and tls-client-ca is %q: they go together", c.Auth, a.certificates, c.TLSClientCA)}
	}
	return a, nil
}

// parseAuthenticators takes the origins whose pages may use a cookie.
func parseAuthenticators(text []byte, origins []string, log *slog.Logger) (*authenticators, error) {
	var file authFile
	if err := decodeSettings(text, &file); err != nil {
		return nil, err
	}
	a := &authenticators{routes: &credentials.Config{}, revocations: authn.NewRevocations(), certificates: len(file.ClientCertificates), names: []any{
		"oidc", len(file.OIDC), "sessionTokens", len(file.SessionTokens), "proxies", len(file.Proxies), "clientCertificates", len(file.ClientCertificates),
	}}
	if err := a.newChain(file, origins, log); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *authenticators) newChain(file authFile, origins []string, log *slog.Logger) error {
	cfg := authn.ChainConfig{Revocations: a.revocations}
	if err := a.add(&cfg, file, log); err != nil {
		return err
	}
	if len(cfg.Verifiers) > 0 {
		var err error
		if cfg.Cookie, err = authn.NewCookie(origins...); err != nil {
			return err
		}
	}
	chain, err := authn.NewChain(cfg)
	if err != nil {
		return err
	}
	a.Authenticator, a.routes.Verify, a.routes.Cookies = chain, chain.Verify, cfg.Cookie != nil
	return nil
}

func (a *authenticators) add(chain *authn.ChainConfig, file authFile, log *slog.Logger) error {
	for i, cfg := range file.OIDC {
		cfg.Log = log
		o, err := authn.NewOIDC(cfg)
		if err != nil {
			return fmt.Errorf("oidc[%d]: %w", i, err)
		}
		a.oidc = append(a.oidc, o)
		chain.Verifiers = append(chain.Verifiers, o)
	}
	for i, f := range file.SessionTokens {
		f.Log = log
		err := f.readSecret()
		if err == nil {
			err = a.addSigningKeys(&f)
		}
		if err != nil {
			return fmt.Errorf("sessionTokens[%d]: %w", i, err)
		}
		s, err := authn.NewSessionTokens(f.SessionTokensConfig)
		if err != nil {
			return fmt.Errorf("sessionTokens[%d]: %w", i, err)
		}
		a.tokens = append(a.tokens, s)
		chain.Verifiers = append(chain.Verifiers, s)
	}
	for i, cfg := range file.Proxies {
		p, err := authn.NewProxy(cfg)
		if err != nil {
			return fmt.Errorf("proxies[%d]: %w", i, err)
		}
		chain.Fallbacks = append(chain.Fallbacks, p)
	}
	for i, cfg := range file.ClientCertificates {
		c, err := authn.NewClientCertificates(cfg)
		if err != nil {
			return fmt.Errorf("clientCertificates[%d]: %w", i, err)
		}
		chain.Fallbacks = append(chain.Fallbacks, c)
	}
	return nil
}

func (f *tokenIssuer) readSecret() error {
	if f.SecretFile == "" {
		return nil
	}
	secret, err := os.ReadFile(f.SecretFile)
	// Editors end a file with a line break, which the application does not have in its secret.
	f.Secret = []byte(strings.TrimRight(string(secret), "\r\n"))
	return err
}

// addSigningKeys makes the edge an issuer: the first key signs, and all of them verify, so that the key of a fleet can be replaced one edge at a time.
func (a *authenticators) addSigningKeys(f *tokenIssuer) error {
	for i, file := range f.SigningKeys {
		text, err := os.ReadFile(file) //nolint:gosec // the operator names the file
		if err != nil {
			return err
		}
		id, key, err := auth.ParseSigningKey(text)
		if err != nil {
			return fmt.Errorf("signingKeys: %s: %w", file, err)
		}
		f.Keys = append(f.Keys, authn.PublicKey{ID: id, Key: key.Public()})
		if i > 0 {
			continue
		}
		if a.routes.Minter != nil {
			return errors.New("signingKeys: another entry has some, want one issuer that signs")
		}
		a.routes.MaxLifetime = f.MaxLifetime
		if a.routes.Minter, err = auth.NewMinter(auth.MinterConfig{Issuer: f.Issuer, Audience: f.Audience, KeyID: id, Key: key}); err != nil {
			return err
		}
	}
	return nil
}

// load loads the keys of the providers, so that the first requests do not wait for them. Without keys the first tokens load them.
func (a *authenticators) load(ctx context.Context, log *slog.Logger) {
	for _, o := range a.oidc {
		if err := o.Refresh(ctx); err != nil && !errors.Is(err, context.Canceled) {
			log.Warn("keys of a provider not loaded", "issuer", o.Issuer(), "error", err)
		}
	}
}

// close ends the loads of keys.
func (a *authenticators) close() {
	for _, o := range a.oidc {
		o.Close()
	}
	for _, s := range a.tokens {
		s.Close()
	}
}

// logStart logs once who may use the listener.
func (f *httpServer) logStart() {
	switch {
	case len(f.auth.names) > 0:
		f.b.log.Info("requests are authenticated", f.auth.names...)
	case f.loopback():
		f.b.log.Info("requests are not authenticated: every program on this machine has all rights", "tenant", f.b.cfg.Tenant)
	default:
		f.b.log.Warn("requests are not authenticated: every client that reaches the listener has all rights", "tenant", f.b.cfg.Tenant, "listen", f.b.cfg.Listen)
	}
}
