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
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/openaitest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/workers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var apis = []API{Chat, Responses}

// world is a server with the streams of Tailrace, and the people around a worker.
type world struct {
	t      *testing.T
	srv    *natstest.Server
	log    *consumers.Reader
	reader *projector.Reader
	queue  *commands.Queue
	inbox  *inbox.Box
	heard  *transcript // what the workers log
}

// transcript is a log that can be read.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, srv: srv, heard: &transcript{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.heard.String())
		}
	})
	var err error
	if w.log, err = consumers.New(js.Conn(), js, consumers.Config{}); err != nil {
		t.Fatal(err)
	}
	store, err := kvstore.New(js, kvstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.reader = projector.NewReader(store, natssource.Log{Reader: w.log})
	if w.queue, err = commands.New(js, commands.Config{}); err != nil {
		t.Fatal(err)
	}
	if w.inbox, err = inbox.New(js, inbox.Config{}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.heard, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// agent is one that is quick to try again.
func (w *world) agent(end *openaitest.Endpoint, api API, shape ...func(*Config)) *Agent {
	w.t.Helper()
	cfg := Config{
		BaseURL: end.URL, Key: openaitest.Key, Model: "test-model", API: api, System: "You are a clerk.", Client: end.Client,
		Retry: Retry{First: time.Millisecond, Most: 4 * time.Millisecond}, Log: w.logger(),
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

// process is a worker with a connection of its own, as if it were a process.
type process struct {
	*workers.Workers

	nc   *nats.Conn
	done chan struct{}
	stop context.CancelFunc
}

// kill ends the connection without a word: for everybody else the process is gone.
func (p *process) kill() { p.nc.Close() }

func (w *world) serve(agents map[string]workers.Agent) *process {
	w.t.Helper()
	js := w.srv.JetStream(w.t)
	made, err := workers.New(js, workers.Config{
		Agents: agents, Grace: 2 * time.Second,
		Queue:    commands.Config{AckWait: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond},
		Producer: producers.Config{Patience: 10 * time.Second},
		Log:      w.logger(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	p := &process{Workers: made, nc: js.Conn(), stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if err := p.Run(ctx); err != nil && !p.nc.IsClosed() {
			w.t.Errorf("a worker: %v", err)
		}
	}()
	w.t.Cleanup(func() {
		p.stop()
		<-p.done
	})
	return p
}

var names atomic.Int64

// ask asks an agent in a session of its own.
func (w *world) ask(agent, text string) chunk.Session {
	w.t.Helper()
	s := chunk.RootSession("acme", fmt.Sprintf("s-%d", names.Add(1)))
	w.askIn(s, agent, "r1", text)
	return s
}

func (w *world) askIn(s chunk.Session, agent, run, text string) {
	w.t.Helper()
	w.request(s, agent, run, chunk.InputMessage{Content: text})
}

func (w *world) request(s chunk.Session, agent, run string, input chunk.InputMessage) {
	w.t.Helper()
	w.post(commands.Command{Kind: commands.Execute, Session: s, AgentType: agent, RunID: run, Input: []chunk.InputMessage{input}, Issued: time.Now()})
}

// post stores a command. That of the run before may still be there: its worker has
// written the end, and is about to say so.
func (w *world) post(c commands.Command) {
	w.t.Helper()
	err := w.queue.Request(w.t.Context(), c, 0)
	if busy, ok := errors.AsType[*commands.BusyError](err); ok {
		err = w.queue.Request(w.t.Context(), c, busy.Revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// await waits until the session is as ok wants it.
func (w *world) await(s chunk.Session, what string, ok func(fold.Snapshot) bool) fold.Snapshot {
	w.t.Helper()
	var snap fold.Snapshot
	natstest.Await(w.t, fmt.Sprintf("%s: %s", s, what), func(ctx context.Context) (err error) {
		if snap, err = w.reader.Snapshot(ctx, s); err != nil {
			return err
		}
		if !ok(snap) {
			return fmt.Errorf("run %s is %s (%s), step %d\n%s", snap.Run.ID, snap.Run.Status, snap.Status, snap.Run.Step, told(snap))
		}
		return nil
	})
	return snap
}

func (w *world) awaitStatus(s chunk.Session, want fold.Status) fold.Snapshot {
	w.t.Helper()
	return w.await(s, string(want), func(snap fold.Snapshot) bool { return snap.Status == want && snap.Run.Status != fold.RunRunning })
}

// ended waits for a good end, and checks that the log says what the snapshot says:
// nothing is left of what was taken back.
func (w *world) ended(s chunk.Session) fold.Snapshot {
	w.t.Helper()
	snap := w.awaitStatus(s, fold.Ended)
	var said, thought strings.Builder
	for _, b := range w.bodies(s) {
		switch b := b.(type) {
		case chunk.TextDelta:
			said.WriteString(b.Delta)
		case chunk.Thinking:
			thought.WriteString(b.Content)
		}
	}
	w.want(said.String(), answered(snap), "text of the log")
	w.want(thought.String(), partsText(snap, "reasoning"), "reasoning of the log")
	return snap
}

func (w *world) records(s chunk.Session) func(func(chunk.Record) bool) {
	return func(yield func(chunk.Record) bool) {
		for rec, err := range w.log.Replay(w.t.Context(), s, chunk.Position{}) {
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

// bodies are what the log has.
func (w *world) bodies(s chunk.Session) []chunk.Body {
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

// told is the conversation, one line for each thing that was said.
func told(snap fold.Snapshot) string {
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

// answered is all text of the answers.
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

func (w *world) want(got, want, what string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
