package authn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/subjects"
)

// OIDCConfig configures an OIDC.
type OIDCConfig struct {
	Mapping // of the claims

	// Issuer is the URL of the provider, exactly as it is in iss. It begins with https, or with http for a host on loopback. Required.
	Issuer string `json:"issuer"`

	// KeysURL is the JWK Set of the provider. Defaults to the one that the provider names in .well-known/openid-configuration.
	KeysURL string `json:"keysUrl"`

	// Audiences are accepted in aud: names of this service at the provider. Required. Do not use the id of a web client here: its ID tokens, which are not for
	// services, would be accepted.
	Audiences []string `json:"audiences"`

	// Algorithms are accepted if they fit the key. Defaults to RS256, ES256 and EdDSA.
	Algorithms []string `json:"algorithms"`

	// RefreshAfter is the age of keys after which they are loaded again, so that withdrawn keys do not serve any more. Defaults to 10 minutes.
	RefreshAfter time.Duration `json:"-"`

	// MaxStale is the age up to which keys serve while the provider cannot be reached. Defaults to 24 hours.
	MaxStale time.Duration `json:"-"`

	// Client makes the requests to the provider. Its redirects are not followed. Defaults to one with a timeout of 5 seconds.
	Client *http.Client `json:"-"`

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time `json:"-"`

	// Log receives loads of keys. Defaults to none.
	Log *slog.Logger `json:"-"`
}

// Mapping says what the claims of a provider mean. A claim is the name of a member of the token, or, if it begins with a slash, a JSON pointer:
// "/realm_access/roles".
type Mapping struct {
	// SubjectClaim is the user. Defaults to sub.
	SubjectClaim string `json:"subjectClaim"`

	// Tenant is the tenant of all users, or TenantClaim has it. One of the two is required. Tenants translates the claim, and refuses values that it does not have.
	Tenant      string            `json:"tenant"`
	TenantClaim string            `json:"tenantClaim"`
	Tenants     map[string]string `json:"tenants"`

	// ScopeClaim has names of rights, in a string with spaces between them or in an array. Defaults to scope. ScopeValues translates the names, such as groups or
	// roles, instead. Names that are not known are ignored: they are for other services. Scopes are added for every user.
	ScopeClaim  string                `json:"scopeClaim"`
	ScopeValues map[string]auth.Scope `json:"scopeValues"`
	Scopes      auth.Scope            `json:"scopes"`

	// Sessions are the sessions of a user, such as own ones. Required. If SessionsClaim is set and in the token, it has them instead, in the form of sid in session
	// tokens.
	Sessions      auth.Sessions `json:"sessions"`
	SessionsClaim string        `json:"sessionsClaim"`

	// Views are the views of a user, as Grant.Views has them. If ViewClaim is set, it has them instead, in a string or an array.
	Views     []string `json:"views"`
	ViewClaim string   `json:"viewClaim"`
}

// OIDC verifies access tokens of an identity provider, with the keys that the provider publishes. It implements Verifier.
type OIDC struct {
	cfg    OIDCConfig
	paths  mappingPaths
	ring   *keyring
	client *http.Client
}

type mappingPaths struct{ subject, tenant, scope, sessions, view []string }

// NewOIDC returns an OIDC. It makes no request: keys are loaded for the first token, or by Refresh. Close it.
func NewOIDC(cfg OIDCConfig) (*OIDC, error) {
	cfg.RefreshAfter = cmp.Or(cfg.RefreshAfter, 10*time.Minute)
	cfg.MaxStale = cmp.Or(cfg.MaxStale, 24*time.Hour)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if len(cfg.Algorithms) == 0 {
		cfg.Algorithms = []string{RS256, ES256, EdDSA}
	}
	cfg.SubjectClaim = cmp.Or(cfg.SubjectClaim, "sub")
	cfg.ScopeClaim = cmp.Or(cfg.ScopeClaim, "scope")
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Audiences, cfg.Algorithms = slices.Clone(cfg.Audiences), slices.Clone(cfg.Algorithms)
	m := &cfg.Mapping
	m.Views, m.Tenants, m.ScopeValues = slices.Clone(m.Views), maps.Clone(m.Tenants), maps.Clone(m.ScopeValues)
	o := &OIDC{cfg: cfg, paths: mappingPaths{claimPath(m.SubjectClaim), claimPath(m.TenantClaim), claimPath(m.ScopeClaim), claimPath(m.SessionsClaim), claimPath(m.ViewClaim)}}
	o.client = clientOf(cfg.Client)
	o.ring = &keyring{
		issuer: cfg.Issuer, load: o.load, refetchInterval: time.Minute, retryInterval: 5 * time.Second, refreshAfter: cfg.RefreshAfter, maxStale: cfg.MaxStale,
		loadTimeout: requestTimeout, now: cfg.Now, log: cfg.Log,
	}
	o.ring.start()
	return o, nil
}

func (c *OIDCConfig) validate() error {
	if err := checkProviderURL("Issuer", c.Issuer); err != nil {
		return err
	}
	if c.KeysURL != "" {
		if err := checkProviderURL("KeysURL", c.KeysURL); err != nil {
			return err
		}
	}
	if len(c.Audiences) == 0 || slices.Contains(c.Audiences, "") {
		return errors.New("Audiences is empty or has an empty name")
	}
	for _, alg := range c.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			return fmt.Errorf("Algorithms has %q, want some of %s", alg, strings.Join(asymmetric, " "))
		}
	}
	if c.RefreshAfter < time.Minute {
		return fmt.Errorf("RefreshAfter is %s, want at least 1m", c.RefreshAfter)
	}
	if c.MaxStale < c.RefreshAfter {
		return fmt.Errorf("MaxStale is %s, want at least RefreshAfter, %s", c.MaxStale, c.RefreshAfter)
	}
	return c.Mapping.validate()
}

func (m *Mapping) validate() error {
	switch {
	case (m.Tenant == "") == (m.TenantClaim == ""):
		return errors.New("Mapping.Tenant and Mapping.TenantClaim: want one of them")
	case m.Tenants != nil && m.TenantClaim == "":
		return errors.New("Mapping.Tenants needs Mapping.TenantClaim")
	}
	if m.Tenant != "" {
		if err := subjects.CheckToken("tenant", m.Tenant); err != nil {
			return fmt.Errorf("Mapping.Tenant: %w", err)
		}
	}
	for value, name := range m.Tenants {
		if err := subjects.CheckToken("tenant", name); err != nil {
			return fmt.Errorf("Mapping.Tenants[%q]: %w", value, err)
		}
	}
	if err := checkConfigured(m.Scopes, m.Sessions, m.Views); err != nil {
		return fmt.Errorf("Mapping: %w", err)
	}
	return nil
}

// checkProviderURL refuses URLs over which keys could be replaced on the way.
func checkProviderURL(field, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "" && field == "Issuer" {
		return fmt.Errorf("%s is %q, want a URL with a host", field, text)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return fmt.Errorf("%s is %q, want https, or http on loopback", field, text)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// claimPath returns the names on the way to a claim, nil for "".
func claimPath(claim string) []string {
	pointer, ok := strings.CutPrefix(claim, "/")
	switch {
	case claim == "":
		return nil
	case !ok:
		return []string{claim}
	}
	path := strings.Split(pointer, "/")
	for i, name := range path {
		path[i] = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	}
	return path
}

const (
	requestTimeout    = 5 * time.Second
	maxDiscoveryBytes = 64 << 10
)

// clientOf returns a client that does not follow redirects: the answer of another server would be believed. It also keeps no cookies.
func clientOf(given *http.Client) *http.Client {
	client := http.Client{Timeout: requestTimeout}
	if given != nil {
		client = *given
	}
	client.Jar = nil
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// load fetches the keys of the provider. It asks each time for the place of the keys, which can change; a load is rare.
func (o *OIDC) load(ctx context.Context) (*keySet, error) {
	keysURL := o.cfg.KeysURL
	if keysURL == "" {
		var err error
		if keysURL, err = o.discover(ctx); err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
	}
	text, err := o.get(ctx, keysURL, maxKeySetBytes)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	set, err := parseKeySet(text, true)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return set, nil
}

func (o *OIDC) discover(ctx context.Context) (keysURL string, err error) {
	text, err := o.get(ctx, strings.TrimSuffix(o.cfg.Issuer, "/")+"/.well-known/openid-configuration", maxDiscoveryBytes)
	if err != nil {
		return "", err
	}
	if err := checkObject(text); err != nil {
		return "", err
	}
	issuer, err := claims(text).text("issuer")
	if err != nil || issuer != o.cfg.Issuer {
		return "", fmt.Errorf("issuer is %.32q, want %q", issuer, o.cfg.Issuer)
	}
	if keysURL, err = claims(text).text("jwks_uri"); err != nil {
		return "", errors.New("jwks_uri is not a string")
	}
	return keysURL, checkProviderURL("jwks_uri", keysURL)
}

// get returns the body of a response of at most limit bytes.
func (o *OIDC) get(ctx context.Context, from string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d, want 200", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return text, nil
}

// Issuer returns the iss of the tokens.
func (o *OIDC) Issuer() string { return o.cfg.Issuer }

// Close ends a load that runs. Keys that are loaded continue to serve.
func (o *OIDC) Close() { o.ring.close() }

// Refresh loads the keys if there are none, and waits for them. It returns an UnavailableError if there are none after it: a process may call it at its start
// and continue nevertheless, because the first tokens load the keys too.
func (o *OIDC) Refresh(ctx context.Context) error {
	if o.keys() != nil {
		return nil
	}
	if loading := o.ring.reload(o.ring.retryInterval); loading != nil {
		select {
		case <-loading:
		case <-ctx.Done():
			return o.ring.unavailable(ctx.Err())
		}
	}
	if o.keys() == nil {
		return o.ring.unavailable(o.ring.failure())
	}
	return nil
}

func (o *OIDC) keys() *keySet { return o.ring.keys() }

// accessTokenTypes are the types of access tokens in use. Most providers do not follow RFC 9068 and write JWT or nothing.
var accessTokenTypes = append([]string{"", "jwt", "application/jwt"}, sessionTokenTypes...)

func (o *OIDC) verify(ctx context.Context, t *token) (*auth.Grant, *keySet, error) {
	set, err := o.ring.verify(ctx, t, accessTokenTypes, o.cfg.Algorithms)
	if err != nil {
		return nil, nil, err
	}
	expires, issued, err := t.claims.checkTimes(o.cfg.Now())
	if err != nil {
		return nil, nil, err
	}
	if err := t.claims.checkUse(o.cfg.Audiences); err != nil {
		return nil, nil, err
	}
	g, err := o.grant(t.claims)
	if err != nil {
		return nil, nil, err
	}
	g.ExpiresAt, g.IssuedAt = expires.Add(Leeway), issued
	return g, set, nil
}

// grant maps the claims of a token with a valid signature.
func (o *OIDC) grant(c claims) (*auth.Grant, error) {
	m := &o.cfg.Mapping
	g := &auth.Grant{Issuer: o.cfg.Issuer, Tenant: m.Tenant, Scopes: m.Scopes, Views: m.Views}
	if sub, err := c.text("sub"); err != nil || sub == "" {
		return nil, invalidMember(ReasonClaim, "sub")
	}
	var err error
	if g.Subject, err = c.text(o.paths.subject...); err != nil {
		return nil, err
	}
	if !isSubject(g.Subject) {
		return nil, invalidMember(ReasonClaim, m.SubjectClaim)
	}
	if g.TokenID, err = c.text("jti"); err != nil || g.TokenID != "" && !isTokenID(g.TokenID) {
		return nil, invalidMember(ReasonClaim, "jti")
	}
	if o.paths.tenant != nil {
		if g.Tenant, err = o.tenant(c); err != nil {
			return nil, err
		}
	}
	names, _, err := c.texts(maxNames, o.paths.scope...)
	if err != nil {
		return nil, err
	}
	if rawjson.Kind(rawjson.Get(c, o.paths.scope...)) == '"' {
		names = strings.Fields(names[0])
	}
	g.Scopes |= mapScopes(names, m.ScopeValues)
	g.Sessions = m.Sessions
	if o.paths.sessions != nil {
		if g.Sessions, err = c.sessions(m.Sessions, o.paths.sessions...); err != nil {
			return nil, err
		}
	}
	if o.paths.view != nil {
		if g.Views, _, err = c.texts(maxViews, o.paths.view...); err != nil {
			return nil, err
		}
	}
	if g.Check() != nil {
		return nil, invalidMember(ReasonClaim, m.ViewClaim)
	}
	return g, nil
}

// maxNames bounds the scopes, groups or roles of a user.
const maxNames = 512

func (o *OIDC) tenant(c claims) (string, error) {
	m := &o.cfg.Mapping
	value, err := c.text(o.paths.tenant...)
	if err != nil {
		return "", err
	}
	if m.Tenants != nil {
		name, ok := m.Tenants[value]
		if !ok {
			return "", invalidMember(ReasonForbidden, m.TenantClaim)
		}
		return name, nil
	}
	if subjects.CheckToken("tenant", value) != nil {
		return "", invalidMember(ReasonClaim, m.TenantClaim)
	}
	return value, nil
}
