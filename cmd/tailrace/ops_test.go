package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/certtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// Without NATS the process is alive and ready and its start is not complete, and its metrics show that. The clients' listener has no probe but /healthz.
func TestOps(t *testing.T) {
	edge := startEdge(t)
	natstest.Eventually(t, "the edge", func(context.Context) error {
		if status, body := get(t, edge.ops+"/readyz", ""); status != http.StatusOK {
			return errors.New(body)
		}
		return nil
	})
	for path, want := range map[string]int{
		"/livez": 200, "/healthz": 200, "/readyz": 200, "/startupz": 503, "/metrics": 200, "/debug/pprof/": 404, "/debug/pprof/heap": 404, "/v1/sessions/s1/events": 404,
	} {
		if status, body := get(t, edge.ops+path, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	_, metrics := get(t, edge.ops+"/metrics", "")
	for _, line := range []string{
		`tailrace_build_info{commit="`, `role="edge",version="`, "tailrace_nats_up 0\n", "tailrace_nats_reconnects_total 0\n", `tailrace_nats_async_errors_total{kind="slow_consumer"} 0`,
		`tailrace_dependency_up{dependency="nats"} 0`, "go_goroutines ", "process_open_fds ", "process_max_fds ",
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %q:\n%s", line, metrics)
		}
	}
	if status, _ := get(t, edge.ops+"/metrics", "evil.example"); status != http.StatusMisdirectedRequest {
		t.Errorf("request with an unknown host: status %d", status)
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/startupz"} {
		if status, _ := get(t, edge.url+path, ""); status != http.StatusNotFound {
			t.Errorf("%s on the main listener: status %d", path, status)
		}
	}
	natstest.Eventually(t, "the state of NATS", func(context.Context) error {
		_, body := get(t, edge.ops+"/readyz", "")
		for _, part := range []string{`"ok":true,"checks":{"draining":"ok","hub":"ok"}`, `"feeds":"unknown"`, `"nats":"failed"`, `"TR_CHUNKS_0":"unknown"`} {
			if !strings.Contains(body, part) {
				return fmt.Errorf("no %s in %s", part, body)
			}
		}
		return nil
	})
}

func TestOpsServesProfilesIfEnabled(t *testing.T) {
	edge := startEdge(t, "--pprof")
	for path, want := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/heap": 200, "/debug/pprof/cmdline": 404} {
		if status, _ := get(t, edge.ops+path, ""); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

// If every connection has a request, the next client waits, the probes respond, and the waiting client is served when a connection has none.
func TestFullEdge(t *testing.T) {
	cfg, _, err := load([]string{"--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--drain", "0s", "--nats-url", "nats://127.0.0.1:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := connect(natsauth.Edge, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	edge, err := b.newHTTPServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	edge.listener = httpkit.LimitConnections(edge.listener, 2, edge.server, nil) // the limit of files is that of the test
	active, changed := make(chan string, 100), edge.server.ConnState
	edge.server.ConnState = func(c net.Conn, state http.ConnState) {
		changed(c, state)
		if state == http.StateActive {
			active <- c.RemoteAddr().String()
		}
	}
	edgeAddr, opsURL := edge.listener.Addr().String(), "http://"+edge.ops.listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- edge.run(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	dial := func(text string) net.Conn {
		conn, err := net.Dial("tcp", edgeAddr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	answered := func(conn net.Conn, within time.Duration) bool {
		if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.Contains(line, "200")
	}
	const probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, text := range []string{probe, probe, "", "GET /healthz HTTP/1.1\r\n", probe} { // each one takes the place of the one before it
		if conn := dial(text); text == probe && !answered(conn, 10*time.Second) {
			t.Fatal("no response while the other connections have no request")
		}
	}
	busy := func() net.Conn {
		conn := dial("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n") // the body does not come
		for <-active != conn.LocalAddr().String() {
		}
		return conn
	}
	first := busy()
	busy()
	third := dial(probe)
	if answered(third, 200*time.Millisecond) {
		t.Error("a third connection was accepted")
	}
	if status, body := get(t, opsURL+"/livez", ""); status != http.StatusOK {
		t.Errorf("livez of a full edge: %d %s", status, body)
	}
	first.Close()
	if !answered(third, 10*time.Second) {
		t.Error("no response to the waiting client")
	}
}

// Connections that send nothing, or nothing after a probe, do not keep the probes from being answered, however many there are.
func TestIdleConnectionsToOps(t *testing.T) {
	edge := startEdge(t)
	get(t, edge.ops+"/livez", "") // the edge serves after it has waited for NATS
	for _, sent := range []string{"", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		for range 2 * opsConnections {
			conn, err := net.Dial("tcp", strings.TrimPrefix(edge.ops, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			began := time.Now()
			http.DefaultClient.CloseIdleConnections() // a probe opens a connection each time
			if status, body := get(t, edge.ops+"/livez", ""); status != http.StatusOK {
				t.Errorf("livez: %d %s", status, body)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("livez took %s while connections that sent %q are open", took, sent)
			}
		}
	}
}

func TestTakenPortsAreNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, name := range []string{"--listen", "--ops-listen"} {
		args := []string{"edge", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--nats-url", "nats://127.0.0.1:1", name, taken.Addr().String()}
		if out := tailrace(t, exitError, args...); !strings.Contains(out, "another address with "+name) {
			t.Errorf("%s is taken: %s", name, out)
		}
	}
}

func TestInvalidServerSettingsAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"tls-cert and tls-key": {"--tls-cert", "x"},
		"memory is 0, want":    {"--memory", "0"},
		`origin "*"`:           {"--cors-origins", "*"},
		`origin "null"`:        {"--cors-origins", "https://app.example,null"},
		`--cors-origins: want`: {"--cors-origins", "a,,b"},
		"want host:port":       {"--ops-listen", "4481"},
		"no such file":         {"--tls-cert", "x", "--tls-key", "y"},
		"want a loopback":      {"--listen", "0.0.0.0:0"},
	} {
		all := append([]string{"edge", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--nats-url", "nats://127.0.0.1:1"}, args...)
		if code, _, errs := runCommand(t, "", all...); code == exitOK || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d: %s, want %q", args, code, errs, want)
		}
	}
}

// A setting that cannot be right ends the process with the exit code of a usage error and its name, and without its value if that may have a password.
func TestSettingsThatCannotBeRight(t *testing.T) {
	for _, row := range []struct {
		want string
		args []string
	}{
		{"nats-creds: ", []string{"edge", "--nats-creds", "no-such-file"}},
		{"nats-url: want", []string{"edge", "--nats-url", "http://user:secret@127.0.0.1:1"}},
		{"nats-url: want", []string{"worker", "--nats-url", "nats://127.0.0.1:1,::"}},
		{"nats-url: want", []string{"edge", "--nats-url", "foo://x"}},
		{"nats-url: want", []string{"edge", "--nats-url", "::"}},
		{"nats-url: want", []string{"setup", "--nats-url", "nats://user:se%cret@127.0.0.1:1"}},
		{"listen is", []string{"edge", "--listen", "192.0.2.7:1", "--ops-listen", ""}},
		{"no such file", []string{"edge", "--tls-cert", "no-such-file", "--tls-key", "no-such-file", "--listen", "127.0.0.1:0", "--ops-listen", ""}},
		{"invalid origin", []string{"edge", "--cors-origins", "example", "--listen", "127.0.0.1:0", "--ops-listen", ""}},
		{"want TAILRACE_MODEL", []string{"worker", "--model-url", "http://127.0.0.1:1", "--nats-url", "nats://127.0.0.1:1", "--ops-listen", ""}},
	} {
		code, _, errs := runCommand(t, "", row.args...)
		if code != exitUsage || !strings.Contains(errs, row.want) || strings.Contains(errs, "cret") {
			t.Errorf("%v: exit %d: %s, want %d and %q", row.args, code, errs, exitUsage, row.want)
		}
	}
}

// The edge serves TLS and HTTP/2 with the configured files; every response has the CORS headers.
func TestEdgeOverTLS(t *testing.T) {
	ca := certtest.New(t)
	pair := ca.Server()
	edge := startEdge(t, "--tls-cert", pair.Cert, "--tls-key", pair.Key, "--cors-origins", "https://app.example")
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: ca.ClientConfig()}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, edge.url+"/nowhere", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://app.example")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusNotFound || resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("%s: %s %s %v", edge.url, resp.Proto, resp.Status, resp.Header)
	}
}

// The reserve is kept if there are enough descriptors, and is never all of them.
func TestConnectionLimit(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 0, 1: 1, 256: 128, 512: 256, 1024: 768, 1 << 20: 1<<20 - 256, 1 << 63: 0} {
		if got := connectionLimit(descriptors); got != want {
			t.Errorf("%d descriptors: %d connections, want %d", descriptors, got, want)
		}
	}
	if n := descriptors(); n < 64 {
		t.Errorf("limit of open files of this process is %d", n)
	}
}
