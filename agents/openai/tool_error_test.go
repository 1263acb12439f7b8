package openai

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/workers"
)

// The text of a tool's error may have addresses, paths and the response of another system. The model gets it, the worker logs it, and the log of the session
// does not have it. A *workers.Error is made for users.
func TestToolErrorText(t *testing.T) {
	w := newEnv(t)
	system := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "secret-body: id must be positive", http.StatusUnprocessableEntity)
	}))
	defer system.Close()
	hook, err := Webhook(WebhookConfig{URL: system.URL})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := Webhook(WebhookConfig{URL: "http://127.0.0.1:1/secret-path"})
	if err != nil {
		t.Fatal(err)
	}
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		if r.N > 1 {
			return openaitest.StreamReply(text("I give up."))
		}
		var calls []openaitest.Event
		for _, name := range []string{"hook", "gone", "dial", "user"} {
			calls = append(calls, toolCall{ID: name, Name: name, Args: `{"id":"1"}`})
		}
		return openaitest.StreamReply(calls...)
	})
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, with(
		newTool("hook", hook), newTool("gone", gone),
		newTool("dial", func(context.Context, Call) (any, error) {
			return nil, errors.New("dial tcp 10.0.0.5: open /secret-file")
		}),
		newTool("user", func(context.Context, Call) (any, error) {
			return nil, &workers.Error{Message: "there is no such order", Code: "order_unknown", Cause: errors.New("secret-cause")}
		}),
	))})
	s := w.ask("clerk", "Continue.")
	w.want(answered(w.ended(s)), "I give up.", "text")
	for id, want := range map[string]string{
		"hook": "status 422: secret-body: id must be positive", "gone": "unreachable", "dial": "open /secret-file", "user": "there is no such order",
	} {
		if got := end.Requests()[1].Outcome(id); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) {
			t.Errorf("the model gets %q for %s, want %q", got, id, want)
		}
	}
	var stored strings.Builder
	for _, rec := range w.Records(s) {
		stored.Write(rec.Data)
	}
	for text, want := range map[string]bool{
		"secret": false, "10.0.0.5": false, system.URL: false,
		`"error":"the tool failed","errorCode":"tool_execution_failed"`: true, `"error":"the tool is unreachable"`: true,
		`"error":"there is no such order","errorCode":"order_unknown"`: true,
	} {
		if strings.Contains(stored.String(), text) != want {
			t.Errorf("the session has %q: %t, want %t, in\n%s", text, !want, want, stored.String())
		}
	}
	logged := w.logOutput.String()
	for _, text := range []string{"secret-body", "open /secret-file", "secret-cause"} {
		if !strings.Contains(logged, text) {
			t.Errorf("the worker has not logged %q", text)
		}
	}
}
