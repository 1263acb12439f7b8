package openai

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/topology"
	"github.com/tailrace/tailrace/workers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var apis = []API{Chat, Responses}

// env is a server with the streams of Tailrace, and the clients of a worker.
type env struct {
	t         *testing.T
	srv       *natstest.Server
	log       *consumers.Reader
	reader    *projector.Reader
	queue     *jscontrol.Queue
	inbox     *jscontrol.Inbox
	logOutput *logBuffer // log output of the workers
}

// logBuffer is a log output that can be read.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *logBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *logBuffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func newEnv(t *testing.T) *env {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	w := &env{t: t, srv: srv, logOutput: &logBuffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.logOutput.String())
		}
	})
	var err error
	if w.log, err = consumers.New(js, consumers.Config{}); err != nil {
		t.Fatal(err)
	}
	store, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.reader = projector.NewReader(store, jssnapshots.Log{Reader: w.log})
	if w.queue, err = jscontrol.NewQueue(js, jscontrol.QueueConfig{}); err != nil {
		t.Fatal(err)
	}
	if w.inbox, err = jscontrol.NewInbox(js, jscontrol.InboxConfig{}); err != nil {
		t.Fatal(err)
	}
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

// process is a worker with its own connection, like a separate process.
type process struct {
	*workers.Workers

	nc   *nats.Conn
	done chan struct{}
	stop context.CancelFunc
}

// kill closes the connection without a drain, as a crash does.
func (p *process) kill() { p.nc.Close() }

func (w *env) serve(agents map[string]workers.Agent) *process {
	w.t.Helper()
	js := w.srv.JetStream(w.t)
	made, err := workers.New(js, workers.Config{
		Agents: agents, ShutdownTimeout: 2 * time.Second,
		Lease: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond, RetryTimeout: 10 * time.Second, Log: w.logger(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	p := &process{Workers: made, nc: js.Conn(), stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := p.Run(ctx); err != nil && !p.nc.IsClosed() {
			w.t.Errorf("worker: %v", err)
		}
	}()
	w.t.Cleanup(func() {
		p.stop()
		<-p.done
	})
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
	err := w.queue.Request(w.t.Context(), c, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok {
		err = w.queue.Request(w.t.Context(), c, busy.Revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// await waits until ok accepts the snapshot of the session.
func (w *env) await(s chunk.Session, what string, ok func(fold.Snapshot) bool) fold.Snapshot {
	w.t.Helper()
	var snap fold.Snapshot
	natstest.Eventually(w.t, fmt.Sprintf("%s: %s", s, what), func(ctx context.Context) (err error) {
		if snap, err = w.reader.Snapshot(ctx, s); err != nil {
			return err
		}
		if !ok(snap) {
			return fmt.Errorf("run %s is %s (%s), step %d\n%s", snap.Run.ID, snap.Run.Status, snap.Status, snap.Run.Step, conversation(snap))
		}
		return nil
	})
	return snap
}

func (w *env) awaitStatus(s chunk.Session, want fold.Status) fold.Snapshot {
	w.t.Helper()
	return w.await(s, string(want), func(snap fold.Snapshot) bool { return snap.Status == want && snap.Run.Status != fold.RunRunning })
}

// ended waits for a completed run, and checks that a fold of the log equals the snapshot: nothing that was
// rolled back is left.
func (w *env) ended(s chunk.Session) fold.Snapshot {
	w.t.Helper()
	snap := w.awaitStatus(s, fold.Ended)
	var text, thought strings.Builder
	for _, b := range w.bodies(s) {
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

func (w *env) records(s chunk.Session) func(func(chunk.Record) bool) {
	return func(yield func(chunk.Record) bool) {
		for rec, err := range w.log.Replay(w.t.Context(), chunk.Range{Session: s}) {
			if errors.Is(err, chunk.ErrUnknownSession) {
				return
			}
			if err != nil {
				w.t.Fatal(err)
			}
			if !yield(rec) {
				return
			}
		}
	}
}

// bodies returns the chunks of a session.
func (w *env) bodies(s chunk.Session) []chunk.Body {
	w.t.Helper()
	var all []chunk.Body
	for rec := range w.records(s) {
		c, err := rec.Decode()
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, c.Body)
	}
	return all
}

// conversation returns the conversation, one line for each part.
func conversation(snap fold.Snapshot) string {
	var lines []string
	for _, m := range snap.Transcript(0) {
		for _, p := range m.Parts {
			text := p.String()
			if !strings.Contains(text, `"type":"step-start"`) {
				lines = append(lines, string(m.Role)+" "+text)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// answered returns the text of all answers.
func answered(snap fold.Snapshot) string { return partsText(snap, "text") }

func partsText(snap fold.Snapshot, kind string) string {
	var b strings.Builder
	for _, m := range snap.Transcript(0) {
		for _, raw := range m.Parts {
			var p struct{ Type, Text string }
			if m.Role == fold.Assistant && unmarshal(raw, &p) && p.Type == kind {
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
