package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// gated answers each message with its text, after the test has let it.
func gated(begun chan<- string, let <-chan struct{}) workers.Agent {
	return workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			in := t.Input()
			begun <- in[len(in)-1].Content
			select {
			case <-let:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			s.MarkFinal()
			return s.Text(ctx, fmt.Sprintf("%d: %s", len(in), in[len(in)-1].Content))
		})
	})
}

func send(mode string, users ...string) string { return chatBody(`,"mode":"`+mode+`"`, users...) }

// Messages wait at two edges until the run before them ends, in the order in which they were stored. A repetition is one message; a withdrawn one has no answer;
// and a stock page that does not say a mode is refused.
func TestMessagesWait(t *testing.T) {
	w := newEnv(t)
	e, other := w.newEdge(nil), w.newEdge(nil)
	begun, let := make(chan string, 10), make(chan struct{})
	w.agents(map[string]workers.Agent{agentType: gated(begun, let)})
	first := e.open(http.MethodPost, "", send("queue", user("u1", "one")), nil)
	want(t, <-begun, "one")
	if got := e.post("", chatBody("", user("u2", "two"))); !strings.HasPrefix(got, "409 ") {
		t.Errorf("without a mode: %s", got)
	}
	second := other.open(http.MethodPost, "", send("queue", user("u2", "two")), nil)
	third := e.open(http.MethodPost, "", send("queue", user("u2", "two"), user("u3", "three")), nil)
	again := e.open(http.MethodPost, "", send("queue", user("u2", "two")), nil)
	e.open(http.MethodPost, "", send("queue", user("u4", "four")), nil)
	want(t, other.get("/queue", nil), `200 {"queued":[{"messageId":"u2","text":"two"},{"messageId":"u3","text":"three"},{"messageId":"u4","text":"four"}]}`)
	want(t, other.post("/withdraw", `{"messageId":"u4"}`), "204")
	if got := e.post("/withdraw", `{"messageId":"u4"}`); !strings.Contains(got, "NOT_QUEUED") {
		t.Errorf("withdrawn twice: %s", got)
	}
	let <- struct{}{}
	if got := first.rest(); !strings.Contains(got, "text-delta(1: one)") {
		t.Errorf("the first answer is %s", got)
	}
	want(t, <-begun, "two")
	if got := e.post("/withdraw", `{"messageId":"u2"}`); !strings.Contains(got, "NOT_QUEUED") {
		t.Errorf("withdrawn after its start: %s", got)
	}
	let <- struct{}{}
	for _, answer := range []*streaming{second, again} {
		if got := answer.rest(); !strings.HasPrefix(got, "start(msg-3)") || !strings.Contains(got, "text-delta(1: two)") {
			t.Errorf("the second answer is %s", got)
		}
	}
	want(t, <-begun, "three")
	let <- struct{}{}
	if got := third.rest(); !strings.HasPrefix(got, "start(msg-5)") || !strings.Contains(got, "text-delta(1: three)") {
		t.Errorf("the third answer is %s", got)
	}
	want(t, e.get("/queue", nil), `200 {"queued":[]}`)
	if got := e.post("", send("queue", user("u4", "four"))); !strings.HasPrefix(got, "409 ") {
		t.Errorf("a withdrawn message is sent again: %s", got)
	}
}

// A message interrupts the run, and is answered before those that wait. What the run has written stays.
func TestMessageInterrupts(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	begun, let := make(chan string, 10), make(chan struct{})
	w.agents(map[string]workers.Agent{agentType: gated(begun, let)})
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "one")), nil)
	want(t, <-begun, "one")
	waiting := e.open(http.MethodPost, "", send("queue", user("u2", "two")), nil)
	urgent := e.open(http.MethodPost, "", send("interrupt", user("u3", "three")), nil)
	if got := first.rest(); !strings.Contains(got, "finish(other)") {
		t.Errorf("the interrupted answer is %s", got)
	}
	want(t, <-begun, "three")
	let <- struct{}{}
	if got := urgent.rest(); !strings.Contains(got, "text-delta(1: three)") {
		t.Errorf("the urgent answer is %s", got)
	}
	want(t, <-begun, "two")
	let <- struct{}{}
	if got := waiting.rest(); !strings.Contains(got, "text-delta(1: two)") {
		t.Errorf("the other answer is %s", got)
	}
}

// inSteps answers each message in two steps, of which each begins after the test has let it, and checks for messages between them.
func inSteps(begun chan<- string, let <-chan struct{}) workers.Agent {
	return workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		for t.Steps() < 2 {
			if err := t.CheckMessages(ctx); err != nil {
				return err
			}
			err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
				text := fmt.Sprintf("step %d of %s", s.Number(), t.Input()[0].Content)
				begun <- text
				select {
				case <-let:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				return s.Text(ctx, fmt.Sprintf("%s after %d messages", text, len(t.Messages())))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// A message that steers is read between two steps of an agent that checks for messages, before those that wait for the end. The answer before it ends, with its
// steps, and all pages and snapshots have the messages in the order in which the agent has read them.
func TestMessageSteers(t *testing.T) {
	w := newEnv(t)
	e, other := w.newEdge(nil), w.newEdge(nil)
	begun, let := make(chan string, 10), make(chan struct{})
	w.agents(map[string]workers.Agent{agentType: inSteps(begun, let)})
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "one")), nil)
	want(t, <-begun, "step 1 of one")
	waiting := e.open(http.MethodPost, "", send("queue", user("u2", "two")), nil)
	steering := other.open(http.MethodPost, "", send("steer", user("u3", "three")), nil)
	again := e.open(http.MethodPost, "", send("steer", user("u3", "three")), nil)
	e.open(http.MethodPost, "", send("steer", user("u4", "four")), nil)
	want(t, e.get("/queue", nil), `200 {"queued":[{"messageId":"u2","text":"two"},{"messageId":"u3","text":"three"},{"messageId":"u4","text":"four"}]}`)
	want(t, e.post("/withdraw", `{"messageId":"u4"}`), "204")
	let <- struct{}{}
	if got := first.rest(); strings.Contains(got, "step 2 of one") || !strings.Contains(got, "finish(other)") {
		t.Errorf("the answer before the message is %s", got)
	}
	for _, step := range []string{"step 1 of three", "step 2 of three", "step 1 of two", "step 2 of two"} {
		want(t, <-begun, step)
		let <- struct{}{}
	}
	for _, answer := range []*streaming{steering, again} {
		if got := answer.rest(); !strings.HasPrefix(got, "start(msg-3)") || !strings.Contains(got, "text-delta(step 1 of three after 3 messages)") || !strings.Contains(got, "text-delta(step 2 of three after 4 messages)") {
			t.Errorf("the answer to the message is %s", got)
		}
	}
	if got := waiting.rest(); !strings.HasPrefix(got, "start(msg-6)") || !strings.Contains(got, "finish(stop)") {
		t.Errorf("the answer to the message that waits is %s", got)
	}
	snap := w.AwaitStatus(sessionS1, fold.Ended)
	var texts []string
	for _, m := range snap.Messages(0) {
		for _, p := range m.Parts {
			if p.Kind == fold.PartText {
				texts = append(texts, p.Text)
			}
		}
	}
	want(t, strings.Join(texts, "; "), "one; step 1 of one after 1 messages; three; step 1 of three after 3 messages; step 2 of three after 4 messages; "+
		"two; step 1 of two after 6 messages; step 2 of two after 7 messages")
	want(t, e.get("/queue", nil), `200 {"queued":[]}`)
}

// At most MaxQueued messages wait.
func TestQueueIsBounded(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	begun, let := make(chan string, 10), make(chan struct{})
	w.agents(map[string]workers.Agent{agentType: gated(begun, let)})
	e.open(http.MethodPost, "", chatBody("", user("u0", "zero")), nil)
	<-begun
	for n := range 16 {
		e.open(http.MethodPost, "", send("queue", user(fmt.Sprint("u", n+1), "more")), nil)
	}
	if got := e.post("", send("queue", user("u17", "more"))); !strings.HasPrefix(got, "409 ") || !strings.Contains(got, "QUEUE_FULL") {
		t.Errorf("one too many is %s", got)
	}
}

// A message waits for a run that came without a worker: the edge of a response that waits starts it after the end of the run.
func TestMessageWaitsForARunWithoutWorker(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.Heartbeat = 50 * time.Millisecond })
	begun, let := make(chan string, 1), make(chan struct{}, 1)
	let <- struct{}{}
	w.agents(map[string]workers.Agent{agentType: gated(begun, let)})
	run, err := w.NewWriter(producers.Config{}).Start(t.Context(), sessionS1, chunk.RunStarted{RunID: "r1", Input: []chunk.InputMessage{{Content: "one"}}}, producers.AgentType(agentType))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := e.open(http.MethodPost, "", send("queue", user("u2", "two")), nil)
	want(t, e.get("/queue", nil), `200 {"queued":[{"messageId":"u2","text":"two"}]}`)
	if err := errors.Join(run.End(t.Context(), nil), run.Close()); err != nil {
		t.Fatal(err)
	}
	want(t, <-begun, "two")
	if got := second.rest(); !strings.Contains(got, "text-delta(1: two)") {
		t.Errorf("the answer is %s", got)
	}
}

// The author of a message may withdraw it, and a client with the right to stop answers may withdraw all. A client of another tenant, or without the session, gets 404.
func TestWhoMayWithdraw(t *testing.T) {
	w := newEnv(t)
	begun, let := make(chan string, 1), make(chan struct{})
	w.agents(map[string]workers.Agent{agentType: gated(begun, let)})
	as := func(tenant, subject string, scopes auth.Scope) *edge {
		return w.newEdge(func(cfg *edgeConfig) {
			sessions := auth.Sessions{All: subject != "eve", Own: subject == "eve"}
			cfg.edge.Authenticator = granting{auth.Grant{Tenant: tenant, Subject: subject, Scopes: scopes, Sessions: sessions}, new(atomic.Int64)}
		})
	}
	ann, bob := as("acme", "ann", auth.ScopeRead|auth.ScopeChat), as("acme", "bob", auth.ScopeRead|auth.ScopeChat)
	boss, other := as("acme", "boss", auth.ScopeRead|auth.ScopeStop), as("other", "ann", auth.ScopeRead|auth.ScopeChat|auth.ScopeStop)
	own := as("acme", "eve", auth.ScopeRead|auth.ScopeChat|auth.ScopeStop)
	ann.open(http.MethodPost, "", chatBody("", user("u1", "one")), nil)
	want(t, <-begun, "one")
	ann.open(http.MethodPost, "", send("queue", user("u2", "two")), nil)
	ann.open(http.MethodPost, "", send("queue", user("u3", "three")), nil)
	const forbidden = `403 {"error":"the credential does not have this right","code":"FORBIDDEN"}`
	want(t, bob.post("/withdraw", `{"messageId":"u2"}`), forbidden)
	want(t, bob.post("", send("interrupt", user("u4", "four"))), forbidden)
	want(t, bob.post("", send("steer", user("u5", "five"))), forbidden)
	const none = `404 {"error":"there is no such chat","code":"STREAM_NOT_FOUND"}`
	want(t, other.get("/queue", nil), none)
	want(t, other.post("/withdraw", `{"messageId":"u2"}`), none)
	want(t, own.get("/queue", nil), none)
	want(t, own.post("/withdraw", `{"messageId":"u2"}`), none)
	want(t, bob.get("/queue", nil), `200 {"queued":[{"messageId":"u2","text":"two"},{"messageId":"u3","text":"three"}]}`)
	want(t, ann.post("/withdraw", `{"messageId":"u2"}`), "204")
	want(t, boss.post("/withdraw", `{"messageId":"u3"}`), "204")
	want(t, bob.get("/queue", nil), `200 {"queued":[]}`)
}
