package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A worker with a budget runs a tenant until the budget is used, and fails the next run before the model is asked. The command prints what was used.
func TestTokenBudget(t *testing.T) {
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.StreamReply(openaitest.Text("Hello.")) })
	server := streamtest.Start(t)
	limits := writeFile(t, "limits.json", `{"tenants": {"default": {"tokensPerDay": 1}}}`)
	startWorker(t, server, "--model-url", end.URL, "--model-key", openaitest.Key, "--model", "m1", "--limits", limits)
	ask(t, server, "s1", "assistant", "Hi")
	if shown := tailed(t, server, "s1"); tailText(t, shown) != "Hello." {
		t.Errorf("tail shows %s", shown)
	}
	natstest.Eventually(t, "the usage", func(context.Context) error {
		lines := strings.Split(tailrace(t, exitOK, "usage", "--tenant", "default", "--days", "2", "--nats-url", server.URL), "\n")
		if len(lines) < 2 || !strings.HasPrefix(lines[1], "default  ") || strings.HasSuffix(lines[1], " 0") {
			return fmt.Errorf("usage %q", lines)
		}
		return nil
	})
	if other := tailrace(t, exitOK, "usage", "--tenant", "acme", "--nats-url", server.URL); strings.Contains(other, "default") {
		t.Errorf("the usage of another tenant: %s", other)
	}
	ask(t, server, "s2", "assistant", "Hi again")
	var shown string
	natstest.Eventually(t, "the end of the second run", func(context.Context) error {
		shown = tailrace(t, exitError, "tail", "s2", "--nats-url", server.URL)
		if strings.Contains(shown, "no such session") {
			return errors.New(shown)
		}
		return nil
	})
	if !strings.Contains(shown, "framework_token_budget_exceeded") || len(end.Requests()) != 1 {
		t.Errorf("%d requests of the model; tail shows %s", len(end.Requests()), shown)
	}
}

// The command refuses arguments that select nothing.
func TestUsageArguments(t *testing.T) {
	for _, args := range [][]string{{"more"}, {"--days", "0"}, {"--tenant", "a.b"}} {
		err := runUsage(t.Context(), terminal{in: strings.NewReader(""), out: io.Discard, err: io.Discard}, append(args, "--nats-url", "nats://127.0.0.1:1"))
		if _, ok := errors.AsType[usageError](err); !ok {
			t.Errorf("%q: %v", args, err)
		}
	}
}
