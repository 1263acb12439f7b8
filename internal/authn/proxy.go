package authn

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/subjects"
)

// ProxyConfig configures NewProxy.
type ProxyConfig struct {
	// Proxies are the addresses of the proxies: the peers of the connections, not what X-Forwarded-For says. Required. Every program that can connect from one of
	// them can be any user.
	Proxies []netip.Prefix `json:"networks"`

	// SubjectHeader has the user. A request of a proxy without it has no credential. Required.
	SubjectHeader string `json:"subjectHeader"`

	// Tenant is the tenant of all users, or TenantHeader has it. One of the two is required.
	Tenant       string `json:"tenant"`
	TenantHeader string `json:"tenantHeader"`

	// Scopes are the rights of all users, or ScopeHeader has them: values that are separated by commas or spaces, such as groups. ScopeValues translates them and
	// ignores others; without it they are names of rights, and others are ignored too. One of Scopes and ScopeHeader is required.
	Scopes      auth.Scope            `json:"scopes"`
	ScopeHeader string                `json:"scopeHeader"`
	ScopeValues map[string]auth.Scope `json:"scopeValues"`

	// Sessions are the sessions of each user, such as own ones. Required.
	Sessions auth.Sessions `json:"sessions"`

	// Views are the views of all users, as Grant.Views has them, or ViewHeader has them, separated by commas or spaces.
	Views      []string `json:"views"`
	ViewHeader string   `json:"viewHeader"`
}

// proxy is the Authenticator of NewProxy. Identity headers of other peers are ignored, as if the request had none: they say nothing, and a refusal would tell a client which header is believed.
type proxy struct{ cfg ProxyConfig }

// NewProxy returns an Authenticator that believes the identity headers of named proxies. Each proxy has to remove these headers from the requests of its clients.
func NewProxy(cfg ProxyConfig) (auth.Authenticator, error) {
	if len(cfg.Proxies) == 0 {
		return nil, errors.New("Proxies is empty, want the addresses of the proxies")
	}
	for _, p := range cfg.Proxies {
		if !p.IsValid() || p.Addr().Is4In6() || p.Bits() == 0 {
			return nil, fmt.Errorf("Proxies has %s, want an IPv4 or IPv6 prefix that is not the whole Internet", p)
		}
	}
	switch {
	case cfg.SubjectHeader == "":
		return nil, errors.New("SubjectHeader is empty")
	case (cfg.Tenant == "") == (cfg.TenantHeader == ""):
		return nil, errors.New("TenantHeader is empty and Tenant too, or both are set: want one of them")
	case (cfg.Scopes == 0) == (cfg.ScopeHeader == ""):
		return nil, errors.New("ScopeHeader is empty and Scopes too, or both are set: want one of them")
	case len(cfg.Views) > 0 && cfg.ViewHeader != "":
		return nil, errors.New("ViewHeader is set, and Views too: want one of them")
	}
	if cfg.Tenant != "" {
		if err := subjects.CheckToken("Tenant", cfg.Tenant); err != nil {
			return nil, err
		}
	}
	if err := checkConfigured(cfg.Scopes, cfg.Sessions, cfg.Views); err != nil {
		return nil, err
	}
	cfg.Proxies, cfg.Views = slices.Clone(cfg.Proxies), slices.Clone(cfg.Views)
	for _, header := range []*string{&cfg.SubjectHeader, &cfg.TenantHeader, &cfg.ScopeHeader, &cfg.ViewHeader} {
		*header = http.CanonicalHeaderKey(*header)
	}
	return &proxy{cfg}, nil
}

// Authenticate returns the Grant of a request of a proxy, and ErrNoCredential for one of another peer or without a user.
func (p *proxy) Authenticate(r *http.Request) (*auth.Grant, error) {
	if !p.isProxy(r.RemoteAddr) || len(r.Header[p.cfg.SubjectHeader]) == 0 {
		return nil, auth.ErrNoCredential
	}
	g := &auth.Grant{Tenant: p.cfg.Tenant, Scopes: p.cfg.Scopes, Sessions: p.cfg.Sessions, Views: p.cfg.Views}
	var err error
	if g.Subject, err = single(r.Header, p.cfg.SubjectHeader); err != nil {
		return nil, err
	}
	if p.cfg.TenantHeader != "" {
		if g.Tenant, err = single(r.Header, p.cfg.TenantHeader); err != nil {
			return nil, err
		}
		if subjects.CheckToken("tenant", g.Tenant) != nil {
			return nil, invalidMember(ReasonProxy, p.cfg.TenantHeader)
		}
	}
	if p.cfg.ScopeHeader != "" {
		text, err := single(r.Header, p.cfg.ScopeHeader)
		if err != nil {
			return nil, err
		}
		g.Scopes = mapScopes(words(text), p.cfg.ScopeValues)
	}
	if p.cfg.ViewHeader != "" {
		text, err := single(r.Header, p.cfg.ViewHeader)
		if err != nil {
			return nil, err
		}
		g.Views = words(text)
	}
	if g.Check() != nil {
		return nil, invalidMember(ReasonProxy, p.cfg.SubjectHeader)
	}
	return g, nil
}

func (p *proxy) isProxy(peer string) bool {
	addr, err := netip.ParseAddrPort(peer)
	if err != nil {
		return false
	}
	ip := addr.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(p.cfg.Proxies, func(prefix netip.Prefix) bool { return prefix.Contains(ip) })
}

// single returns a header that must be there once. A client can have a header of its proxy removed, by naming it in the header Connection: a missing one is
// refused and not replaced by a default.
func single(h http.Header, name string) (string, error) {
	values := h[name]
	if len(values) != 1 || values[0] == "" {
		return "", invalidMember(ReasonProxy, name)
	}
	return values[0], nil
}

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
}

// mapScopes returns the rights of names. It ignores names without rights: they are for other services.
func mapScopes(names []string, values map[string]auth.Scope) (set auth.Scope) {
	for _, name := range names {
		one := values[name]
		if values == nil {
			one, _ = auth.ParseScope(name)
		}
		set |= one
	}
	return set
}
