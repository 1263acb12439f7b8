package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// While NATS is unreachable, requests that need it are refused at once with 503 and Retry-After instead of after their timeouts. An EventSource gets a retry
// time as before. When NATS is back, requests are served again.
func TestUnreachableNATS(t *testing.T) {
	server := streamtest.Start(t)
	edge := startEdge(t, "--nats-url", server.URL, "--chat-agent", "demo", "--agent-server", "/agents")
	request := func(method, path, body string, header map[string]string) (status int, retryAfter, text string, took time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		begun := time.Now()
		resp, err := do(ctx, method, edge.url+path, body, header)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK { // otherwise it can be a stream
			all, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			text = string(all)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After"), text, time.Since(begun)
	}
	served := func() {
		t.Helper()
		natstest.Eventually(t, "an accepted message", func(context.Context) error {
			if status, _, text, _ := request("POST", "/api/chat", chatPost, nil); status != http.StatusOK {
				return fmt.Errorf("%d %s", status, text)
			}
			return nil
		})
		if status, _, text, _ := request("GET", "/v1/sessions", "", nil); status != http.StatusOK {
			t.Errorf("the list: %d %s", status, text)
		}
	}
	served()
	server.Shutdown()
	natstest.Eventually(t, "a refusal at once", func(context.Context) error {
		if status, _, text, took := request("GET", "/v1/sessions", "", nil); status != http.StatusServiceUnavailable || took > time.Second {
			return fmt.Errorf("%d %s after %s", status, text, took)
		}
		return nil
	})
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/api/chat", chatPost},
		{"POST", "/api/chat/s1/stop", "{}"},
		{"GET", "/api/chat/s1/stream", ""},
		{"GET", "/api/chat/s1/snapshot", ""},
		{"GET", "/v1/sessions", ""},
		{"GET", "/v1/sessions/s1/messages", ""},
		{"GET", "/v1/sessions/s1/snapshot", ""},
		{"GET", "/v1/sessions/s1/tree", ""},
		{"POST", "/agents/start", `{"agentType":"demo","sessionId":"s2","message":"hi"}`},
		{"GET", "/agents/status?sessionId=s1", ""},
	} {
		status, retryAfter, text, took := request(tt.method, tt.path, tt.body, nil)
		retry, err := strconv.Atoi(retryAfter)
		if status != http.StatusServiceUnavailable || !strings.Contains(text, `"code":"UNAVAILABLE"`) || err != nil || retry < 1 || took > time.Second {
			t.Errorf("%s %s: %d %s, Retry-After %q, after %s", tt.method, tt.path, status, text, retryAfter, took)
		}
	}
	if status, _, text, _ := request("GET", "/healthz", "", nil); status != http.StatusOK {
		t.Errorf("healthz: %d %s", status, text)
	}
	status, _, text, took := request("GET", "/v1/sessions/s3/events", "", map[string]string{"Accept": "text/event-stream", "Cache-Control": "no-cache"})
	if status != http.StatusOK || took < time.Second {
		t.Errorf("an EventSource: %d %s after %s", status, text, took)
	}
	if _, metrics := get(t, edge.ops+"/metrics", ""); !strings.Contains(metrics, `tailrace_chat_posts_total{outcome="unavailable"} 1`) {
		t.Error("the refused message is not counted")
	}
	server.Restart(t)
	served()
}
