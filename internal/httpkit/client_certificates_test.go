package httpkit_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/certtest"
)

// agents accepts certificates whose common name begins with agent-.
func agents(t *testing.T) auth.Authenticator {
	t.Helper()
	c, err := authn.NewClientCertificates(authn.ClientCertificatesConfig{
		CommonNames: []string{"agent-*"}, Tenant: "acme", Scopes: auth.ScopeIngest, Sessions: auth.Sessions{All: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tlsServer is a server with TLS that verifies client certificates, as an edge does, and responds with the subject of its client.
type tlsServer struct {
	url string
	ca  *certtest.CA // of the server
}

func newTLSServer(t *testing.T, a auth.Authenticator, clientCA string) tlsServer {
	t.Helper()
	ca := certtest.New(t)
	pair := ca.Server()
	cfg, err := httpkit.ReloadingTLSConfig(pair.Cert, pair.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if clientCA != "" {
		if cfg, err = httpkit.VerifyClients(cfg, clientCA, nil); err != nil {
			t.Fatal(err)
		}
	}
	server := httpkit.NewServer(httpkit.ServerConfig{TLS: cfg}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g, err := a.Authenticate(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.Header().Set("Subject", g.Subject)
		if r.TLS.DidResume {
			w.Header().Set("Resumed", "yes")
		}
	}))
	listener, err := httpkit.Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return tlsServer{"https://" + listener.Addr().String(), ca}
}

// get sends a request on a connection of its own.
func (s tlsServer) get(t *testing.T, cfg *tls.Config, h2 bool, header http.Header) (*http.Response, error) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetHTTP2(h2)
	transport := &http.Transport{TLSClientConfig: cfg, Protocols: protocols}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	resp, err := transport.RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}

// Real handshakes, with HTTP/1.1 and HTTP/2: a certificate of the authority is its client; invalid ones end the handshake; nothing in a header counts.
func TestClientCertificatesOverTLS(t *testing.T) {
	clients, others := certtest.New(t), certtest.New(t)
	chain, err := authn.NewChain(authn.ChainConfig{Fallbacks: []auth.Authenticator{agents(t)}})
	if err != nil {
		t.Fatal(err)
	}
	s := newTLSServer(t, chain, clients.File)
	unverified := newTLSServer(t, chain, "")
	agent := pkix.Name{CommonName: "agent-1"}
	right := clients.Client("agent-1").Load(t)
	for name, tt := range map[string]struct {
		server tlsServer
		cert   []tls.Certificate
		header http.Header
		want   int // 0 is a failed handshake
	}{
		"right":               {s, []tls.Certificate{right}, nil, 200},
		"none":                {s, nil, nil, 401},
		"another name":        {s, []tls.Certificate{clients.Client("worker-1").Load(t)}, nil, 401},
		"another authority":   {s, []tls.Certificate{others.Client("agent-1").Load(t)}, nil, 0},
		"expired":             {s, []tls.Certificate{clients.Issue(&x509.Certificate{Subject: agent, NotAfter: time.Now().Add(-time.Minute), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}).Load(t)}, nil, 0},
		"for servers":         {s, []tls.Certificate{clients.Issue(&x509.Certificate{Subject: agent, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}).Load(t)}, nil, 0},
		"the server's own CA": {s, []tls.Certificate{s.ca.Client("agent-1").Load(t)}, nil, 0},
		"in headers": {s, nil, http.Header{
			"X-Forwarded-Client-Cert": {"Subject=\"CN=agent-1\";URI=spiffe://prod.example/agents/a"}, "X-Ssl-Client-S-Dn": {"CN=agent-1"}, "X-Ssl-Client-Verify": {"SUCCESS"},
			"Client-Cert": {":MIIB:"}}, 401},
		"not asked for": {unverified, []tls.Certificate{right}, nil, 401},
	} {
		for _, h2 := range []bool{false, true} {
			cfg := tt.server.ca.ClientConfig()
			if tt.cert != nil {
				// Also a certificate that the server does not ask for is sent.
				cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tt.cert[0], nil }
			}
			resp, err := tt.server.get(t, cfg, h2, tt.header.Clone()) //nolint:bodyclose // get has closed it
			switch {
			case tt.want == 0:
				if err == nil {
					t.Errorf("%s, HTTP/2 %t: %s", name, h2, resp.Status)
				}
			case err != nil:
				t.Errorf("%s, HTTP/2 %t: %v", name, h2, err)
			case resp.StatusCode != tt.want || resp.ProtoMajor == 2 != h2 || tt.want == 200 && resp.Header.Get("Subject") != "agent-1":
				t.Errorf("%s, HTTP/2 %t: %s %s %v", name, h2, resp.Proto, resp.Status, resp.Header)
			}
		}
	}
}

// The header decides alone: a bad token does not fall back to the certificate, and a good one wins over it.
func TestHeaderWinsOverClientCertificate(t *testing.T) {
	clients := certtest.New(t)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := authn.NewSessionTokens(authn.SessionTokensConfig{Issuer: authtest.Name, Audience: authtest.Audience, Keys: []authn.PublicKey{{ID: "k", Key: public}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	chain, err := authn.NewChain(authn.ChainConfig{Verifiers: []authn.Verifier{tokens}, Fallbacks: []auth.Authenticator{agents(t)}})
	if err != nil {
		t.Fatal(err)
	}
	minter, err := auth.NewMinter(auth.MinterConfig{Issuer: authtest.Name, Audience: authtest.Audience, KeyID: "k", Key: private})
	if err != nil {
		t.Fatal(err)
	}
	minted, err := minter.Mint(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	s := newTLSServer(t, chain, clients.File)
	cfg := s.ca.ClientConfig(clients.Client("agent-1").Load(t))
	for header, want := range map[string]string{"": "agent-1", "Bearer " + minted.Token: "ann", "Bearer " + minted.Token + "x": "", "Basic YTpi": ""} {
		h := http.Header{}
		if header != "" {
			h.Set("Authorization", header)
		}
		resp, err := s.get(t, cfg, true, h) //nolint:bodyclose // get has closed it
		if err != nil || resp.Header.Get("Subject") != want || (resp.StatusCode == http.StatusOK) != (want != "") {
			t.Errorf("%.12s: %v, %v, want %q", header, resp, err, want)
		}
	}
}

// An authority that is removed from the file is not accepted from the next handshake on, not even to resume a session; a broken file changes nothing.
func TestClientAuthoritiesAreReloaded(t *testing.T) {
	first, second := certtest.New(t), certtest.New(t)
	s := newTLSServer(t, agents(t), first.File)
	cfg := s.ca.ClientConfig(first.Client("agent-1").Load(t))
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for _, resumed := range []string{"", "yes"} {
		if resp, err := s.get(t, cfg, false, nil); err != nil || resp.Header.Get("Subject") != "agent-1" || resp.Header.Get("Resumed") != resumed { //nolint:bodyclose // get has closed it
			t.Fatalf("%v, %v, want resumed %q", resp, err, resumed)
		}
	}
	writeFile(t, first.File, []byte("broken"))
	if resp, err := s.get(t, cfg, false, nil); err != nil || resp.Header.Get("Subject") != "agent-1" { //nolint:bodyclose // get has closed it
		t.Errorf("after a broken file: %v, %v", resp, err)
	}
	writeFile(t, first.File, readFile(t, second.File))
	if resp, err := s.get(t, cfg, false, nil); err == nil { //nolint:bodyclose // get has closed it
		t.Errorf("authority removed: %s %v", resp.Status, resp.Header)
	}
	if resp, err := s.get(t, s.ca.ClientConfig(second.Client("agent-2").Load(t)), true, nil); err != nil || resp.Header.Get("Subject") != "agent-2" { //nolint:bodyclose // get has closed it
		t.Errorf("authority added: %v, %v", resp, err)
	}
}
