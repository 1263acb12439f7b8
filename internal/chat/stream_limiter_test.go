package chat

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// A request without a free stream is refused before it has an effect.
func TestRefusedMessageHasNoEffect(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.Limits = httpkit.Limits{Streams: 1} })
	e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil).until("start(msg-1)")
	e.base = "/api/chat/other"
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.HasPrefix(got, "503 ") {
		t.Errorf("a message is %s", got)
	}
	if got := e.get("/snapshot", nil); !strings.HasPrefix(got, "404 ") {
		t.Errorf("the session exists: %s", got)
	}
}

// A request for an unknown agent is refused for that, also without a free stream and while the edge is drained: to repeat it elsewhere would not help.
func TestUnknownAgentBeforeTheLimits(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.Limits = httpkit.Limits{Streams: 1} })
	e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil).until("start(msg-1)")
	e.base = "/api/chat/other"
	unknown := chatBody(`,"agentType":"other"`, user("u1", "hi"))
	if got := e.post("", unknown); !strings.HasPrefix(got, "400 ") {
		t.Errorf("with a full limiter: %s, want 400", got)
	}
	if err := e.service.surface.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := e.post("", unknown); !strings.HasPrefix(got, "400 ") {
		t.Errorf("while the edge is drained: %s, want 400", got)
	}
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.HasPrefix(got, "503 ") {
		t.Errorf("a known agent while the edge is drained: %s, want 503", got)
	}
}

// A client cannot have more chats open than the streams of an address, whatever address it claims without a trusted proxy, and whether it posts or only loads a
// page.
func TestLimitOfAnAddress(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) {
		cfg.edge.Limits, cfg.edge.TrustedProxies = httpkit.Limits{PerAddress: 1}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	from := func(address string) http.Header { return http.Header{"X-Forwarded-For": {address}} }
	refused := func(what, got string) {
		t.Helper()
		if !strings.HasPrefix(got, "503 ") || !strings.Contains(got, `"code":"TOO_MANY_STREAMS_OF_ADDRESS"`) {
			t.Errorf("%s is %s", what, got)
		}
	}
	message := chatBody("", user("u1", "hi"))
	one := e.open(http.MethodPost, "", message, from("198.51.100.1"))
	one.until("start(msg-1)")
	refused("a second tab", e.do(http.MethodGet, "", "", from("198.51.100.1")))
	refused("the same message", e.do(http.MethodPost, "", message, from("203.0.113.9, 198.51.100.1")))
	e.open(http.MethodGet, "", "", from("198.51.100.2")).until("start(msg-1)")
	e.base = "/api/chat/other"
	refused("another chat", e.do(http.MethodPost, "", message, from("198.51.100.2")))
	want(t, e.do(http.MethodGet, "", "", from("198.51.100.2")), "204") // nothing to show, and no open stream
	if got := e.get("/snapshot", nil); !strings.HasPrefix(got, "404 ") {
		t.Errorf("the session exists: %s", got)
	}
	e.base = ""
	w.work(answer)
	want(t, "start(msg-1) "+one.rest(), whole("msg-1"))
	want(t, e.do(http.MethodPost, "", message, from("198.51.100.1")), whole("msg-1")) // the place is released
}

// Chats and the event streams of the same edge share one limiter.
func TestLimiterIsShared(t *testing.T) {
	w := newEnv(t)
	w.work(answer)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.Limits.PerSession = 1 })
	leave, err := e.front.Shared().Streams.Acquire(&http.Request{RemoteAddr: "198.51.100.1:1"}, chunk.RootSession("acme", "s1"))
	if err != nil {
		t.Fatal(err)
	}
	message := chatBody("", user("u1", "hi"))
	if got := e.post("", message); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, `"code":"TOO_MANY_STREAMS_OF_SESSION"`) {
		t.Errorf("one too many is %s", got)
	}
	leave()
	for range 3 { // however a response ends, its place is released
		want(t, e.post("", message), whole("msg-1"))
		e.post("", chatBody("", user("u9", "hi"), user("u1", "hi")))
		e.post("", chatBody(`,"agentType":"other"`, user("u1", "hi")))
	}
}
