package httpedge_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/certtest"
)

// A stream of a client certificate ends after a complete event before the certificate expires, which the open connection does not check. A new connection with
// the expired certificate is refused.
func TestStreamsEndBeforeTheCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lifetime = 10 * time.Minute
		ca, registry := certtest.New(t), prometheus.NewRegistry()
		agents, err := authn.NewClientCertificates(authn.ClientCertificatesConfig{
			CommonNames: []string{"agent-*"}, Tenant: "default", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		w := newEnv(t, envConfig{edge: httpedge.Config{Authenticator: agents, Metrics: registry}})
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
		began := time.Now()
		pair := ca.Issue(&x509.Certificate{
			Subject: pkix.Name{CommonName: "agent-1"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotAfter: began.Add(lifetime),
		})
		client := serveTLS(t, w, ca, pair.Load(t))
		ctx, cancel := context.WithTimeout(t.Context(), 2*lifetime)
		defer cancel()
		get := func() (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost/v1/sessions/s1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			return client.Do(req)
		}
		resp, err := get()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || err == nil || !strings.HasSuffix(string(body), "\n\n") {
			t.Errorf("status %d, the end is %v, %q", resp.StatusCode, err, body[max(0, len(body)-80):])
		}
		if took := time.Since(began); took > lifetime || took < lifetime-30*time.Second {
			t.Errorf("ended after %s of %s", took, lifetime)
		}
		if got := endsOf(t, registry); got["expired"] != 1 {
			t.Errorf("the streams ended for %v", got)
		}
		sleep(time.Minute)
		if resp, err := get(); err == nil {
			resp.Body.Close()
			t.Errorf("the expired certificate gets %d", resp.StatusCode)
		}
	})
}

// serveTLS serves the edge on TLS connections in memory, and returns a client with a certificate of an authority that the server trusts.
func serveTLS(t *testing.T, w *env, ca *certtest.CA, cert tls.Certificate) *http.Client {
	t.Helper()
	served := ca.Server()
	config, err := httpkit.ReloadingTLSConfig(served.Cert, served.Key, nil)
	if err == nil {
		config, err = httpkit.VerifyClients(config, ca.File, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	server, listener := httpkit.NewServer(httpkit.ServerConfig{TLS: config}, w.edge), newMemoryListener()
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	transport := &http.Transport{
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return listener.dial() },
		TLSClientConfig: ca.ClientConfig(cert), DisableCompression: true,
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &http.Client{Transport: transport}
}
