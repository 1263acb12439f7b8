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

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
)

// env is a server with the streams of Tailrace, and the clients of a worker.
type env struct {
	*stack.Stack

	t        *testing.T
	maxDelta int // of the workers' producers; 1 keeps deltas apart

	maxSessionChunks int64
	tokensPerDay     func(tenant string) int64
	now              func() time.Time
	tracer           trace.TracerProvider
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvIn(t, jetstream.FileStorage)
}

func newEnvIn(t *testing.T, storage jetstream.StorageType) *env {
	t.Helper()
	return &env{Stack: stack.Start(t, stack.Options{Topology: topology.Config{Storage: storage}}), t: t}
}

// process is a worker with its own connection, like a separate process.
type process struct {
	*Workers
	*stack.Process
}

func (w *env) worker(agents map[string]Agent) *process {
	w.t.Helper()
	p := w.NewProcess(natsauth.Worker)
	made, err := New(p.JS, Config{
		Agents: agents, ShutdownTimeout: 2 * time.Second, MaxTakeovers: Off,
		Lease: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond, RetryTimeout: 10 * time.Second, maxDelta: w.maxDelta, MaxSessionChunks: w.maxSessionChunks,
		TokensPerDay: w.tokensPerDay, now: w.now, TracerProvider: w.tracer,
		Log: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = made.Close() })
	return &process{made, p}
}

// serve runs the worker until the test ends or the process is killed or stopped.
func (w *env) serve(p *process) *process {
	p.Go(p.Run)
	return p
}

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

func types(bodies []chunk.Body) string {
	var names []string
	for _, b := range bodies {
		names = append(names, string(chunk.Chunk{Body: b}.Type()))
	}
	return strings.Join(names, " ")
}

// transcript returns the conversation, one line for each part.
func transcript(snap fold.Snapshot) string {
	var lines []string
	for _, m := range withoutBoundaries(snap.Messages(0)) {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				lines = append(lines, fmt.Sprintf("%s: %s(%s) %s %s%s", m.Role, p.Call.Name, p.Call.Input, p.Call.State, []byte(p.Call.Output), p.Call.Error))
			case p.Text != "":
				lines = append(lines, fmt.Sprintf("%s: %s", m.Role, p.Text))
			default:
				lines = append(lines, fmt.Sprintf("%s: %s", m.Role, p.AppendJSON(nil)))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func (w *env) answer(a control.Answer) {
	w.t.Helper()
	if err := w.Inbox.Answer(w.t.Context(), a); err != nil {
		w.t.Fatal(err)
	}
}

// awaitNoCommand waits until the worker of a session has acknowledged its command.
func (w *env) awaitNoCommand(c control.Command) {
	w.t.Helper()
	natstest.Eventually(w.t, "no command", func(ctx context.Context) error {
		switch there, _, err := w.Queue.Pending(ctx, c.Session, c.AgentType); {
		case errors.Is(err, control.ErrNoCommand):
			return nil
		case err != nil:
			return err
		default:
			return fmt.Errorf("command %s is on the queue", there.EventID())
		}
	})
}

// resume requests a Resume, as the client that stored the last answer does.
func (w *env) resume(s chunk.Session, agent, run string) {
	w.t.Helper()
	err := w.Queue.Request(w.t.Context(), control.Command{
		Kind: control.Resume, Session: s, AgentType: agent, RunID: control.ResumeRunID(run), Resumes: run,
	}, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok && busy.Command.RunID == run {
		err = w.Queue.Request(w.t.Context(), control.Command{
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

var lastName atomic.Int64

// uniqueName returns a name that no other test uses.
func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d", prefix, lastName.Add(1)) }
