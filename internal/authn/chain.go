package authn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/revocation"
)

// Verifier verifies the tokens of one issuer. It is an *OIDC or a *SessionTokens.
type Verifier interface {
	// Issuer returns the iss of the tokens.
	Issuer() string

	verify(ctx context.Context, t *token) (*auth.Grant, *keySet, error)
	keys() *keySet
}

// ChainConfig configures a Chain.
type ChainConfig struct {
	// Verifiers verify the tokens of the header Authorization. A token is verified by the one with its issuer and by no other. Without verifiers the header is
	// not read.
	Verifiers []Verifier

	// Cookie accepts tokens of the Verifiers in a cookie, from a request without the header Authorization. A request with the cookie is decided by it alone.
	// Defaults to none.
	Cookie *Cookie

	// Fallbacks are asked in their order for a request without the header Authorization and without a Cookie, until one does not return ErrNoCredential. A request
	// with that header is decided by it alone: a bad token does not fall back. Here is the place of those of NewProxy, NewClientCertificates and NewNone.
	Fallbacks []auth.Authenticator

	// CacheSize bounds the verified tokens that are kept. Defaults to 16384; they take about 0.5 KiB each.
	CacheSize int

	// Revocations are refused, also for requests with a verified token in the cache and for those of Fallbacks. Until they are loaded, every credential is
	// answered with ErrUnavailable. Defaults to nil: nothing is revoked.
	Revocations *Revocations

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

// Chain authenticates requests with several Authenticators. It implements Authenticator.
type Chain struct {
	verifiers map[string]Verifier // by issuer
	cookie    *Cookie             // nil without
	fallbacks []auth.Authenticator
	cache     cache
	revoked   *Revocations
	now       func() time.Time
}

// NewChain returns a Chain. That of NewNone must be the only Authenticator: with it, a request without a credential would have more rights than one with a credential.
func NewChain(cfg ChainConfig) (*Chain, error) {
	c := &Chain{verifiers: map[string]Verifier{}, cookie: cfg.Cookie, revoked: cfg.Revocations, now: cfg.Now}
	if c.now == nil {
		c.now = time.Now
	}
	for i, v := range cfg.Verifiers {
		if v == nil {
			return nil, fmt.Errorf("Verifiers: entry %d is nil", i)
		}
		if _, ok := c.verifiers[v.Issuer()]; ok {
			return nil, fmt.Errorf("Verifiers: entry %d: issuer %q has two verifiers", i, v.Issuer())
		}
		c.verifiers[v.Issuer()] = v
	}
	for i, a := range cfg.Fallbacks {
		if a == nil {
			return nil, fmt.Errorf("Fallbacks: entry %d is nil", i)
		}
		if _, ok := a.(*none); ok && len(cfg.Verifiers)+len(cfg.Fallbacks) > 1 {
			return nil, errors.New("NewNone and other authenticators exclude each other")
		}
		c.fallbacks = append(c.fallbacks, a)
	}
	if len(c.verifiers)+len(c.fallbacks) == 0 {
		return nil, errors.New("Verifiers is empty, and Fallbacks too: every request would be refused")
	}
	if c.cookie != nil && len(c.verifiers) == 0 {
		return nil, errors.New("Cookie needs Verifiers")
	}
	size := cmp.Or(cfg.CacheSize, 16384)
	if size < 0 {
		return nil, fmt.Errorf("CacheSize is %d, want more than 0", size)
	}
	var err error
	c.cache.Cache, err = lru.New[tokenHash, entry](size)
	return c, err
}

// Authenticate returns the Grant of a request, or an error; it never returns both or none. A token in the query is refused, whatever else the request has.
func (c *Chain) Authenticate(r *http.Request) (*auth.Grant, error) {
	if r.URL.RawQuery != "" && hasTokenInQuery(r.URL.RawQuery) {
		return nil, ErrTokenInQuery
	}
	if len(c.verifiers) > 0 {
		switch token, err := BearerToken(r.Header); {
		case err != nil:
			return nil, err
		case token != "":
			return c.verify(r.Context(), token)
		}
	}
	if c.cookie != nil {
		if token, present, err := c.cookie.token(r); err != nil {
			return nil, err
		} else if present {
			return c.verify(r.Context(), token)
		}
	}
	for _, a := range c.fallbacks {
		g, err := a.Authenticate(r)
		switch {
		case err == nil:
			return c.checked(g)
		case !errors.Is(err, auth.ErrNoCredential):
			return nil, err
		}
	}
	return nil, auth.ErrNoCredential
}

// Verify returns the Grant of a token that does not come from the header Authorization: from a cookie, or from a command.
func (c *Chain) Verify(ctx context.Context, token string) (*auth.Grant, error) {
	if len(token) > MaxToken {
		return nil, invalid(ReasonTooLarge)
	}
	return c.verify(ctx, token)
}

// checked refuses a Grant that no Authenticator may return.
func (c *Chain) checked(g *auth.Grant) (*auth.Grant, error) {
	switch {
	case g == nil:
		return nil, auth.ErrNoCredential
	case g.Expired(c.now()):
		return nil, invalid(ReasonExpired)
	case g.Check() != nil:
		return nil, invalidMember(ReasonClaim, "grant")
	default:
		return c.revoked.unrevoked(g)
	}
}

// limitAge makes a verified token expire when the revocation of it could, or refuses it.
func limitAge(g *auth.Grant, now time.Time) error {
	issued := g.IssuedAt
	if issued.IsZero() {
		issued = now
	}
	end := issued.Add(revocation.Lifetime)
	switch {
	case !g.ExpiresAt.After(end):
	case g.IssuedAt.IsZero(): // nothing says when it was issued, so it could be accepted again and again
		return invalidMember(ReasonClaim, "exp")
	case !now.Before(end):
		return invalid(ReasonExpired)
	default:
		g.ExpiresAt = end
	}
	return nil
}

// verify takes a token of at most MaxToken bytes. A token in the cache is not read, only hashed.
func (c *Chain) verify(ctx context.Context, text string) (*auth.Grant, error) {
	now := c.now()
	hash := sha256.Sum256([]byte(text))
	if g := c.cache.valid(hash, now); g != nil {
		return c.revoked.unrevoked(g)
	}
	if err := checkCompact(text); err != nil {
		return nil, err
	}
	t, err := parseToken(text)
	if err != nil {
		return nil, err
	}
	v, ok := c.verifiers[t.issuer]
	if !ok {
		return nil, invalid(ReasonIssuer)
	}
	g, keys, err := v.verify(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := limitAge(g, now); err != nil {
		return nil, err
	}
	if g, err = c.checked(g); err != nil {
		return nil, err
	}
	c.cache.Add(hash, entry{g, v, keys})
	return g, nil
}
