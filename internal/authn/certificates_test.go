package authn_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
)

// certified is the configuration of most tests, without names.
func certified(change func(*authn.ClientCertificatesConfig)) authn.ClientCertificatesConfig {
	cfg := authn.ClientCertificatesConfig{Tenant: "acme", Scopes: auth.ScopeIngest, Sessions: auth.Sessions{All: true}}
	change(&cfg)
	return cfg
}

// Which names match. The certificate is as the server has verified it.
func TestNamesOfClientCertificates(t *testing.T) {
	uris := func(names ...string) *x509.Certificate {
		cert := &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
		for _, name := range names {
			u, err := url.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		return cert
	}
	dns := func(names ...string) *x509.Certificate {
		return &x509.Certificate{DNSNames: names, Subject: pkix.Name{CommonName: "spiffe://prod.example/agents/a"}, NotAfter: time.Now().Add(time.Hour)}
	}
	common := func(name string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	}
	byURI := certified(func(c *authn.ClientCertificatesConfig) {
		c.URIs = []string{"spiffe://prod.example/agents/*", "spiffe://prod.example/one"}
	})
	byDNS := certified(func(c *authn.ClientCertificatesConfig) { c.DNSNames = []string{"agent.example", "*.agents.example"} })
	byCommon := certified(func(c *authn.ClientCertificatesConfig) { c.CommonNames = []string{"agent-*", "one"} })
	for _, tt := range []struct {
		cfg  authn.ClientCertificatesConfig
		cert *x509.Certificate
		want string // "" is no credential
	}{
		{byURI, uris("spiffe://prod.example/agents/a"), "spiffe://prod.example/agents/a"},
		{byURI, uris("spiffe://prod.example/one"), "spiffe://prod.example/one"},
		{byURI, uris("spiffe://prod.example/one/more"), ""},
		{byURI, uris("spiffe://prod.example/agents/"), ""},
		{byURI, uris("spiffe://prod.example/agents"), ""},
		{byURI, uris("spiffe://prod.example/agents-of-others/a"), ""},
		{byURI, uris("spiffe://prod.example.evil/agents/a"), ""},
		{byURI, uris("https://prod.example/agents/a"), ""},
		{byURI, uris("spiffe://prod.example/agents/a", "spiffe://prod.example/one"), ""},
		{byURI, uris(), ""},
		{byURI, dns("prod.example"), ""}, // its common name does not count
		{byDNS, dns("agent.example"), "agent.example"},
		{byDNS, dns("other.example", "a.agents.example"), "a.agents.example"},
		{byDNS, dns("A.Agents.Example"), "a.agents.example"},
		{byDNS, dns("a.b.agents.example"), ""},
		{byDNS, dns("agents.example"), ""},
		{byDNS, dns(".agents.example"), ""},
		{byDNS, dns("*.agents.example"), ""},
		{byDNS, dns("evilagent.example"), ""},
		{byDNS, common("agent.example"), ""},
		{byCommon, common("agent-7"), "agent-7"},
		{byCommon, common("agent-"), ""},
		{byCommon, common("one"), "one"},
		{byCommon, common("one-more"), ""},
		{byCommon, common(""), ""},
	} {
		c, err := authn.NewClientCertificates(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tt.cert}, VerifiedChains: [][]*x509.Certificate{{tt.cert}}}
		g, err := c.Authenticate(r)
		switch {
		case tt.want == "" && !errors.Is(err, auth.ErrNoCredential):
			t.Errorf("%v %v %s: %+v, %v", tt.cert.URIs, tt.cert.DNSNames, tt.cert.Subject, g, err)
		case tt.want != "" && (err != nil || g.Subject != tt.want || g.Tenant != "acme" || g.Scopes != auth.ScopeIngest || !g.ExpiresAt.Equal(tt.cert.NotAfter)):
			t.Errorf("want %s: %+v, %v", tt.want, g, err)
		}
		r.TLS.VerifiedChains = nil
		if _, err := c.Authenticate(r); !errors.Is(err, auth.ErrNoCredential) {
			t.Errorf("%s: a certificate that was not verified: %v", tt.want, err)
		}
	}
	c, err := authn.NewClientCertificates(byCommon)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agent-\x00", "agent-\u202e7", "agent-" + strings.Repeat("x", 255)} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{common(name)}}}
		if _, err := c.Authenticate(r); !errors.Is(err, auth.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The Grant ends with the first certificate of the chain that expires; of several chains the longest counts.
func TestExpiryOfClientCertificates(t *testing.T) {
	c, err := authn.NewClientCertificates(certified(func(c *authn.ClientCertificatesConfig) { c.CommonNames = []string{"a"} }))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	cert := func(hours int) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "a"}, NotAfter: now.Add(time.Duration(hours) * time.Hour)}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert(5), cert(2), cert(9)}, {cert(5), cert(3)}}}
	g, err := c.Authenticate(r)
	if err != nil || !g.ExpiresAt.Equal(now.Add(3*time.Hour)) {
		t.Errorf("%+v, %v", g, err)
	}
	// On an open connection the handshake is not repeated.
	chain, err := authn.NewChain(authn.ChainConfig{Fallbacks: []auth.Authenticator{c}, Now: func() time.Time { return now.Add(4 * time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	if bad, ok := errors.AsType[*authn.InvalidError](second(chain.Authenticate(r))); !ok || bad.Reason != authn.ReasonExpired {
		t.Errorf("after the expiry: %v", bad)
	}
}

func second(_ *auth.Grant, err error) error { return err }

func TestClientCertificatesConfig(t *testing.T) {
	for name, change := range map[string]func(*authn.ClientCertificatesConfig){
		"no names": func(*authn.ClientCertificatesConfig) {},
		"two kinds": func(c *authn.ClientCertificatesConfig) {
			c.URIs, c.CommonNames = []string{"spiffe://a/b"}, []string{"a"}
		},
		"every URI":         func(c *authn.ClientCertificatesConfig) { c.URIs = []string{"*"} },
		"part of a host":    func(c *authn.ClientCertificatesConfig) { c.URIs = []string{"spiffe://prod*"} },
		"every host":        func(c *authn.ClientCertificatesConfig) { c.URIs = []string{"spiffe:///*"} },
		"part of a segment": func(c *authn.ClientCertificatesConfig) { c.URIs = []string{"spiffe://prod.example/agents*"} },
		"star in a URI":     func(c *authn.ClientCertificatesConfig) { c.URIs = []string{"spiffe://prod.example/*/agents/*"} },
		"every DNS name":    func(c *authn.ClientCertificatesConfig) { c.DNSNames = []string{"*."} },
		"star in a name":    func(c *authn.ClientCertificatesConfig) { c.DNSNames = []string{"a.*.example"} },
		"capitals":          func(c *authn.ClientCertificatesConfig) { c.DNSNames = []string{"A.example"} },
		"every common name": func(c *authn.ClientCertificatesConfig) { c.CommonNames = []string{"*"} },
		"no tenant":         func(c *authn.ClientCertificatesConfig) { c.CommonNames, c.Tenant = []string{"a"}, "" },
		"no scopes":         func(c *authn.ClientCertificatesConfig) { c.CommonNames, c.Scopes = []string{"a"}, 0 },
		"no sessions":       func(c *authn.ClientCertificatesConfig) { c.CommonNames, c.Sessions = []string{"a"}, auth.Sessions{} },
		"invalid view":      func(c *authn.ClientCertificatesConfig) { c.CommonNames, c.Views = []string{"a"}, []string{""} },
	} {
		if _, err := authn.NewClientCertificates(certified(change)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
