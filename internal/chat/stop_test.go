package chat

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/workers"
)

// A run that waits for a sub-agent has no worker: it is aborted, and the sub-agent with it.
func TestStopWhileASubAgentWorks(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	begun := make(chan struct{}, 1)
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(boss), "clerk": workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, _ *workers.Step) error {
			begun <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	})})
	answer := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	answer.until("data-run-paused(suspended_awaiting_children)")
	<-begun
	if got := e.post("/stop", `{"reason":"enough"}`); !strings.HasPrefix(got, "202 ") {
		t.Errorf("the stop is %s", got)
	}
	if got := answer.rest(); !strings.HasSuffix(got, "abort DONE") {
		t.Errorf("the answer ends with %s", got)
	}
	if got := e.post("/stop", ""); got != "204" {
		t.Errorf("the second stop is %s", got)
	}
}

// A sub-agent waits for an approval; the user stops the chat instead.
func TestStopWhileASubAgentAsks(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(boss), "clerk": workers.AgentFunc(clerk)})
	e.post("", chatBody("", user("u1", "hi")))
	next := chatBody("", user("u1", "hi"), assistantMessage("msg-1 step"), user("u2", "never mind"))
	if got := e.post("", next); !strings.HasPrefix(got, "409 ") {
		t.Errorf("a message before the stop is %s", got)
	}
	if got := e.post("/stop", ""); !strings.HasPrefix(got, "202 ") {
		t.Errorf("the stop is %s", got)
	}
	e.get("", nil) // ends with the run
	if got := e.post("", next); !strings.HasPrefix(got, "start(") {
		t.Errorf("a message behind the stop is %s", got)
	}
}

// A proxy may send an empty body as one of unknown length.
func TestStopWithAnEmptyBody(t *testing.T) {
	e := newEnv(t).newEdge(nil)
	for body, want := range map[string]int{"": http.StatusNoContent, "{}": http.StatusUnsupportedMediaType} {
		req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL+"/api/chat/s1/stop", io.MultiReader(strings.NewReader(body))))(t)
		resp, err := e.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close() != nil || resp.StatusCode != want {
			t.Errorf("a body %q of unknown length is %d, want %d", body, resp.StatusCode, want)
		}
	}
}

// No worker serves the agent: a stop ends the queued answer, its stream and the message before it stay in the chat, and the next message is accepted.
func TestStopWithoutAWorker(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	if got := e.post("/stop", `{"reason":"enough"}`); !strings.HasPrefix(got, "202 ") {
		t.Errorf("the stop is %s", got)
	}
	if got := first.rest(); !strings.HasSuffix(got, "finish(other) DONE") {
		t.Errorf("the stopped answer is %s", got)
	}
	want(t, e.post("/stop", ""), "204")
	second := e.open(http.MethodPost, "", chatBody("", user("u1", "hi"), user("u2", "again")), nil)
	w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		return errors.Join(say(ctx, run, 1, "Hello"), run.End(ctx, nil))
	})
	if got := second.rest(); !strings.Contains(got, "text-delta(Hello)") {
		t.Errorf("the next answer is %s", got)
	}
}

// The writer of an answer has died, and the queue has no command: "tailrace publish" was killed. The next message is refused as long as the writer may be
// alive; after the timeout, or after a stop, it is accepted.
func TestRunWithoutAWorker(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"stopped": time.Hour, "silent": time.Nanosecond} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			e := w.newEdge(func(cfg *edgeConfig) {
				cfg.ports.Reaper = must(workers.NewReaper(w.JS, workers.ReaperConfig{RunTimeout: timeout}))(t)
			})
			dead := must(producers.New(w.JS, producers.Config{Positions: w.Reader}))(t)
			run, err := dead.Start(t.Context(), chunk.RootSession("acme", "s1"), chunk.RunStarted{Input: []chunk.InputMessage{{Content: "hi", ClientMessageID: new("u1")}}}, producers.AgentType(agentType))
			if err != nil {
				t.Fatal(err)
			}
			if err := say(t.Context(), run, 1, "Hello "); err != nil {
				t.Fatal(err)
			}
			must(run.Flush(t.Context()))(t)
			if err := dead.Close(); err != nil {
				t.Fatal(err)
			}
			tab := e.open(http.MethodGet, "", "", nil)
			tab.until("text-delta(Hello )")
			next := chatBody("", user("u1", "hi"), assistantMessage("msg-1 step"), user("u2", "again"))
			if name == "stopped" {
				if got := e.post("", next); !strings.HasPrefix(got, "409 ") {
					t.Errorf("a message before the stop is %s", got)
				}
				if got := e.post("/stop", ""); !strings.HasPrefix(got, "202 ") {
					t.Errorf("the stop is %s", got)
				}
			}
			w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
				return errors.Join(say(ctx, run, 1, "Hello again"), run.End(ctx, nil))
			})
			answer := e.open(http.MethodPost, "", next, nil)
			if got := answer.rest(); !strings.Contains(got, "text-delta(Hello again)") {
				t.Errorf("the next answer is %s", got)
			}
			if got := tab.rest(); !strings.Contains(got, "error") {
				t.Errorf("the page of the first answer ends with %s", got)
			}
		})
	}
}
