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
