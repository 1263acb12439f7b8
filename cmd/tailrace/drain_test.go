package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A message that was accepted before the drain gets its response, although it takes longer than the drain period.
func TestDrainWaitsForMessages(t *testing.T) {
	server := streamtest.Start(t, natstest.Listen())
	p := startEdge(t, "--nats-url", server.URL, "--chat-agent", "demo")
	awaitReady(t, p.ops)
	awaitDependencies(t, p.ops)
	server.Shutdown() // the message waits for it
	type response struct {
		status int
		text   string
		err    error
	}
	got := make(chan response, 1)
	begun := time.Now()
	go func() {
		status, _, text, err := read(t.Context(), http.MethodPost, p.url+"/api/chat", chatPost, nil)
		got <- response{status, text, err}
	}()
	natstest.Eventually(t, "the accepted message", func(context.Context) error {
		stacks := make([]byte, 1<<20)
		if !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("internal/conversation.(*Service).Serve(")) {
			return errors.New("not in this process yet")
		}
		return nil
	})
	p.stop()
	if r := <-got; r.err != nil || r.status != http.StatusServiceUnavailable || !strings.Contains(r.text, `"code":"UNAVAILABLE"`) {
		t.Errorf("after %s: %d %s %v", time.Since(begun), r.status, r.text, r.err)
	}
	if code := p.end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	t.Logf("response after %s", time.Since(begun))
}
