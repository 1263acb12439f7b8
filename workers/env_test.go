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
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/topology"
)

// env is a server with the streams of Tailrace, and the clients of a worker.
type env struct {
	t      *testing.T
	srv    *natstest.Server
	log    *consumers.Reader
	reader *projector.Reader
	queue  *jscontrol.Queue
	inbox  *jscontrol.Inbox

	maxDelta int // of the workers' producers; 1 keeps deltas apart
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvIn(t, jetstream.FileStorage)
}

func newEnvIn(t *testing.T, storage jetstream.StorageType) *env {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{Storage: storage}); err != nil {
		t.Fatal(err)
	}
	w := &env{t: t, srv: srv}
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

// process is a worker with its own connection, like a separate process.
type process struct {
	*Workers

	nc   *nats.Conn
	done chan struct{} // Run has returned
	stop context.CancelFunc
}

func (w *env) worker(agents map[string]Agent) *process {
	w.t.Helper()
	js := w.srv.JetStream(w.t)
	made, err := New(js, Config{
		Agents: agents, ShutdownTimeout: 2 * time.Second,
		Lease: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond, RetryTimeout: 10 * time.Second, maxDelta: w.maxDelta,
		Log: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = made.Close() })
	return &process{Workers: made, nc: js.Conn()}
}

// serve runs the worker until the test ends or the process is killed or stopped.
func (w *env) serve(p *process) *process {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	p.stop, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		if err := p.Run(ctx); err != nil && !p.nc.IsClosed() {
			w.t.Errorf("worker: %v", err)
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

// kill closes the connection without a drain, as a crash does.
func (p *process) kill() { p.nc.Close() }

func execute(session, agent string, inputs ...string) control.Command {
	c := control.Command{
		Kind: control.Execute, Session: chunk.RootSession("acme", session), AgentType: agent, RunID: "r1",
		Params: chunk.Value(`{"tone":"kind"}`), Issued: time.UnixMilli(1700000000000),
	}
	for _, text := range inputs {
		c.Input = append(c.Input, chunk.InputMessage{Content: text})
	}
	return c
}

func (w *env) request(c control.Command) {
	w.t.Helper()
	if err := w.queue.Request(w.t.Context(), c, 0); err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) snapshot(s chunk.Session) fold.Snapshot {
	w.t.Helper()
	snap, err := w.reader.Snapshot(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return snap
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
			return fmt.Errorf("run %s is %s, step %d", snap.Run.ID, snap.Run.Status, snap.Run.Step)
		}
		return nil
	})
	return snap
}

func (w *env) awaitStatus(s chunk.Session, want fold.Status) fold.Snapshot {
	w.t.Helper()
	return w.await(s, string(want), func(snap fold.Snapshot) bool { return snap.Status == want && snap.Run.Status != fold.RunRunning })
}

func (w *env) records(s chunk.Session) []chunk.Record {
	w.t.Helper()
	var all []chunk.Record
	for rec, err := range w.log.Replay(w.t.Context(), chunk.Range{Session: s}) {
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

func (w *env) bodies(s chunk.Session) []chunk.Body {
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

// conversation returns the conversation, one line for each part.
func conversation(snap fold.Snapshot) string {
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

func (w *env) answer(a control.Answer) {
	w.t.Helper()
	if err := w.inbox.Answer(w.t.Context(), a); err != nil {
		w.t.Fatal(err)
	}
}

// resume requests a Resume, as the client that stored the last answer does.
func (w *env) resume(s chunk.Session, agent, run string) {
	w.t.Helper()
	err := w.queue.Request(w.t.Context(), control.Command{
		Kind: control.Resume, Session: s, AgentType: agent, RunID: control.ResumeRunID(run), Resumes: run,
	}, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok && busy.Command.RunID == run {
		err = w.queue.Request(w.t.Context(), control.Command{
			Kind: control.Resume, Session: s, AgentType: agent, RunID: control.ResumeRunID(run), Resumes: run,
		}, busy.Revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// oneStep is an agent with one step.
func oneStep(f func(ctx context.Context, t *Turn, s *Step) error) Agent {
	return AgentFunc(func(ctx context.Context, t *Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *Step) error { return f(ctx, t, s) })
	})
}

var names atomic.Int64

// uniqueName returns a name that no other test uses.
func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d", prefix, names.Add(1)) }
