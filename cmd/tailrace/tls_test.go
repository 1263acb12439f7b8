package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/certtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
)

// getTLS sends a request on a connection of its own.
func getTLS(t *testing.T, cfg *tls.Config, address string) (status int, server *tls.ConnectionState, err error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.TLS, err
}

// The ops listener serves TLS. With authorities of clients, metrics and profiles need a certificate; the probes, which the kubelet asks without one, do not.
func TestOpsOverTLS(t *testing.T) {
	ca, scrapers, others := certtest.New(t), certtest.New(t), certtest.New(t)
	pair := ca.Server()
	edge := startEdge(t, "--pprof", "--tls-cert", pair.Cert, "--tls-key", pair.Key, "--ops-tls-client-ca", scrapers.File)
	if !strings.HasPrefix(edge.ops, "https://") {
		t.Fatalf("ops server at %s", edge.ops)
	}
	anyone, scraper := ca.ClientConfig(), ca.ClientConfig(scrapers.Client("prometheus").Load(t))
	for path, want := range map[string][2]int{"/livez": {200, 200}, "/readyz": {200, 200}, "/startupz": {503, 503}, "/metrics": {403, 200}, "/debug/pprof/": {403, 200}, "/debug/pprof/trace?seconds=0.01": {403, 200}, "/debug/pprof/profile?seconds=1": {403, 200}} {
		for i, cfg := range []*tls.Config{anyone, scraper} {
			if status, _, err := getTLS(t, cfg, edge.ops+path); err != nil || status != want[i] {
				t.Errorf("%s, certificate %t: %d, %v, want %d", path, i == 1, status, err, want[i])
			}
		}
	}
	other := others.Client("prometheus").Load(t)
	forced := ca.ClientConfig()
	forced.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &other, nil }
	if status, _, err := getTLS(t, forced, edge.ops+"/metrics"); err == nil {
		t.Errorf("certificate of another authority: %d", status)
	}
	if status, _, err := getTLS(t, anyone, "http://"+strings.TrimPrefix(edge.ops, "https://")+"/livez"); err != nil || status != http.StatusBadRequest {
		t.Errorf("without TLS: %d, %v", status, err)
	}
	renewed := ca.Server()
	serial := renewed.Load(t).Leaf.SerialNumber
	pair.Replace(t, renewed)
	if _, server, err := getTLS(t, anyone, edge.ops+"/livez"); err != nil || server.PeerCertificates[0].SerialNumber.Cmp(serial) != 0 {
		t.Errorf("renewed certificate: %v", err)
	}
}

// A certificate is a credential of the edge, as the file of authenticators maps it.
func TestEdgeWithClientCertificates(t *testing.T) {
	ca, agents := certtest.New(t), certtest.New(t)
	pair := ca.Server()
	file := writeFile(t, "auth.json", `{"clientCertificates": [
		{"uris": ["spiffe://prod.example/agents/*"], "tenant": "acme", "scopes": "read chat", "sessions": "all"},
		{"commonNames": ["reader"], "tenant": "acme", "scopes": "ingest", "sessions": "u-*"}]}`)
	s := stack.Start(t, stack.Options{})
	edge := startEdge(t, "--nats-url", s.Server.URL, "--nats-nkey", s.Users.Seed(natsauth.Edge), "--auth", file, "--tls-cert", pair.Cert, "--tls-key", pair.Key, "--tls-client-ca", agents.File)
	id, err := url.Parse("spiffe://prod.example/agents/a")
	if err != nil {
		t.Fatal(err)
	}
	agent := agents.Issue(&x509.Certificate{URIs: []*url.URL{id}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	natstest.Eventually(t, "the revocations", func(context.Context) error {
		if status, body := get(t, edge.ops+"/readyz", ""); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	for name, tt := range map[string]struct {
		cfg  *tls.Config
		want int
	}{
		"agent":        {ca.ClientConfig(agent.Load(t)), http.StatusBadRequest},
		"reader":       {ca.ClientConfig(agents.Client("reader").Load(t)), http.StatusForbidden},
		"another name": {ca.ClientConfig(agents.Client("other").Load(t)), http.StatusUnauthorized},
		"none":         {ca.ClientConfig(), http.StatusUnauthorized},
	} {
		if status, _, err := getTLS(t, tt.cfg, edge.url+"/v1/sessions?limit=x"); err != nil || status != tt.want {
			t.Errorf("%s: %d, %v, want %d", name, status, err, tt.want)
		}
	}
	if status, body := get(t, edge.ops+"/metrics", ""); status != http.StatusOK {
		t.Errorf("metrics without authorities of clients: %d %s", status, body)
	}
}

// Settings that would not protect what they seem to are refused.
func TestTLSSettings(t *testing.T) {
	ca := certtest.New(t)
	pair := ca.Server()
	certificates := writeFile(t, "auth.json", `{"clientCertificates": [{"commonNames": ["a"], "tenant": "acme", "scopes": "read", "sessions": "own"}]}`)
	proxies := writeFile(t, "auth.json", `{"proxies": [{"networks": ["192.0.2.7"], "subjectHeader": "X-User", "tenant": "acme", "scopes": "read", "sessions": "own"}]}`)
	edge := []string{"--tls-cert", pair.Cert, "--tls-key", pair.Key}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--tls-client-ca", ca.File, "--auth", certificates}, "tls-client-ca needs tls-cert"},
		{append([]string{"--tls-client-ca", ca.File}, edge...), "auth is empty"},
		{append([]string{"--tls-client-ca", ca.File, "--auth", proxies}, edge...), "go together"},
		{append([]string{"--auth", certificates}, edge...), "go together"},
		{append([]string{"--tls-client-ca", pair.Key, "--auth", certificates}, edge...), "no certificate"},
		{[]string{"--tls-cert", pair.Cert}, "tls-cert and tls-key"},
		{[]string{"--ops-tls-client-ca", ca.File}, "ops-tls-client-ca needs"},
		{append([]string{"--ops-tls-client-ca", pair.Key}, edge...), "ops-tls"},
	} {
		all := append([]string{"edge", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--nats-url", "nats://127.0.0.1:1"}, tt.args...)
		if code, _, errs := runCommand(t, "", all...); code == exitOK || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, %s, want %q", tt.args, code, errs, tt.want)
		}
	}
}

// tlsConfigOf returns the configuration of a NATS server that requires client certificates of an authority.
func tlsConfigOf(pair certtest.Pair, clients *certtest.CA) string {
	return fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true, timeout: 5 }", pair.Cert, pair.Key, clients.File)
}

// natsApp connects as a role does, and returns what it logs.
func natsApp(t *testing.T, args ...string) (*app, *outputtest.Buffer) {
	t.Helper()
	cfg, _, err := arguments(terminal{}, "edge", args, nil)
	if err != nil {
		t.Fatal(err)
	}
	logged := new(outputtest.Buffer)
	b, err := connect(natsauth.Edge, cfg, cfg.logger(logged))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b, logged
}

// awaitClient waits until the server whose monitoring is at address has a connection with a client certificate.
func awaitClient(t *testing.T, address, name string) {
	t.Helper()
	natstest.Eventually(t, "a connection of "+name, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/connz?auth=1", nil)
		if err != nil {
			return err
		}
		resp, err := new(http.Transport).RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		conns, err := io.ReadAll(resp.Body)
		if err == nil && !strings.Contains(string(conns), fmt.Sprintf(`"subject": "CN=%s`, name)) {
			err = fmt.Errorf("connections: %s", conns)
		}
		return err
	})
}

// A process connects with its client certificate, and with the renewed one after a reconnect. While the files do not fit it retries.
func TestNATSMutualTLS(t *testing.T) {
	t.Parallel()
	ca, clients := certtest.New(t), certtest.New(t)
	monitor := fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t))
	config := func(pair certtest.Pair) string { return tlsConfigOf(pair, clients) + "\nhttp: " + monitor }
	srv := natstest.Start(t, natstest.ServerConfig(config(ca.Server())))
	pair := clients.Client("first")
	b, logged := natsApp(t, "--nats-url", srv.URL, "--nats-context", contextFile(t, map[string]string{"ca": ca.File, "cert": pair.Cert, "key": pair.Key}))
	awaitClient(t, monitor, "first")

	pair.Replace(t, clients.Client("second"))
	if err := b.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	awaitClient(t, monitor, "second")

	third := clients.Client("third")
	if err := os.Rename(third.Cert, pair.Cert); err != nil { // the key is still that of the second one
		t.Fatal(err)
	}
	if err := b.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the reason in the log", func(context.Context) error {
		if text := logged.String(); !strings.Contains(text, "nats connect failed") || !strings.Contains(text, "private key does not match public key") {
			return errors.New(text)
		}
		return nil
	})
	if err := os.Rename(third.Key, pair.Key); err != nil {
		t.Fatal(err)
	}
	awaitClient(t, monitor, "third")

	// The authority of the server is replaced, in the file of the client too.
	next := certtest.New(t)
	if err := os.Rename(next.File, ca.File); err != nil {
		t.Fatal(err)
	}
	srv.Reload(t, config(next.Server()))
	if err := b.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	awaitClient(t, monitor, "third")
}

// A process that cannot connect logs why.
func TestNATSMutualTLSRefused(t *testing.T) {
	ca, clients, others := certtest.New(t), certtest.New(t), certtest.New(t)
	srv := natstest.Start(t, natstest.ServerConfig(tlsConfigOf(ca.Server(), clients)))
	right, wrong := clients.Client("a"), others.Client("a")
	for name, tt := range map[string]struct {
		members map[string]string
		want    string
	}{
		"no certificate":                   {map[string]string{"ca": ca.File}, "certificate required"},
		"certificate of another authority": {map[string]string{"ca": ca.File, "cert": wrong.Cert, "key": wrong.Key}, "unknown certificate authority"},
		"another authority of the server":  {map[string]string{"ca": others.File, "cert": right.Cert, "key": right.Key}, "signed by unknown authority"},
		"authorities of the system":        {map[string]string{"cert": right.Cert, "key": right.Key}, "signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			b, logged := natsApp(t, "--nats-url", srv.URL, "--nats-context", contextFile(t, tt.members))
			natstest.Eventually(t, "the reason in the log", func(context.Context) error {
				if !strings.Contains(logged.String(), tt.want) {
					return fmt.Errorf("want %q: %s", tt.want, logged.String())
				}
				return nil
			})
			if b.nc.IsConnected() {
				t.Error("connected")
			}
		})
	}
	for name, members := range map[string]map[string]string{
		"files that do not fit": {"cert": right.Cert, "key": wrong.Key},
		"no such authority":     {"ca": "/does/not/exist"},
		"no certificate in it":  {"ca": right.Key},
	} {
		cfg, _, err := arguments(terminal{}, "edge", []string{"--nats-url", srv.URL, "--nats-context", contextFile(t, members)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := connect(natsauth.Edge, cfg, cfg.logger(io.Discard)); err == nil {
			b.close()
			t.Errorf("%s: no error", name)
		}
	}
}
