package openai

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// A model and a tool that redirect to another host do not make the worker send the conversation and its headers there.
func TestRedirectToAnotherHost(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer other.Close()
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer away.Close()

	hook, err := Webhook(WebhookConfig{URL: away.URL, Headers: map[string]string{"X-Api-Key": "secret"}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := hook(t.Context(), Call{Input: chunk.Value(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "status 307") {
		t.Errorf("the tool returned %v, %v; want the status of the redirect", res, err)
	}

	w := newEnv(t)
	moved := openaitest.ErrorReply(http.StatusTemporaryRedirect, "", "", "")
	moved.Header.Set("Location", other.URL)
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return moved })
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat)})
	w.AwaitStatus(w.ask("clerk", "And?"), fold.Failed)
	if n, tries := reached.Load(), len(end.Requests()); n > 0 || tries != 1 {
		t.Errorf("the other host got %d requests, the model %d", n, tries)
	}
}
