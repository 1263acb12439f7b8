package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A message that was accepted before the drain gets its response, although it takes longer than the drain period.
func TestDrainWaitsForMessages(t *testing.T) {
	server := streamtest.Start(t)
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

// A worker that shuts down completes the step that runs, and its probes and metrics say so meanwhile.
func TestWorkerDrains(t *testing.T) {
	asked, held := make(chan struct{}), make(chan struct{})
	model := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
		return openaitest.StreamReply(openaitest.Text("Hello "), openaitest.Callback(sync.OnceFunc(func() { close(asked) })), openaitest.Wait(held), openaitest.Text("model."))
	})
	server := streamtest.Start(t)
	worker := startWorker(t, server, "--model-url", model.URL, "--model-key", openaitest.Key, "--model", "m1", "--drain", "1h")
	ops := worker.awaitOps(t)
	awaitStart(t, ops)
	awaitReady(t, ops)
	ask(t, server, "s1", "assistant", "Hi")
	<-asked

	worker.stop()
	natstest.Eventually(t, "draining", func(context.Context) error {
		if status, body := get(t, ops+"/readyz", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, `"draining":"failed"`) {
			return fmt.Errorf("readyz: %d %s", status, body)
		}
		return nil
	})
	if status, body := get(t, ops+"/livez", ""); status != http.StatusOK {
		t.Errorf("livez: %d %s", status, body)
	}
	if _, metrics := get(t, ops+"/metrics", ""); !strings.Contains(metrics, `tailrace_worker_commands_in_progress{agent_type="assistant"} 1`+"\n") {
		t.Errorf("metrics lack the command in progress:\n%s", metrics)
	}
	close(held)
	if code := worker.end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if got := tailText(t, tailed(t, server, "s1")); got != "Hello model." {
		t.Errorf("tail shows %q", got)
	}
}
