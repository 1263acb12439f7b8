package agentserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// A request that waits for a run to start counts as a stream, and is sent to another
// edge when this one is stopped.
func TestWaitingIsBounded(t *testing.T) {
	w := newEnv(t, func(cfg *edgeConfig) { cfg.edge.Limits.PerSession = 1 })
	if got := w.post("/start", startS1); got.status != http.StatusOK {
		t.Fatalf("start: %s", got)
	}
	ended := make(chan answered)
	wait := func() { ended <- w.ask(http.MethodGet, "/agents/sse?sessionId=s1", "") }
	go wait()
	go wait()
	if got := <-ended; got.String() != "503 TOO_MANY_STREAMS_OF_SESSION" || got.header.Get("Retry-After") == "" {
		t.Errorf("one of two: %s", got)
	}
	if err := w.server.surface.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-ended; got.String() != "503 DRAINING" || got.header.Get("Retry-After") == "" {
		t.Errorf("the other one: %s", got)
	}
	go wait()
	if got := <-ended; got.String() != "503 DRAINING" {
		t.Errorf("one that comes later: %s", got)
	}
	if got := w.status("s1"); got.status != http.StatusOK {
		t.Errorf("status while draining: %s", got)
	}
	leave, p := w.edge.Shared().Streams.Acquire(&http.Request{RemoteAddr: "198.51.100.1:1"}, chunk.RootSession(tenant, "s1"))
	if p != nil {
		t.Fatalf("the place is not free: %v", p)
	}
	leave()
}

// The memory and time for reading requests are limited.
func TestBodiesAreBounded(t *testing.T) {
	w := newEnv(t, func(cfg *edgeConfig) { cfg.edge.BodyBytes = 1 })
	for _, path := range []string{"/start", "/resume", "/submit-tool-result", "/interrupt", "/abort"} {
		if got := w.post(path, startS1); got.String() != "503 TOO_MANY_BODIES" || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s", path, got)
		}
	}

	w = newEnv(t, nil)
	site := httptest.NewUnstartedServer(nil)
	site.Config = httpkit.NewServer(httpkit.ServerConfig{BodyTimeout: 300 * time.Millisecond}, w.server.surface)
	site.Start()
	defer site.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", site.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const head = "POST /agents/start HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), httpkit.CodeBodyTimeout) {
		t.Errorf("a body that does not come: %d %s, %v", resp.StatusCode, text, err)
	}
	if n := w.edge.Shared().Bodies.InUse(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// Each route has a name for the metrics.
func TestRouteNames(t *testing.T) {
	server := newEnv(t, nil).server
	for path, want := range map[string]string{
		"/agents/start": "agents_start", "/agents/sse": "agents_sse", "/agents/submit-tool-result": "agents_submit_tool_result", "/agents/other": "agents_other",
	} {
		if got := server.surface.Name(httptest.NewRequest(http.MethodGet, path, nil)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
