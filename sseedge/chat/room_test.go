package chat

import (
	"net/http"
	"strings"
	"testing"
)

// What an edge has no room for it does not do either.
func TestNothingIsDoneBehindARefusal(t *testing.T) {
	w := newWorld(t)
	e := w.newEdge(func(cfg *Config) { cfg.MaxStreams = 1 })
	e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil).until("start(msg-1)")
	e.base = "/api/chat/other"
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.HasPrefix(got, "503 ") {
		t.Errorf("a message is %s", got)
	}
	if got := e.get("/snapshot", nil); !strings.HasPrefix(got, "404 ") {
		t.Errorf("the chat has begun: %s", got)
	}
}
