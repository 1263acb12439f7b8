package httpagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// env is a server with the streams of Tailrace, an endpoint, and the clients of a worker.
type env struct {
	*stack.Stack

	t         *testing.T
	logOutput *outputtest.Buffer // of the workers
	url       string             // of the endpoint

	mu    sync.Mutex
	posts []post // that the endpoint got
}

// post is a request that the endpoint got.
type post struct {
	header http.Header
	body   string
	n      int // 1 for the first
}

// newEnv starts an endpoint whose answers serve writes.
func newEnv(t *testing.T, serve func(w http.ResponseWriter, r *http.Request, p post)) *env {
	t.Helper()
	w := &env{Stack: stack.Start(t, stack.Options{}), t: t, logOutput: new(outputtest.Buffer)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.logOutput.String())
		}
	})
	end := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		w.mu.Lock()
		p := post{header: r.Header.Clone(), body: string(body), n: len(w.posts) + 1}
		w.posts = append(w.posts, p)
		w.mu.Unlock()
		serve(rw, r, p)
	}))
	t.Cleanup(end.Close)
	w.url = end.URL + "/api/chat"
	return w
}

// requests returns the requests that the endpoint got.
func (w *env) requests() []post {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]post(nil), w.posts...)
}

// agent returns an agent with short delays.
func (w *env) agent(shape ...func(*Config)) *Agent {
	w.t.Helper()
	cfg := Config{
		URL: w.url, Retry: Retry{InitialDelay: time.Millisecond, MaxDelay: 4 * time.Millisecond},
		Log: slog.New(slog.NewTextHandler(w.logOutput, &slog.HandlerOptions{Level: slog.LevelDebug})),
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
func (w *env) serve(a workers.Agent) *stack.Process {
	w.t.Helper()
	p := w.NewProcess(natsauth.Worker)
	made, err := workers.New(p.JS, workers.Config{
		Agents: map[string]workers.Agent{"app": a}, ShutdownTimeout: 2 * time.Second,
		Lease: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond, RetryTimeout: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(w.logOutput, nil)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p.Go(made.Run)
	return p
}

var names atomic.Int64

// ask starts a run in a session of its own.
func (w *env) ask(text string) chunk.Session {
	w.t.Helper()
	s := chunk.RootSession("acme", fmt.Sprintf("s-%d", names.Add(1)))
	w.askIn(s, "r1", text)
	return s
}

func (w *env) askIn(s chunk.Session, run, text string) {
	w.t.Helper()
	w.post(control.Command{
		Kind: control.Execute, Session: s, AgentType: "app", RunID: run, Issued: time.Now(),
		Params: chunk.Value(`{"headers":{"X-Plan":"gold","Cookie":"secret"}}`),
		Input:  []chunk.InputMessage{{Content: text, ClientMessageID: new("m-" + run)}},
	})
}

// post publishes a command. The command of the previous run may still be on the queue, between its end and its acknowledgement.
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

// answer stores an answer to a call and resumes the run.
func (w *env) answer(s chunk.Session, answers ...control.Answer) {
	w.t.Helper()
	for _, a := range answers {
		a.Session, a.RunID = s, "r1"
		if err := w.Inbox.Answer(w.t.Context(), a); err != nil {
			w.t.Fatal(err)
		}
	}
	w.post(control.Command{Kind: control.Resume, Session: s, AgentType: "app", RunID: control.ResumeRunID("r1"), Resumes: "r1"})
}

func (w *env) stop(s chunk.Session, kind control.StopKind) {
	w.t.Helper()
	if err := w.Inbox.Stop(w.t.Context(), control.Stop{Session: s, RunID: "r1", Kind: kind}); err != nil {
		w.t.Fatal(err)
	}
}

// wantFailure waits for the failure of a run and returns what users see.
func (w *env) wantFailure(s chunk.Session, code string) fold.Failure {
	w.t.Helper()
	snap := w.AwaitStatus(s, fold.Failed)
	f := *snap.Failure
	if f.Detail == nil || f.Detail.Code == nil || *f.Detail.Code != code {
		w.t.Errorf("run failed with %q %+v, want %s", f.Message, f.Detail, code)
	}
	return f
}

func (w *env) want(got, want, what string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// wantText waits for the end of a run with a text, which is also that of the log: nothing that was rolled back is left.
func (w *env) wantText(s chunk.Session, want string) fold.Snapshot {
	w.t.Helper()
	snap := w.AwaitStatus(s, fold.Ended)
	var shown, logged strings.Builder
	for _, m := range snap.Messages(0) {
		if m.Role == fold.Assistant {
			shown.WriteString(m.Text())
		}
	}
	for _, b := range w.Bodies(s) {
		if b, ok := b.(chunk.TextDelta); ok {
			logged.WriteString(b.Delta)
		}
	}
	w.want(shown.String(), want, "text of the snapshot")
	w.want(logged.String(), want, "text of the log")
	return snap
}

// sse writes parts as server-sent events, each flushed.
func sse(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		if _, err := fmt.Fprintf(w, "data: %s\n\n", p); err != nil {
			return // the client has gone
		}
		w.(http.Flusher).Flush() //nolint:forcetypeassert // of net/http
	}
}

// text returns the parts of a step with a text, word by word.
func text(s string) []string {
	parts := []string{`{"type":"start-step"}`, `{"type":"text-start","id":"t"}`}
	for word := range strings.SplitAfterSeq(s, " ") {
		quoted, err := json.Marshal(word)
		if err != nil {
			panic(err) // a string is always valid
		}
		parts = append(parts, fmt.Sprintf(`{"type":"text-delta","id":"t","delta":%s}`, quoted))
	}
	return append(parts, `{"type":"text-end","id":"t"}`, `{"type":"finish-step"}`)
}

func answerOf(steps ...[]string) []string {
	parts := []string{`{"type":"start","messageId":"theirs"}`}
	for _, s := range steps {
		parts = append(parts, s...)
	}
	return append(parts, `{"type":"finish","finishReason":"stop"}`, `[DONE]`)
}
