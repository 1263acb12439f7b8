package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
)

// world is a server with the streams of Tailrace, and the others around a
// worker: who asks, who answers, who reads.
type world struct {
	t      *testing.T
	srv    *natstest.Server
	log    *consumers.Reader
	reader *projector.Reader
	queue  *commands.Queue
	inbox  *inbox.Box

	maxDelta int // of the workers' writers; 1 keeps deltas apart
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, jetstream.FileStorage)
}

func newWorldIn(t *testing.T, storage jetstream.StorageType) *world {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{Storage: storage}); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, srv: srv}
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

// process is a worker with a connection of its own, as if it were a process.
type process struct {
	*Workers

	nc   *nats.Conn
	done chan struct{} // Run has returned
	stop context.CancelFunc
}

func (w *world) worker(agents map[string]Agent) *process {
	w.t.Helper()
	js := w.srv.JetStream(w.t)
	made, err := New(js, Config{
		Agents: agents, Grace: 2 * time.Second,
		Queue:    commands.Config{AckWait: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond},
		Producer: producers.Config{Patience: 10 * time.Second, MaxDelta: w.maxDelta},
		Log:      slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = made.Close() })
	return &process{Workers: made, nc: js.Conn()}
}

// serve runs the worker until the test ends, or it is killed or stopped.
func (w *world) serve(p *process) *process {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	p.stop, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		if err := p.Run(ctx); err != nil && !p.nc.IsClosed() {
			w.t.Errorf("a worker: %v", err)
		}
	}()
	w.t.Cleanup(p.end)
	return p
}

// end stops the worker and waits for it.
func (p *process) end() {
	p.stop()
	<-p.done
}

// kill ends the connection without a word: for everybody else the process is gone.
func (p *process) kill() { p.nc.Close() }

func execute(session, agent string, says ...string) commands.Command {
	c := commands.Command{
		Kind: commands.Execute, Session: chunk.RootSession("acme", session), AgentType: agent, RunID: "r1",
		Params: chunk.Value(`{"tone":"kind"}`), Issued: time.UnixMilli(1700000000000),
	}
	for _, text := range says {
		c.Input = append(c.Input, chunk.InputMessage{Content: text})
	}
	return c
}

func (w *world) request(c commands.Command) {
	w.t.Helper()
	if err := w.queue.Request(w.t.Context(), c, 0); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) snapshot(s chunk.Session) fold.Snapshot {
	w.t.Helper()
	snap, err := w.reader.Snapshot(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return snap
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
			return fmt.Errorf("run %s is %s, step %d", snap.Run.ID, snap.Run.Status, snap.Run.Step)
		}
		return nil
	})
	return snap
}

func (w *world) awaitStatus(s chunk.Session, want fold.Status) fold.Snapshot {
	w.t.Helper()
	return w.await(s, string(want), func(snap fold.Snapshot) bool { return snap.Status == want && snap.Run.Status != fold.RunRunning })
}

func (w *world) records(s chunk.Session) []chunk.Record {
	w.t.Helper()
	var all []chunk.Record
	for rec, err := range w.log.Replay(w.t.Context(), s, chunk.Position{}) {
		if errors.Is(err, chunk.ErrUnknownSession) {
			return nil
		}
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

func (w *world) bodies(s chunk.Session) []chunk.Body {
	w.t.Helper()
	var all []chunk.Body
	for _, rec := range w.records(s) {
		c, err := rec.Decode()
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, c.Body)
	}
	return all
}

func types(bodies []chunk.Body) string {
	var names []string
	for _, b := range bodies {
		names = append(names, string(b.Type()))
	}
	return strings.Join(names, " ")
}

// told is the conversation, one line for each thing that was said.
func told(snap fold.Snapshot) string {
	var lines []string
	for _, m := range messagesOf(snap.Transcript(0)) {
		for _, p := range m.Parts {
			switch {
			case p.Tool != nil:
				lines = append(lines, fmt.Sprintf("%s: %s(%s) %s %s%s", m.Role, p.Tool.Name, p.Tool.Input, p.Tool.State, []byte(p.Tool.Output), p.Tool.Error))
			case p.Text != "":
				lines = append(lines, fmt.Sprintf("%s: %s", m.Role, p.Text))
			default:
				lines = append(lines, fmt.Sprintf("%s: %s", m.Role, p.Raw))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func (w *world) answer(a inbox.Answer) {
	w.t.Helper()
	if err := w.inbox.Answer(w.t.Context(), a); err != nil {
		w.t.Fatal(err)
	}
}

// resume asks for a run to go on, as whoever stored the last answer does.
func (w *world) resume(s chunk.Session, agent, run string) {
	w.t.Helper()
	err := w.queue.Request(w.t.Context(), commands.Command{
		Kind: commands.Resume, Session: s, AgentType: agent, RunID: commands.ResumeRunID(run), Resumes: run,
	}, 0)
	if busy, ok := errors.AsType[*commands.BusyError](err); ok && busy.Command.RunID == run {
		err = w.queue.Request(w.t.Context(), commands.Command{
			Kind: commands.Resume, Session: s, AgentType: agent, RunID: commands.ResumeRunID(run), Resumes: run,
		}, busy.Revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// step is an agent of one step.
func oneStep(f func(ctx context.Context, t *Turn, s *Step) error) Agent {
	return AgentFunc(func(ctx context.Context, t *Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *Step) error { return f(ctx, t, s) })
	})
}

var names atomic.Int64

// fresh is a name that no other test has.
func fresh(prefix string) string { return fmt.Sprintf("%s-%d", prefix, names.Add(1)) }
