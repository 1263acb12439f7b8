package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
)

const chatPost = `{"id":"s1","trigger":"submit-message","messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"hi"}]}]}`

// While the log cannot be written, because the server is full or has failed to write its files, a chat is refused with its code at once, and a metric shows
// the stream. A full server recovers without a restart.
func TestStorageFailure(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, js jetstream.JetStream, dir string){
		"full": func(t *testing.T, js jetstream.JetStream, _ string) {
			t.Helper()
			for err := error(nil); err == nil; {
				_, err = js.Publish(t.Context(), "fill", make([]byte, 100<<10), jetstream.WithRetryAttempts(0))
			}
		},
		"write error": func(t *testing.T, js jetstream.JetStream, dir string) {
			t.Helper()
			natstest.BreakStream(t, js, dir, "TR_CHUNKS_0", "tr.chunks.0.default.s2.s2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := natstest.Start(t, natstest.StoreDir(dir), natstest.MaxStore(48<<20))
			js := server.JetStream(t)
			fill, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILL", Subjects: []string{"fill"}})
			if err != nil {
				t.Fatal(err)
			}
			streamtest.Ensure(t, js, topology.Config{DeadLetters: topology.Limits{MaxBytes: 1 << 20}})
			edge := startEdge(t, "--nats-url", server.URL)
			metric := func(want int) {
				t.Helper()
				line := fmt.Sprintf("tailrace_stream_writable{stream=\"TR_CHUNKS_0\"} %d\n", want)
				natstest.Eventually(t, line, func(context.Context) error {
					if _, text := get(t, edge.ops+"/metrics", ""); !strings.Contains(text, line) {
						return fmt.Errorf("metrics lack %s", line)
					}
					return nil
				})
			}
			metric(1)
			fail(t, js, dir)
			metric(0)
			begun := time.Now()
			if status, _, body := sendAs(t, http.MethodPost, edge.url+"/api/chat", chatPost, nil); status != http.StatusInsufficientStorage || !strings.Contains(body, `"code":"INSUFFICIENT_STORAGE"`) {
				t.Errorf("a chat gets %d %s", status, body)
			}
			t.Logf("refused after %s", time.Since(begun))
			if name == "full" {
				if err := fill.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
				metric(1)
			}
		})
	}
}
