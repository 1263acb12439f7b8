package openai

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var apis = []API{Chat, Responses}

// env is a server with the streams of Tailrace, and the clients of a worker.
type env struct {
	*stack.Stack

	t         *testing.T
	logOutput *outputtest.Buffer // log output of the workers
}

func newEnv(t *testing.T) *env {
	t.Helper()
	w := &env{Stack: stack.Start(t, stack.Options{}), t: t, logOutput: new(outputtest.Buffer)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.logOutput.String())
		}
	})
	return w
}

func (w *env) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.logOutput, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// agent returns an agent with short retry delays.
func (w *env) agent(end *openaitest.Endpoint, api API, shape ...func(*Config)) *Agent {
	w.t.Helper()
	cfg := Config{
		BaseURL: end.URL, Key: openaitest.Key, Model: "test-model", API: api, System: "You are a clerk.", Client: end.Client,
		Retry: Retry{InitialDelay: time.Millisecond, MaxDelay: 4 * time.Millisecond}, Log: w.logger(),
	}
	for _, f := range shape {
		f(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// serve runs a worker with its own connection until the test ends or the process is killed.
func (w *env) serve(agents map[string]workers.Agent) *stack.Process {
	w.t.Helper()
	p := w.NewProcess(natsauth.Worker)
	made, err := workers.New(p.JS, workers.Config{
		Agents: agents, ShutdownTimeout: 2 * time.Second,
		Lease: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond, RetryTimeout: 10 * time.Second, Log: w.logger(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p.Go(made.Run)
	return p
}

var names atomic.Int64

// ask starts a run of an agent in a session of its own.
func (w *env) ask(agent, text string) chunk.Session {
	w.t.Helper()
	s := chunk.RootSession("acme", fmt.Sprintf("s-%d", names.Add(1)))
	w.askIn(s, agent, "r1", text)
	return s
}

func (w *env) askIn(s chunk.Session, agent, run, text string) {
	w.t.Helper()
	w.request(s, agent, run, chunk.InputMessage{Content: text})
}

func (w *env) request(s chunk.Session, agent, run string, input chunk.InputMessage) {
	w.t.Helper()
	w.post(control.Command{Kind: control.Execute, Session: s, AgentType: agent, RunID: run, Input: []chunk.InputMessage{input}, Issued: time.Now()})
}

// post publishes a command. The command of the previous run may still be on the queue, between its end and
// its acknowledgement.
func (w *env) post(c control.Command) {
	w.t.Helper()
	err := w.Queue.Request(w.t.Context(), c, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok {
		err = w.Queue.Request(w.t.Context(), c, busy.Revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// ended waits for a completed run, and checks that a fold of the log equals the snapshot: nothing that was
// rolled back is left.
func (w *env) ended(s chunk.Session) fold.Snapshot {
	w.t.Helper()
	snap := w.AwaitStatus(s, fold.Ended)
	var text, thought strings.Builder
	for _, b := range w.Bodies(s) {
		switch b := b.(type) {
		case chunk.TextDelta:
			text.WriteString(b.Delta)
		case chunk.Thinking:
			thought.WriteString(b.Content)
		}
	}
	w.want(text.String(), answered(snap), "text of the log")
	w.want(thought.String(), partsText(snap, "reasoning"), "reasoning of the log")
	return snap
}

// answered returns the text of all answers.
func answered(snap fold.Snapshot) string { return partsText(snap, fold.PartText) }

func partsText(snap fold.Snapshot, kind fold.PartKind) string {
	var b strings.Builder
	for _, m := range snap.Messages(0) {
		for _, p := range m.Parts {
			if m.Role == fold.Assistant && p.Kind == kind {
				b.WriteString(p.Text)
			}
		}
	}
	return b.String()
}

func (w *env) want(got, want, what string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
