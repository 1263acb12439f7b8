package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/producers"
)

// Chats and the agent server share the limits and the metrics of the edge.
func TestLimitsAreShared(t *testing.T) {
	server := streamtest.Start(t)
	writer, err := producers.New(server.JetStream(t), producers.Config{Positions: producers.NoPositions})
	if err != nil {
		t.Fatal(err)
	}
	run, err := writer.Start(t.Context(), chunk.RootSession("default", "s1"), chunk.RunStarted{Mode: "execute"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(run.Close(), writer.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	edge := startEdge(t, "--nats-url", server.URL, "--agent-server", "/agents", "--limits", writeFile(t, "limits.json", `{"address": {"streams": 1}}`))
	awaitStart(t, edge.ops)
	ask := func(ctx context.Context, method, path, body string) (int, string, error) {
		status, _, text, err := read(ctx, method, edge.url+path, body, nil)
		return status, text, err
	}
	refused := func(what string, status int, text string, err error) {
		t.Helper()
		if status != http.StatusServiceUnavailable || !strings.Contains(text, `"TOO_MANY_STREAMS_OF_ADDRESS"`) || err != nil {
			t.Errorf("%s: %d %s, %v", what, status, text, err)
		}
	}
	// Of two streams of one address one gets the slot.
	ctx, leave := context.WithCancel(t.Context())
	type answer struct {
		status int
		text   string
		err    error
	}
	answers := make(chan answer)
	for range 2 {
		go func() {
			status, text, err := ask(ctx, http.MethodGet, "/agents/sse?sessionId=s1", "")
			answers <- answer{status, text, err}
		}()
	}
	first := <-answers
	refused("one of two", first.status, first.text, first.err)
	for _, request := range []struct{ method, path, body string }{
		{http.MethodPost, "/api/chat", `{"id":"s1","messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"hi"}]}]}`},
		{http.MethodGet, "/v1/sessions/s1/events", ""},
		{http.MethodGet, "/agents/sse?sessionId=s2", ""},
	} {
		status, text, err := ask(t.Context(), request.method, request.path, request.body)
		refused(request.path, status, text, err)
	}
	leave()
	<-answers
	if status, text, err := ask(t.Context(), http.MethodPost, "/api/chat", "{}"); status != http.StatusBadRequest {
		t.Errorf("no message: %d %s, %v", status, text, err)
	}
	_, metrics := get(t, edge.ops+"/metrics", "")
	for _, line := range []string{
		`tailrace_requests_total{code="503",route="chat_post"} 1`, `tailrace_requests_total{code="400",route="chat_post"} 1`,
		`tailrace_requests_total{code="503",route="events"} 1`,
		`tailrace_chat_posts_total{outcome="too_many_streams_of_address"} 1`, `tailrace_chat_posts_total{outcome="validation_error"} 1`,
		`tailrace_chat_streams 0`, `tailrace_chat_body_bytes 0`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
	if !strings.Contains(metrics, `tailrace_requests_total{code="503",route="agents_sse"} `) {
		t.Error("requests to the agent server are not counted")
	}
}
