package authn

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/subjects"
)

// ClientCertificatesConfig configures NewClientCertificates. One of URIs, DNSNames and CommonNames is required.
type ClientCertificatesConfig struct {
	// URIs are names in subjectAltName, such as SPIFFE ids. The certificate has to have one URI and no more. A name that ends with "/*" is every URI that begins
	// with what is before the star; scheme and host must be complete.
	URIs []string `json:"uris"`

	// DNSNames are names in subjectAltName. One that begins with "*." is every name with one more label in front. The certificate may have several names: the
	// first entry here that one of them matches decides.
	DNSNames []string `json:"dnsNames"`

	// CommonNames are common names of the subject. One that ends with "*" is every name that begins with what is before the star.
	CommonNames []string `json:"commonNames"`

	Tenant   string        `json:"tenant"` // of all these clients. Required.
	Scopes   auth.Scope    `json:"scopes"` // of all these clients. Required.
	Sessions auth.Sessions `json:"sessions"`
	Views    []string      `json:"views"` // as Grant.Views has them
}

// clientCertificates maps verified client certificates to Grants. The subject of a Grant is the name that matched, and it expires with the certificate. It
// implements Authenticator.
//
// It believes the connection alone: certificates in headers are ignored, so it does not work behind a proxy that ends TLS. The server has to verify them: see
// tls.Config.ClientCAs. A certificate that was not verified is as if there were none.
type clientCertificates struct{ cfg ClientCertificatesConfig }

// NewClientCertificates returns an Authenticator that believes the certificate of a connection, see ClientCertificatesConfig. It ignores certificates in headers,
// so it does not work behind a proxy that ends TLS.
func NewClientCertificates(cfg ClientCertificatesConfig) (auth.Authenticator, error) {
	kinds := 0
	for _, names := range [][]string{cfg.URIs, cfg.DNSNames, cfg.CommonNames} {
		if len(names) > 0 {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return nil, fmt.Errorf("%d of URIs, DNSNames and CommonNames are set, want one", kinds)
	case cfg.Scopes == 0:
		return nil, errors.New("Scopes is empty")
	}
	if err := subjects.CheckToken("Tenant", cfg.Tenant); err != nil {
		return nil, err
	}
	for _, name := range cfg.URIs {
		if u, err := url.Parse(strings.TrimSuffix(name, "*")); err != nil || u.Scheme == "" || u.Host == "" || strings.Count(name, "*") > 1 ||
			strings.Contains(name, "*") && !strings.HasSuffix(name, "/*") {
			return nil, fmt.Errorf("URIs has %q, want a URI with scheme and host, or the beginning of one and /*", name)
		}
	}
	for _, name := range cfg.DNSNames {
		if rest := strings.TrimPrefix(name, "*."); rest == "" || strings.Contains(rest, "*") || name != strings.ToLower(name) {
			return nil, fmt.Errorf("DNSNames has %q, want a name in lower case, which may begin with *.", name)
		}
	}
	for _, name := range cfg.CommonNames {
		if rest := strings.TrimSuffix(name, "*"); rest == "" || strings.Contains(rest, "*") {
			return nil, fmt.Errorf("CommonNames has %q, want a name, or the beginning of one and *", name)
		}
	}
	if err := checkConfigured(cfg.Scopes, cfg.Sessions, cfg.Views); err != nil {
		return nil, err
	}
	cfg.URIs, cfg.DNSNames, cfg.CommonNames = slices.Clone(cfg.URIs), slices.Clone(cfg.DNSNames), slices.Clone(cfg.CommonNames)
	cfg.Views = slices.Clone(cfg.Views)
	return &clientCertificates{cfg}, nil
}

// Authenticate returns the Grant of a connection, and ErrNoCredential for one without a verified certificate that has a configured name.
func (c *clientCertificates) Authenticate(r *http.Request) (*auth.Grant, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.VerifiedChains[0]) == 0 {
		return nil, auth.ErrNoCredential
	}
	name := c.nameOf(r.TLS.VerifiedChains[0][0])
	if name == "" {
		return nil, auth.ErrNoCredential
	}
	g := &auth.Grant{
		Tenant: c.cfg.Tenant, Subject: name, Scopes: c.cfg.Scopes, Sessions: c.cfg.Sessions, Views: c.cfg.Views,
		ExpiresAt: expiry(r.TLS.VerifiedChains),
	}
	if g.Check() != nil { // such as a name with control characters
		return nil, invalidMember(ReasonCertificate, "name")
	}
	return g, nil
}

// nameOf returns the name of a certificate that is configured, "" if there is none.
func (c *clientCertificates) nameOf(cert *x509.Certificate) string {
	switch {
	case len(c.cfg.URIs) > 0:
		if len(cert.URIs) != 1 { // which of several is meant is not known; SPIFFE refuses them too
			return ""
		}
		if uri := cert.URIs[0].String(); slices.ContainsFunc(c.cfg.URIs, func(pattern string) bool { return matchesBeginning(pattern, uri) }) {
			return uri
		}
	case len(c.cfg.DNSNames) > 0:
		for _, pattern := range c.cfg.DNSNames {
			for _, name := range cert.DNSNames {
				if name = strings.ToLower(name); matchesLabel(pattern, name) {
					return name
				}
			}
		}
	default:
		if name := cert.Subject.CommonName; slices.ContainsFunc(c.cfg.CommonNames, func(pattern string) bool { return matchesBeginning(pattern, name) }) {
			return name
		}
	}
	return ""
}

// matchesBeginning reports whether a name is a pattern, or longer than the beginning that the pattern has before its star.
func matchesBeginning(pattern, name string) bool {
	if beginning, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(name) > len(beginning) && strings.HasPrefix(name, beginning)
	}
	return name == pattern
}

// matchesLabel reports whether a DNS name is a pattern, or has one label in place of its star. A name that is itself a wildcard is no single client.
func matchesLabel(pattern, name string) bool {
	if strings.Contains(name, "*") {
		return false
	}
	if domain, ok := strings.CutPrefix(pattern, "*"); ok {
		label, isBelow := strings.CutSuffix(name, domain)
		return isBelow && label != "" && !strings.Contains(label, ".")
	}
	return name == pattern
}

// expiry returns the time until which one of the chains is valid: that of its certificate that expires first.
func expiry(chains [][]*x509.Certificate) (latest time.Time) {
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
		if first.After(latest) {
			latest = first
		}
	}
	return latest
}
