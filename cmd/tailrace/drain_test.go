package main

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	p := startProcess(t, "edge", "--nats-url", server.URL, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--drain", "0s", "--chat-agent", "demo")
	ops := p.await(t, `msg="ops server started" url=(\S+)`)
	url := p.await(t, `Tailrace edge: (\S+)`)
	awaitReady(t, ops)
	awaitDependencies(t, ops)
	server.Shutdown() // the message waits for it
	type response struct {
		status int
		text   string
		err    error
	}
	got := make(chan response, 1)
	begun := time.Now()
	go func() {
		resp, err := http.Post(url+"/api/chat", "application/json", strings.NewReader(chatPost))
		if err != nil {
			got <- response{err: err}
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		got <- response{resp.StatusCode, string(text), err}
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
	if code := <-p.code; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	t.Logf("response after %s", time.Since(begun))
}
