package authn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/subjects"
)

// SessionTokensConfig configures SessionTokens. At least one of Keys, KeysFile and Secret is required.
type SessionTokensConfig struct {
	// Issuer is the iss of the tokens: a name of the application that signs them. Required.
	Issuer string `json:"issuer"`

	// Audience is one of the aud of the tokens: a name of this deployment of Tailrace. Required.
	Audience string `json:"audience"`

	// Keys are the public keys of the application.
	Keys []PublicKey `json:"-"`

	// KeysFile is a JWK Set of public keys. It is read at the start, and again when it is older than a minute or a token has an unknown key id, at most every 5
	// seconds. A file that cannot be read leaves the keys as they were.
	KeysFile string `json:"keysFile"`

	// Secret enables HS256, with at least 32 random bytes. Every holder of it can make tokens: prefer keys.
	Secret []byte `json:"-"`

	// Tenants are the tenants that the application may grant. Defaults to all.
	Tenants []string `json:"tenants"`

	// Scopes are the rights that the application may grant. Defaults to AllScopes.
	Scopes auth.Scope `json:"scopes"`

	// MaxLifetime bounds exp - iat. Defaults to 24 hours.
	MaxLifetime time.Duration `json:"maxLifetime"`

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time `json:"-"`

	// Log receives the loads of KeysFile. Defaults to none.
	Log *slog.Logger `json:"-"`
}

// SessionTokens verifies tokens that the backend of an application signs for its users, see auth.Minter for their form. It implements Verifier.
type SessionTokens struct {
	cfg        SessionTokensConfig
	algorithms []string
	ring       *keyring
}

// NewSessionTokens returns a SessionTokens. It reads KeysFile. Close it.
func NewSessionTokens(cfg SessionTokensConfig) (*SessionTokens, error) {
	if cfg.Scopes == 0 {
		cfg.Scopes = auth.AllScopes
	}
	cfg.MaxLifetime = cmp.Or(cfg.MaxLifetime, 24*time.Hour)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	switch {
	case cfg.Issuer == "":
		return nil, errors.New("Issuer is empty")
	case cfg.Audience == "":
		return nil, errors.New("Audience is empty")
	case cfg.MaxLifetime < 0:
		return nil, fmt.Errorf("MaxLifetime is %s, want more than 0", cfg.MaxLifetime)
	case len(cfg.Keys) == 0 && cfg.KeysFile == "" && len(cfg.Secret) == 0:
		return nil, errors.New("KeysFile is empty, and Keys and Secret too: want at least one of them")
	}
	fixed, err := cfg.fixedKeys()
	if err != nil {
		return nil, err
	}
	algorithms := sessionAlgorithms
	if len(cfg.Secret) > 0 {
		algorithms = append(slices.Clone(algorithms), hs256)
	}
	cfg.Tenants, cfg.Keys, cfg.Secret = slices.Clone(cfg.Tenants), nil, nil
	s := &SessionTokens{cfg, algorithms, &keyring{
		issuer: cfg.Issuer, refetchInterval: 5 * time.Second, retryInterval: 5 * time.Second, refreshAfter: time.Minute, loadTimeout: 5 * time.Second, now: cfg.Now, log: cfg.Log,
	}}
	set := &keySet{keys: fixed}
	if cfg.KeysFile != "" {
		load := func(context.Context) (*keySet, error) { return readKeys(cfg.KeysFile, fixed) }
		if set, err = load(context.Background()); err != nil {
			return nil, fmt.Errorf("KeysFile %s: %w", cfg.KeysFile, err)
		}
		s.ring.load = load
		s.ring.start()
	}
	if err := set.checkIDs(); err != nil { // once more for keys without a file
		return nil, err
	}
	s.ring.current.Store(&loadedKeys{set, cfg.Now()})
	return s, nil
}

// fixedKeys returns the keys that are not in the file.
func (c *SessionTokensConfig) fixedKeys() (keys []key, err error) {
	for i, public := range c.Keys {
		k, err := newKey(public.ID, public.Key, "")
		if err != nil {
			return nil, fmt.Errorf("Keys: entry %d: %w", i, err)
		}
		if !slices.Contains(sessionAlgorithms, k.algorithms[0]) {
			return nil, fmt.Errorf("Keys: entry %d: %w", i, errSessionKey)
		}
		keys = append(keys, k)
	}
	if len(c.Secret) > 0 {
		if _, err := auth.NewMinter(auth.MinterConfig{Issuer: c.Issuer, Audience: c.Audience, Secret: c.Secret}); err != nil {
			return nil, err
		}
		keys = append(keys, key{"", []string{hs256}, slices.Clone(c.Secret)})
	}
	return keys, nil
}

var (
	sessionAlgorithms = []string{EdDSA, ES256}
	errSessionKey     = errors.New("want an Ed25519 key or an ECDSA key of the curve P-256")
)

// readKeys reads a JWK Set of keys for session tokens and adds the fixed keys.
func readKeys(file string, fixed []key) (*keySet, error) {
	f, err := os.Open(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxKeySetBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeySetBytes {
		return nil, fmt.Errorf("more than %d bytes", maxKeySetBytes)
	}
	set, err := parseKeySet(text, false)
	if err != nil {
		return nil, err
	}
	for _, k := range set.keys {
		if !slices.Contains(sessionAlgorithms, k.algorithms[0]) {
			return nil, fmt.Errorf("key %.32q: %w", k.id, errSessionKey)
		}
	}
	set.keys = append(set.keys, fixed...)
	if err := set.checkIDs(); err != nil {
		return nil, err
	}
	return set, nil
}

// checkIDs refuses two keys of one id, of which a token could not choose one, and a key without an id that no token could choose.
func (s *keySet) checkIDs() error {
	for i, k := range s.keys {
		for _, other := range s.keys[:i] {
			if k.algorithms[0] == other.algorithms[0] && (k.id == other.id || k.id == "" || other.id == "") {
				return fmt.Errorf("keys %.32q and %.32q of %s: want different ids", other.id, k.id, k.algorithms[0])
			}
		}
	}
	return nil
}

// Issuer returns the iss of the tokens.
func (s *SessionTokens) Issuer() string { return s.cfg.Issuer }

// Close ends a load of KeysFile that runs.
func (s *SessionTokens) Close() { s.ring.close() }

func (s *SessionTokens) keys() *keySet { return s.ring.keys() }

var sessionTokenTypes = []string{"at+jwt", "application/at+jwt"} // RFC 9068

func (s *SessionTokens) verify(ctx context.Context, t *token) (*auth.Grant, *keySet, error) {
	set, err := s.ring.verify(ctx, t, sessionTokenTypes, s.algorithms)
	if err != nil {
		return nil, nil, err
	}
	g, err := s.grant(t.claims)
	return g, set, err
}

// grant reads the claims of a token with a valid signature. One bad claim refuses the whole token.
func (s *SessionTokens) grant(c claims) (*auth.Grant, error) {
	expires, issued, err := c.checkTimes(s.cfg.Now())
	switch {
	case err != nil:
		return nil, err
	case issued.IsZero():
		return nil, invalidMember(ReasonClaim, "iat")
	case !expires.After(issued) || expires.Sub(issued) > s.cfg.MaxLifetime:
		return nil, invalidMember(ReasonClaim, "exp")
	}
	if err := c.checkUse([]string{s.cfg.Audience}); err != nil {
		return nil, err
	}
	g := &auth.Grant{Issuer: s.cfg.Issuer, ExpiresAt: expires.Add(Leeway), IssuedAt: issued}
	var scope string
	for _, claim := range []struct {
		name string
		to   *string
	}{{"sub", &g.Subject}, {"tid", &g.Tenant}, {"jti", &g.TokenID}, {"scope", &scope}} {
		if *claim.to, err = c.text(claim.name); err != nil {
			return nil, err
		}
		if *claim.to == "" {
			return nil, invalidMember(ReasonClaim, claim.name)
		}
	}
	if g.Scopes, err = auth.ParseScope(scope); err != nil {
		return nil, invalidMember(ReasonClaim, "scope")
	}
	if g.Sessions, err = c.sessions(auth.Sessions{Own: true}, "sid"); err != nil {
		return nil, err
	}
	if g.Views, _, err = c.texts(maxViews, "view"); err != nil {
		return nil, err
	}
	return g, s.checkGrant(g)
}

const maxViews = 16

// sessions reads a set of sessions; missing is that of a token without the claim.
func (c claims) sessions(missing auth.Sessions, path ...string) (auth.Sessions, error) {
	list, present, err := c.texts(auth.MaxSessionIDs, path...)
	if err != nil || !present {
		return missing, err
	}
	s, err := ParseSessions(list)
	if err != nil {
		return s, invalidMember(ReasonClaim, path[len(path)-1])
	}
	return s, nil
}

// checkGrant names the claim that makes a Grant invalid.
func (s *SessionTokens) checkGrant(g *auth.Grant) error {
	switch {
	case !isSubject(g.Subject):
		return invalidMember(ReasonClaim, "sub")
	case !isTokenID(g.TokenID):
		return invalidMember(ReasonClaim, "jti")
	case subjects.CheckToken("tenant", g.Tenant) != nil:
		return invalidMember(ReasonClaim, "tid")
	case g.Check() != nil:
		return invalidMember(ReasonClaim, "view")
	case len(s.cfg.Tenants) > 0 && !slices.Contains(s.cfg.Tenants, g.Tenant):
		return invalidMember(ReasonForbidden, "tid")
	case g.Scopes&^s.cfg.Scopes != 0:
		return invalidMember(ReasonForbidden, "scope")
	default:
		return nil
	}
}
