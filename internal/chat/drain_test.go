package chat

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// SIGTERM: new streams and messages are rejected; the open streams are closed one after the other, each after a complete event, and a page gets the rest at
// another edge. Short requests are completed.
func TestDrainIsGradual(t *testing.T) {
	const pages = 8
	w := newEnv(t)
	one, two := w.newEdge(func(cfg *edgeConfig) { cfg.edge.DrainPeriod = time.Hour }), w.newEdge(nil)
	gate := make(chan struct{})
	w.work(slowly(gate))
	message := chatBody("", user("u1", "hi"))
	ends := make(chan *streaming, pages)
	for range pages {
		page := one.open(http.MethodPost, "", message, nil)
		page.until("text-delta(Hello )")
		go func() {
			if err := page.broken(); err == nil {
				t.Error("the response ended cleanly in the middle of an answer")
			}
			ends <- page
		}()
	}
	ctx, stop := context.WithCancel(t.Context())
	drained := make(chan error, 1)
	go func() { drained <- one.service.surface.Drain(ctx) }()
	first := <-ends // the others are closed within the hour
	for range 2 {
		resp, err := one.try(http.MethodPost, "", message, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !resp.Close {
			t.Errorf("a message while draining is %d with %v", resp.StatusCode, resp.Header)
		}
	}
	if got := one.get("", nil); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, httpkit.CodeDraining) {
		t.Errorf("a page that comes back while draining gets %s", got)
	}
	if got := one.page(); got != "active: msg-0 user" {
		t.Errorf("the snapshot while draining is %q", got)
	}
	if got := one.post("/answers", `{"toolCallId":"c9","result":1}`); !strings.HasPrefix(got, "404 ") {
		t.Errorf("an answer while draining is %s", got)
	}
	if n := one.service.surface.Streams.Len(); n != pages-1 {
		t.Errorf("%d pages are there, want %d: they come to the other edges all at once", n, pages-1)
	}
	stop() // no time left
	last := first
	for range pages - 1 {
		last = <-ends
	}
	if err := <-drained; err != nil && !strings.Contains(err.Error(), "streams still open") {
		t.Error(err)
	}
	if err := one.service.surface.Drain(t.Context()); err != nil {
		t.Errorf("draining twice: %v", err)
	}
	back := two.open(http.MethodGet, "/stream", "", http.Header{"X-Resume-From-Sequence": {last.id}})
	close(gate)
	want(t, back.rest(), "text-delta(world) text-end finish-step finish(stop) DONE")
	want(t, two.post("", message), whole("msg-1"))
	w.handledAre("execute")
}

// stuck is a log whose reads do not return.
type stuck struct{ asked chan struct{} }

func (l stuck) Follow(ctx context.Context, _ chunk.Session, _ chunk.Position, _ chunk.Seq) (recordStream, error) {
	select {
	case l.asked <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A page whose stream has not started yet is sent to another edge, too, with its message.
func TestDrainBeforeTheStreamStarts(t *testing.T) {
	w := newEnv(t)
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		log := stuck{make(chan struct{})}
		e := w.newEdge(func(cfg *edgeConfig) { cfg.follow = log.Follow })
		body := ""
		if method == http.MethodPost {
			body = chatBody("", user("u1", "hi"))
		}
		got := make(chan string)
		go func() { got <- e.do(method, "", body, nil) }()
		<-log.asked
		if err := e.service.surface.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-got; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, httpkit.CodeDraining) {
			t.Errorf("a %s that waits gets %s", method, got)
		}
	}
	w.work(answer)
	want(t, w.newEdge(nil).post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
	w.handledAre("execute")
}
